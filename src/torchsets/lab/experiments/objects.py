"""Sets of the objects of scenes: how they are encoded, compared, and told in words."""

from functools import partial

import torch
from torch import Tensor, nn

from torchsets.data.scenes import VALUES
from torchsets.encoders import DeepSets
from torchsets.encoders.relu import ReLU
from torchsets.lab.figures import (
    CursorLines,
    FramePanel,
    Frames,
    Line,
    MovingMatrix,
    MovingPoints,
    Slider,
)
from torchsets.losses import assign, hungarian_loss
from torchsets.losses.elements import cost_matrix
from torchsets.metrics.average_precision import ATTRIBUTES, POSITION, STATE_SCALE
from torchsets.mlp import MLP
from torchsets.padded import Trajectory
from torchsets.pooling import FSPool, MaxPool, SumPool

REACH = 1.1  # of the axes around positions
NEAR = 0.25  # distance, in the units of the scene, up to which a position counts as right
SPOKEN = ("size", "color", "material", "shape")
_ORDER = ("material", "color", "shape", "size")  # of a state

matching_error = partial(hungarian_loss, element="huber", reduction="mean")
"""Huber of the best matching, mean over features and pairs."""


def set_encoder(inputs: int, hidden: int, latent: int, *, slots: int, pooling: str) -> nn.Module:
    """Two layers on each slot, and a pooling over all of them; an FSPool has a weight per rank."""
    pool: nn.Module
    if pooling == "fspool":
        pool = FSPool(latent, pieces=slots - 1)
        with torch.no_grad():
            pool.weight.mul_(slots**-0.5)
    else:
        pool = SumPool() if pooling == "sum" else MaxPool()
    return DeepSets(MLP(inputs, hidden, latent, activation=ReLU), pool)


def match(elements: Tensor, presence: Tensor, target: Tensor) -> Tensor:
    """The slot for each target (n, 18) by the best matching after each step, (T+1, n)."""
    slots = torch.cat([elements, presence.unsqueeze(-1)], dim=-1)
    wanted = torch.cat([target, target.new_ones(len(target), 1)], dim=-1)
    cost = cost_matrix("huber", wanted.expand(len(slots), -1, -1), slots)
    return assign(cost, invalid="worst")  # a model that has diverged can be drawn, too


def compare(chosen: Tensor, presence: Tensor, target: Tensor) -> Tensor:
    """Which of size, colour, material, shape and position are right, (T+1, n, 5), bool."""
    parts = dict(zip(_ORDER, ATTRIBUTES, strict=True))
    same = [
        chosen[..., parts[name]].argmax(dim=-1) == target[:, parts[name]].argmax(dim=-1)
        for name in SPOKEN
    ]
    offset = chosen[..., POSITION] - target[:, POSITION]
    near = STATE_SCALE * torch.linalg.vector_norm(offset, dim=-1) <= NEAR
    return torch.stack([*same, near & (presence >= 0.5)], dim=-1)


def describe(chosen: Tensor, right: Tensor, target: Tensor) -> str:
    """Name the objects (n, 18), those attributes in brackets that are not right (n, 5)."""
    parts = dict(zip(_ORDER, ATTRIBUTES, strict=True))
    objects = []
    for place, (one, marks, wanted) in enumerate(zip(chosen, right.tolist(), target, strict=True)):
        words = []
        for name, fits in zip(SPOKEN, marks[:-1], strict=True):
            said = VALUES[name][int(one[parts[name]].argmax())]
            true = VALUES[name][int(wanted[parts[name]].argmax())]
            words.append(said if fits else f"[{said}, not {true}]")
        objects.append(f"{place + 1} " + " ".join(words) + " [misplaced]" * (not marks[-1]))
    return "; ".join(objects) + "."


def object_frames(
    label: str, way: Trajectory, index: int, target: Tensor, *, first: FramePanel | None = None
) -> Frames:
    """One scene from above, and which attributes of its objects (n, 18) are right, step by step.

    Args:
        label: Of the model.
        way: Its predictions for some scenes after every step.
        index: Which of these scenes.
        target: Its objects.
        first: A panel to stand before the others, such as the picture.
    """
    elements, presence = way.elements[:, index], way.presence[:, index]
    steps = list(range(len(elements)))
    matched = match(elements, presence, target)  # (T+1, objects)
    chosen = elements.take_along_dim(matched.unsqueeze(-1), dim=1)
    right = compare(chosen, presence.take_along_dim(matched, dim=1), target)
    panels: list[FramePanel] = [] if first is None else [first]
    panels += [
        MovingPoints(
            elements[..., :2].tolist(),
            range=(-REACH, REACH),
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
    return Frames(
        Slider("step of the descent", steps),
        panels,
        texts=[
            f"After step {step}: " + describe(chosen[step], right[step], target) for step in steps
        ],
        start=len(steps) - 1,
    )
