"""The figures of the experiment on questions about scenes."""

from collections.abc import Mapping

import torch
from torch import Tensor

from torchsets.data.questions import ANSWERS
from torchsets.data.scenes import ATTRIBUTES, VALUES
from torchsets.lab.experiments.clevr.data import Asked
from torchsets.lab.figures import (
    Frames,
    Line,
    Lines,
    MovingBars,
    MovingPoints,
    Panel,
    Slider,
)
from torchsets.lab.records import Recorder

_FUNCTIONS = 48
_MISTAKES = 24
_COLUMNS = 6


def draw_weights(recorder: Recorder, weight: Tensor) -> None:
    """Show the learned weight functions (D, points) with the largest norms."""
    values = weight.detach().cpu()
    used = values.abs().sum(dim=1).argsort(descending=True)[:_FUNCTIONS]
    positions = torch.linspace(0, 1, values.shape[1]).tolist()
    panels = [
        Panel([Line(positions, values[place].tolist())], title=f"feature {int(place) + 1}")
        for place in used
    ]
    recorder.add_figure(
        "weight-functions",
        Lines(panels, columns=_COLUMNS),
        title="What FSPool has learned to do with the sorted values",
        caption=f"The {len(panels)} weight functions with the largest weights, from the largest "
        "value (0) to the smallest (1). All start as the constant 1, which is a sum.",
        alt="Small panels with one piecewise linear function each.",
    )


def draw_families(recorder: Recorder, row: str, accuracies: Mapping[str, float]) -> None:
    """Show the accuracy of each family of questions."""
    places = list(range(1, len(accuracies) + 1))
    lines = [
        Line([0, value], [place, place], label=f"{place} {name}" if len(places) <= 24 else "")
        for place, (name, value) in zip(places, accuracies.items(), strict=True)
    ]
    recorder.add_figure(
        f"families {row}",
        Lines([Panel(lines, x_label="accuracy in %", y_label="family", x_range=(0, 100))]),
        title=f"Accuracy by family of questions, {row}",
        caption="One bar for each family: its group, what is asked, and about which attribute.",
        alt="Horizontal bars, one for each family of questions.",
    )


def draw_mistakes(recorder: Recorder, row: str, asked: Asked, given: Tensor) -> None:
    """Show wrongly answered questions with their scenes from above, one after the other."""
    wrong = (given != asked.column("answers")).nonzero().squeeze(1)
    if not len(wrong):
        return
    spread = torch.linspace(0, len(wrong) - 1, min(_MISTAKES, len(wrong))).round().long()
    points, bars, texts = [], [], []
    for place in wrong[spread].tolist():
        question = asked.questions[place]
        scene = asked.scenes[int(asked.place[question.scene])]
        points.append(scene.positions[:, :2].tolist())
        bars.append([2.0 if small == 0 else 1.0 for small in scene.attributes[:, 3].tolist()])
        texts.append(
            f"{question.text} Given: {ANSWERS[int(given[place])]}. Right: {question.answer}. "
            f"Objects: {'; '.join(_names(scene.attributes))}."
        )
    width = max(len(one) for one in bars)
    recorder.add_figure(
        f"mistakes {row}",
        Frames(
            Slider("question", list(range(1, len(points) + 1))),
            [
                MovingPoints(points, (-3.5, 3.5), title="the scene from above"),
                MovingBars(
                    [one + [None] * (width - len(one)) for one in bars],
                    (0, 2),
                    title="size of each object",
                ),
            ],
            texts=texts,
        ),
        title=f"Wrong answers, {row}",
        caption=f"{len(points)} of the {len(wrong)} wrong answers. Objects have the letters of the "
        "list, in its order.",
        alt="Objects of a scene as points in the plane, with the question and both answers below.",
    )


def _names(attributes: Tensor) -> list[str]:
    """Each object in words."""
    order = ("size", "color", "material", "shape")
    return [
        " ".join(VALUES[name][one[ATTRIBUTES.index(name)]] for name in order)
        for one in attributes.tolist()
    ]
