"""The figures of the experiments on predicted scenes."""

from collections.abc import Mapping

import torch
from torch import Tensor

from torchsets.data.scenes import VALUES
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
from torchsets.losses import assign
from torchsets.losses.elements import cost_matrix
from torchsets.metrics.average_precision import ATTRIBUTES, POSITION, STATE_SCALE
from torchsets.padded import SetBatch, Trajectory

_ORDER = ("material", "color", "shape", "size")  # of a state
_SPOKEN = ("size", "color", "material", "shape")
_NEAR = 0.25  # distance, in the units of the scene, up to which a position counts as right
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
            columns=[*_SPOKEN[:1], "colour", *_SPOKEN[2:], "near"],
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
        f"right. Near: within {_NEAR:g} of the right position, and present. Not chosen: one of the "
        "first scenes of the test.",
        alt="A scatter plot whose dots move into rings, and a table of objects by attributes that "
        "fills with ones.",
    )


def match(elements: Tensor, presence: Tensor, target: Tensor) -> Tensor:
    """The slot for each target (n, 18) by the best matching after each step, (T+1, n)."""
    slots = torch.cat([elements, presence.unsqueeze(-1)], dim=-1)
    wanted = torch.cat([target, target.new_ones(len(target), 1)], dim=-1)
    cost = cost_matrix("huber", wanted.expand(len(slots), -1, -1), slots)
    return assign(cost)


def compare(chosen: Tensor, presence: Tensor, target: Tensor) -> Tensor:
    """Which of size, colour, material, shape and position are right, (T+1, n, 5), bool."""
    parts = dict(zip(_ORDER, ATTRIBUTES, strict=True))
    same = [
        chosen[..., parts[name]].argmax(dim=-1) == target[:, parts[name]].argmax(dim=-1)
        for name in _SPOKEN
    ]
    offset = chosen[..., POSITION] - target[:, POSITION]
    near = STATE_SCALE * torch.linalg.vector_norm(offset, dim=-1) <= _NEAR
    return torch.stack([*same, near & (presence >= 0.5)], dim=-1)


def describe(chosen: Tensor, right: Tensor, target: Tensor) -> str:
    """Name the objects (n, 18), those attributes in brackets that are not right (n, 5)."""
    parts = dict(zip(_ORDER, ATTRIBUTES, strict=True))
    objects = []
    for place, (one, marks, wanted) in enumerate(zip(chosen, right.tolist(), target, strict=True)):
        words = []
        for name, fits in zip(_SPOKEN, marks[:-1], strict=True):
            said = VALUES[name][int(one[parts[name]].argmax())]
            true = VALUES[name][int(wanted[parts[name]].argmax())]
            words.append(said if fits else f"[{said}, not {true}]")
        objects.append(f"{place + 1} " + " ".join(words) + " [misplaced]" * (not marks[-1]))
    return "; ".join(objects) + "."
