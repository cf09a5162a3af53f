"""The figures of the experiments on predicted scenes."""

from collections.abc import Mapping

from torch import Tensor

from torchsets.lab.experiments.objects import NEAR, object_frames
from torchsets.lab.experiments.outcomes import precision_lines
from torchsets.lab.experiments.scenes.configs import THRESHOLDS
from torchsets.lab.figures import Line, Lines, Panel
from torchsets.lab.records import Recorder
from torchsets.padded import SetBatch, Trajectory

_SHOWN = (0, 2, 4)  # thresholds with a panel


def draw_precision(recorder: Recorder, objects: str, curves: Mapping[str, Tensor]) -> None:
    """Show average precision (T+1, thresholds) over the steps of the descent, if one descends."""
    if all(len(curve) == 1 for curve in curves.values()):
        return
    recorder.add_figure(
        f"precision {objects}",
        precision_lines(curves, {index: f"AP_{THRESHOLDS[index]:g}" for index in _SHOWN}),
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
    recorder.add_figure(
        f"scene {index + 1} of {objects}",
        object_frames(label, way, index, target),
        title=f"A scene after every step: number {index + 1} with {objects} objects",
        caption="Rings: the objects of a test scene from above. Dots: the slots of the prediction, "
        "as opaque as they are present. Below, for each true object, what is said about it by the "
        "slot that the best matching gives it; wrong attributes are in brackets with what would be "
        f"right. Near: within {NEAR:g} of the right position, and present. Not chosen: one of the "
        "first scenes of the test.",
        alt="A scatter plot whose dots move into rings, and a table of objects by attributes that "
        "fills with ones.",
    )


def draw_ways(
    recorder: Recorder,
    name: str,
    label: str,
    curves: Mapping[str, list[tuple[float, list[float]]]],
) -> None:
    """Show what each way to descend reaches after how many steps: (steps, precisions)."""
    panels = [
        Panel(
            [
                Line(
                    [steps for steps, _ in points],
                    [values[index] for _, values in points],
                    label=kind,
                )
                for kind, points in ((kind, sorted(curves[kind])) for kind in curves)
            ],
            title=f"AP_{THRESHOLDS[index]:g}",
            x_label="mean number of steps of a set",
            y_label="%",
        )
        for index in _SHOWN
    ]
    recorder.add_figure(
        f"ways of {name}",
        Lines(panels, columns=3),
        title=f"Precision against steps: {label}",
        caption="Average precision over the test scenes against the mean number of gradient steps "
        "that a set took. Steps of Barzilai and Borwein cost as much as plain ones; several starts "
        "cost the steps of each.",
        alt="Curves of the average precision against the number of steps, one for each way to "
        "descend.",
    )
