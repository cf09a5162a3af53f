"""The figures of the experiments on predicted scenes."""

from collections.abc import Mapping

from torch import Tensor

from torchsets.lab.experiments.objects import NEAR, object_frames
from torchsets.lab.experiments.outcomes import precision_lines
from torchsets.lab.experiments.scenes.configs import THRESHOLDS
from torchsets.lab.records import Recorder
from torchsets.padded import SetBatch, Trajectory

_SHOWN = (0, 2, 4)  # thresholds with a panel


def draw_precision(recorder: Recorder, objects: str, curves: Mapping[str, Tensor]) -> None:
    """Show average precision (T+1, thresholds) over the steps of the descent, for each model."""
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
