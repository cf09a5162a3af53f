"""The figures of the experiments on sets that are predicted from pictures."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from torchsets.lab.experiments.objects import NEAR, object_frames
from torchsets.lab.experiments.outcomes import Measure, precision_lines, single_precisions
from torchsets.lab.experiments.pictures.data import Split
from torchsets.lab.figures import (
    Boxes,
    BoxSet,
    CursorLines,
    FramePanel,
    Frames,
    Heatmaps,
    Line,
    Matrix,
    MovingBoxes,
    MovingMatrix,
    Slider,
)
from torchsets.lab.records import Recorder
from torchsets.padded import SetPrediction, Trajectory

_SHOWN = (0, 2, 4)  # thresholds with a panel
_DRAWN = 3
_WORST = 9
_PIXELS = 64  # along each side of a drawn picture


def draw_precision(
    recorder: Recorder, columns: Sequence[str], curves: Mapping[str, Tensor]
) -> None:
    """Show average precision (T+1, thresholds) over the steps of the descent, if one descends."""
    if all(len(curve) == 1 for curve in curves.values()):
        return
    recorder.add_figure(
        "precision",
        precision_lines(curves, {index: columns[index] for index in _SHOWN}),
        title="Average precision over the steps",
        caption="Average precision of the first test pictures after each step of the descent. "
        "Dashed: models without steps.",
        alt="Curves of the average precision over the steps of the descent, one for each model.",
    )


def draw_pictures(
    recorder: Recorder, target: str, ways: Mapping[str, Trajectory], test: Split
) -> None:
    """Show the first pictures, and what is predicted for them after every step.

    Boxes are shares of the picture's sides, here and below.
    """
    label, way = max(ways.items(), key=lambda one: len(one[1].elements))  # the first of the longest
    for index in range(min(_DRAWN, len(test.images))):
        wanted = test.sets.elements[index, test.sets.mask[index]]
        picture = grey(test.images[index])
        if target == "states":
            panel = MovingMatrix([picture], range=(0.0, 1.0), title="picture")
            frames = object_frames(label, way, index, wanted, first=panel)
        else:
            frames = box_frames(label, way, index, wanted, picture)
        recorder.add_figure(
            f"picture {index + 1}",
            frames,
            title="A picture, and what is predicted"
            + " after every step" * (len(way.elements) > 1)
            + f": number {index + 1}",
            caption=_CAPTIONS[target] + " Not chosen: one of the first pictures of the test.",
            alt="A grey picture of a scene, and predictions that move while the slider is moved.",
        )


_CAPTIONS = {
    "states": "Rings: the objects of the scene from above. Dots: the slots of the prediction, as "
    "opaque as they are present. Below, for each true object, what is said about it by the slot "
    "that the best matching gives it; wrong attributes are in brackets with what would be right. "
    f"Near: within {NEAR:g} of the right position, and present.",
    "boxes": "Predicted boxes over the picture: blue ones are present, red ones are not. Beside "
    "them the true boxes.",
}


def box_frames(
    label: str, way: Trajectory, index: int, wanted: Tensor, picture: list[list[float]]
) -> Frames:
    """The predicted boxes over the picture step by step, and the true ones (n, 4)."""
    boxes, presence = way.elements[:, index].clamp(0, 1), way.presence[:, index].clamp(0, 1)
    steps = list(range(len(boxes)))
    panels: list[FramePanel] = [
        MovingBoxes(boxes.tolist(), presence.tolist(), title=label, picture=picture),
        MovingBoxes([wanted.tolist()], [[1.0] * len(wanted)], title="true", picture=picture),
    ]
    if len(steps) > 1:
        loss = way.loss[:, index].clamp(min=1e-12).log10().tolist()
        line = Line(steps[:-1], loss, label=label)
        panels.append(CursorLines([line], title="log10 of the representation loss", x_label="step"))
    return Frames(Slider("step of the descent", steps), panels, start=len(steps) - 1)


def draw_worst(
    recorder: Recorder,
    target: str,
    ways: Mapping[str, Trajectory],
    test: Split,
    precision: Measure,
) -> None:
    """Show the pictures with the least average precision of the first model, and its boxes."""
    label, way = next(iter(ways.items()))
    last = SetPrediction(way.elements[-1], way.presence[-1])
    values = single_precisions(last, test.sets, precision).mean(dim=1)
    titles = {
        place: f"number {place + 1}: {values[place]:.0f} %, "
        f"{int(test.sets.mask[place].sum())} objects"
        for place in values.argsort(stable=True)[:_WORST].tolist()
    }
    caption = (
        f"The {len(titles)} of the first {len(values)} test pictures with the least mean of the "
        "average precisions over the thresholds, and that mean."
    )
    figure: Heatmaps | Boxes
    if target == "states":
        panels = [Matrix(grey(test.images[place]), title=titles[place]) for place in titles]
        figure = Heatmaps(panels, range=(0.0, 1.0))
    else:
        boxes, presence = last.elements.clamp(0, 1), last.presence.clamp(0, 1)
        figure = Boxes(
            [
                BoxSet(
                    boxes[place].tolist(),
                    title=titles[place],
                    weights=presence[place].tolist(),
                    picture=grey(test.images[place]),
                )
                for place in titles
            ],
            columns=3,
        )
        caption += " Predicted boxes: blue ones are present, red ones are not."
    recorder.add_figure(
        "worst",
        figure,
        title=f"The pictures that {label} predicts worst",
        caption=caption,
        alt="Grey pictures of scenes" + ", and predicted boxes" * (target == "boxes") + ".",
    )


def grey(image: Tensor) -> list[list[float]]:
    """A picture (3, H, W), uint8, as rows of grey values from 0 to 1, at most 64 of them."""
    weights = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)
    values = (weights * image).sum(dim=0) / 255
    factor = max(1, len(values) // _PIXELS)
    rows: list[list[float]] = values[::factor, ::factor].tolist()
    return rows
