"""The figures of the experiment on questions about scenes."""

from collections.abc import Mapping

import torch
from torch import Tensor

from torchsets.data.questions import ANSWERS
from torchsets.data.scenes import ATTRIBUTES, BEHIND, RIGHT, VALUES
from torchsets.lab.experiments.clevr.data import Asked
from torchsets.lab.figures import Frames, Line, Lines, MovingPoints, Panel, Slider
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
    lines = [
        Line([0, value], [place, place], black=True)
        for place, value in enumerate(accuracies.values(), start=1)
    ]
    names = "; ".join(f"{place} {name}" for place, name in enumerate(accuracies, start=1))
    recorder.add_figure(
        f"families {row}",
        Lines([Panel(lines, x_label="accuracy in %", y_label="family", x_range=(0, 100))]),
        title=f"Accuracy by family of questions, {row}",
        caption=f"One bar for each family: {names}.",
        alt="Horizontal bars, one for each family of questions.",
    )


def draw_mistakes(recorder: Recorder, row: str, asked: Asked, given: Tensor) -> None:
    """Show wrongly answered questions with their scenes from above, one after the other."""
    wrong = (given != asked.column("answers")).nonzero().squeeze(1)
    if not len(wrong):
        return
    spread = torch.linspace(0, len(wrong) - 1, min(_MISTAKES, len(wrong))).round().long()
    points, texts = [], []
    for place in wrong[spread].tolist():
        question = asked.questions[place]
        scene = asked.scenes[int(asked.place[question.scene])]
        seen = _from_the_camera(scene.positions[:, :2])
        order = seen[:, 0].argsort()
        points.append(seen[order].tolist())
        texts.append(
            f"{question.text} Given: {ANSWERS[int(given[place])]}. Right: {question.answer}. "
            f"Objects from left to right: {'; '.join(_names(scene.attributes[order]))}."
        )
    recorder.add_figure(
        f"mistakes {row}",
        Frames(
            Slider("question", list(range(1, len(points) + 1))),
            [MovingPoints(points, (-4.5, 4.5), title="the scene from above")],
            texts=texts,
        ),
        title=f"Wrong answers, {row}",
        caption=f"{len(points)} of the {len(wrong)} wrong answers. Above is behind, as the camera "
        "sees it; the objects are listed from left to right.",
        alt="Objects of a scene as points in the plane, with the question and both answers above.",
    )


def _from_the_camera(plane: Tensor) -> Tensor:
    """Turn places (n, 2) so that right is to the right and behind is above."""
    return plane @ torch.tensor([RIGHT, BEHIND]).T


def _names(attributes: Tensor) -> list[str]:
    """Each object in words."""
    order = ("size", "color", "material", "shape")
    return [
        " ".join(VALUES[name][one[ATTRIBUTES.index(name)]] for name in order)
        for one in attributes.tolist()
    ]
