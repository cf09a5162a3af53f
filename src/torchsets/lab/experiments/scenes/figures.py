"""The figures of the experiments on predicted scenes."""

from collections.abc import Mapping

from torch import Tensor

from torchsets.lab.experiments.objects import NEAR, SPOKEN, compare, describe, match
from torchsets.lab.experiments.scenes.configs import THRESHOLDS
from torchsets.lab.figures import (
    CursorLines,
    Frames,
    Line,
    Lines,
    MovingMatrix,
    MovingPoints,
    Panel,
    Slider,
)
from torchsets.lab.records import Recorder
from torchsets.padded import SetBatch, Trajectory

_SHOWN = (0, 2, 4)  # thresholds with a panel


def draw_precision(recorder: Recorder, objects: str, curves: Mapping[str, Tensor]) -> None:
    """Show average precision (T+1, thresholds) over the steps of the descent, for each model."""
    last = max(len(curve) for curve in curves.values()) - 1
    panels = [
        Panel(
            [
                Line(
                    list(range(len(curve))) if len(curve) > 1 else [0, last],
                    curve[:, index].tolist() * (1 if len(curve) > 1 else 2),
                    label=label,
                    dashed=len(curve) == 1,
                )
                for label, curve in curves.items()
            ],
            title=f"AP_{THRESHOLDS[index]:g}",
            x_label="steps of the descent",
            y_label="%",
            y_range=(0, 100),
        )
        for index in _SHOWN
    ]
    recorder.add_figure(
        f"precision {objects}",
        Lines(panels, columns=3),
        title=f"Average precision over the steps, {objects} objects",
        caption="Average precision of the first test scenes after each step of the descent. "
        "Dashed: models without steps. A descent that goes on after the steps it was trained with, "
        "and gets better, goes to a minimum.",
        alt="Curves of the average precision over the steps of the descent, one for each model.",
    )


def draw_scene(
    recorder: Recorder, objects: str, ways: Mapping[str, Trajectory], test: SetBatch, index: int
) -> None:
    """Show one scene from above, and which attributes are right, for a slider over the steps."""
    target = test.elements[index, test.mask[index]]
    label, way = max(ways.items(), key=lambda one: len(one[1].elements))  # the first of the longest
    elements, presence = way.elements[:, index], way.presence[:, index]
    steps = list(range(len(elements)))
    matched = match(elements, presence, target)  # (T+1, objects)
    chosen = elements.take_along_dim(matched.unsqueeze(-1), dim=1)
    right = compare(chosen, presence.take_along_dim(matched, dim=1), target)
    reach = 1.1
    panels: list[MovingPoints | MovingMatrix | CursorLines] = [
        MovingPoints(
            elements[..., :2].tolist(),
            range=(-reach, reach),
            title=f"{label}: positions from above",
            targets=[target[:, :2].tolist()],
            slots=list(range(elements.shape[1])),
            values=presence.clamp(0, 1).tolist(),
        ),
        MovingMatrix(
            right.double().tolist(),
            range=(0.0, 1.0),
            title="right (1) and wrong (0)",
            rows=[str(place + 1) for place in range(len(target))],
            columns=[*SPOKEN[:1], "colour", *SPOKEN[2:], "near"],
            y_label="object",
        ),
    ]
    if len(steps) > 1:
        loss = way.loss[:, index].clamp(min=1e-12).log10().tolist()
        line = Line(steps[:-1], loss, label=label)
        panels.append(CursorLines([line], title="log10 of the representation loss", x_label="step"))
    recorder.add_figure(
        f"scene {index + 1} of {objects}",
        Frames(
            Slider("step of the descent", steps),
            panels,
            texts=[
                f"After step {step}: " + describe(chosen[step], right[step], target)
                for step in steps
            ],
            start=len(steps) - 1,
        ),
        title=f"A scene after every step: number {index + 1} with {objects} objects",
        caption="Rings: the objects of a test scene from above. Dots: the slots of the prediction, "
        "as opaque as they are present. Below, for each true object, what is said about it by the "
        "slot that the best matching gives it; wrong attributes are in brackets with what would be "
        f"right. Near: within {NEAR:g} of the right position, and present. Not chosen: one of the "
        "first scenes of the test.",
        alt="A scatter plot whose dots move into rings, and a table of objects by attributes that "
        "fills with ones.",
    )
