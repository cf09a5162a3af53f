"""Whether a decoder that descends arrives: its loss and its movement, step by step."""

from typing import NamedTuple

from torch import Tensor

from torchsets.padded import Trajectory


class DescentProgress(NamedTuple):
    """What each of T steps did, over the sets of a batch.

    Attributes:
        loss: Mean loss before each step, (T,).
        movement: Mean over the sets of the largest change of any number of a set, (T,).
        at_rest: Share of the sets that the step hardly changed, (T,), from 0 to 1.
    """

    loss: Tensor
    movement: Tensor
    at_rest: Tensor


def descent_progress(trajectory: Trajectory, *, tolerance: float = 1e-3) -> DescentProgress:
    """Say how far the sets of a batch are from a minimum, step by step.

    A set is at rest when a step changes none of its numbers, presences included, by more than the
    tolerance. A low loss without rest means that more steps would still change the prediction;
    rest at a high loss means a local minimum, or a step size that is too small.

    Args:
        trajectory: Of a prediction, such as ``decoder(vector).trajectory`` of a DSPN.
        tolerance: The largest change of a set at rest, in the units of its elements.

    Returns:
        One number for each step. Without any set they are 0.

    Raises:
        ValueError: If the tolerance is below 0.

    Example:
        >>> import torch
        >>> elements = torch.tensor([1.0, 0.5, 0.5]).view(3, 1, 1, 1)  # 2 steps of one set
        >>> way = Trajectory(elements, torch.ones(3, 1, 1), torch.tensor([[0.2], [0.1]]))
        >>> descent_progress(way).at_rest
        tensor([0., 1.])
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0, got {tolerance}")
    elements, presence, loss = trajectory
    if 0 in elements.shape[1:3]:  # no sets, or no slots
        nothing = loss.new_zeros(loss.shape[0])
        return DescentProgress(nothing, nothing, nothing)
    moved = elements.diff(dim=0).abs().flatten(2).amax(dim=2)  # (T, B)
    moved = moved.maximum(presence.diff(dim=0).abs().amax(dim=2))
    at_rest = (moved <= tolerance).to(loss.dtype)
    return DescentProgress(loss.mean(dim=1), moved.mean(dim=1), at_rest.mean(dim=1))
