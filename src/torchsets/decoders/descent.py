"""Gradient descent on sets: the loop of a deep set prediction network."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import is_traced
from torchsets.decoders.set_gradient import InnerLoss, set_gradient
from torchsets.decoders.start import Project
from torchsets.padded import SetPrediction, Trajectory


class Descent(NamedTuple):
    """How to descend; see :class:`torchsets.decoders.DSPN` for what the options do.

    Attributes:
        steps: Number of steps T, at least 1.
        step_size: Factor on the gradient of one set's loss.
        momentum: Nesterov's, from 0 to below 1.
        clip: Largest norm of one set's gradient. None: no limit.
        tolerance: A set whose loss is below it stops moving. None: no set stops.
        project: Applied to the elements, without presences, after each step.
        presence: Whether the last feature of a set is a presence, from 0 to 1.
        unrolled: Whether the gradient goes back through all steps, or through the last only.
    """

    steps: int
    step_size: float
    momentum: float
    clip: float | None
    tolerance: float | None
    project: Project | None
    presence: bool
    unrolled: bool


def descend(inner: InnerLoss, start: Tensor, rule: Descent) -> SetPrediction:
    """Move sets so that a loss becomes small, such as that of encoding to the given vectors.

    Args:
        inner: The loss of a set.
        start: The sets before the first step, (B, N, D); D includes the presence.
        rule: How to descend.

    Returns:
        The sets after the last step, and in ``trajectory`` those after each step.
    """
    wanted = torch.is_grad_enabled() and (
        start.requires_grad
        or any(tensor.requires_grad for tensor in inner.tensors().values())
        or any(weight.requires_grad for weight in inner.encoder.parameters())
    )
    points = [start if rule.unrolled else start.detach()]
    losses: list[Tensor] = []
    velocity: Tensor | None = None
    moving: Tensor | None = None  # the sets that are not at rest; None: not known
    for step in range(rule.steps):
        point = points[-1]
        record = wanted and (rule.unrolled or step == rule.steps - 1)
        if moving is not None and not record:
            state = _Moving(point, velocity, losses[-1], moving)
            moved, velocity, loss, moving = _move_some(inner, state, rule)
            points.append(moved)
            losses.append(loss)
            continue
        loss, slope = set_gradient(inner, point, record=record)
        moved, velocity, still = _move(point, slope, velocity, loss, rule)
        if not rule.unrolled:
            loss, moved = loss.detach(), moved.detach()
            velocity = None if velocity is None else velocity.detach()
            if record:
                # The minimum moves like q, one plain step from here.
                q = _bring_back(point - slope, rule) - point
                moved = moved + (q - q.detach())
        if still is not None and not is_traced():
            moving = (~still).nonzero().squeeze(1)
        points.append(moved)
        losses.append(loss)
    return _prediction(points, losses, rule)


class _Moving(NamedTuple):
    """Sets on their way: where they are, their velocities and losses, and which still move."""

    point: Tensor
    velocity: Tensor | None
    loss: Tensor
    rows: Tensor


def _move_some(inner: InnerLoss, state: _Moving, rule: Descent) -> _Moving:
    """One step without gradients of the sets that still move; the others cost nothing."""
    point, velocity, loss, rows = state
    if len(rows) == 0:
        return state
    some = inner.with_tensors({name: tensor[rows] for name, tensor in inner.tensors().items()})
    own_loss, slope = set_gradient(some, point[rows], record=False)
    own_velocity = None if velocity is None else velocity[rows]
    moved, own_velocity, still = _move(point[rows], slope, own_velocity, own_loss, rule)
    if velocity is not None and own_velocity is not None:
        velocity = velocity.index_copy(0, rows, own_velocity)
    return _Moving(
        point.index_copy(0, rows, moved),
        velocity,
        loss.index_copy(0, rows, own_loss),
        rows if still is None else rows[~still],
    )


def _move(
    point: Tensor, slope: Tensor, velocity: Tensor | None, loss: Tensor, rule: Descent
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """One step: the new sets, their velocities, and which sets stay where they are."""
    direction = slope
    if rule.clip is not None:
        norm = torch.linalg.vector_norm(slope, dim=(1, 2), keepdim=True)
        direction = slope * (rule.clip / norm.clamp(min=rule.clip))
    if rule.momentum > 0:
        velocity = direction if velocity is None else rule.momentum * velocity + direction
        direction = direction + rule.momentum * velocity
    moved = _bring_back(point - rule.step_size * direction, rule)
    if rule.tolerance is None:
        return moved, velocity, None
    still = loss.detach() < rule.tolerance
    return torch.where(still[:, None, None], point, moved), velocity, still


def _bring_back(sets: Tensor, rule: Descent) -> Tensor:
    """Project the elements, and bring the presences back into [0, 1]."""
    if not rule.presence:
        return sets if rule.project is None else rule.project(sets)
    elements = sets[..., :-1] if rule.project is None else rule.project(sets[..., :-1])
    return torch.cat([elements, sets[..., -1:].clamp(0, 1)], dim=-1)


def _prediction(points: list[Tensor], losses: list[Tensor], rule: Descent) -> SetPrediction:
    way, final = torch.stack(points), points[-1]
    if rule.presence:
        trajectory = Trajectory(way[..., :-1], way[..., -1], torch.stack(losses))
        return SetPrediction(final[..., :-1], final[..., -1], trajectory)
    ones = way.new_ones(way.shape[:-1])
    return SetPrediction(final, ones[-1], Trajectory(way, ones, torch.stack(losses)))
