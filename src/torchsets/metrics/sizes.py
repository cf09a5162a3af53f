"""Whether predicted sets have the right number of elements."""

import torch
from torch import Tensor

from torchsets._checks import check_floating, check_mask


def set_size_accuracy(presence: Tensor, target_mask: Tensor, *, threshold: float = 0.5) -> Tensor:
    """Share of the predicted sets that have as many elements as their target.

    Args:
        presence: How much each slot of a prediction exists, (B, N), floating point from 0 to 1.
        target_mask: True where an element of the target is real, (B, M), bool.
        threshold: Presence from which on a slot counts as an element.

    Returns:
        The share, a scalar from 0 to 1. Without any set it is 0.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> presence = torch.tensor([[0.9, 0.2], [0.9, 0.8]])
        >>> set_size_accuracy(presence, torch.tensor([[True, False], [False, False]]))
        tensor(0.5000)
    """
    predicted, wanted = _sizes(presence, target_mask, threshold)
    return _mean(predicted == wanted, presence)


def set_size_error(presence: Tensor, target_mask: Tensor, *, threshold: float = 0.5) -> Tensor:
    """Mean absolute difference between the sizes of predicted sets and those of their targets.

    Args:
        presence: How much each slot of a prediction exists, (B, N), floating point from 0 to 1.
        target_mask: True where an element of the target is real, (B, M), bool.
        threshold: Presence from which on a slot counts as an element.

    Returns:
        The mean number of elements too many or too few, a scalar. Without any set it is 0.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> presence = torch.tensor([[0.9, 0.2], [0.9, 0.8]])
        >>> set_size_error(presence, torch.tensor([[True, False], [False, False]]))
        tensor(1.)
    """
    predicted, wanted = _sizes(presence, target_mask, threshold)
    return _mean((predicted - wanted).abs(), presence)


def _mean(counts: Tensor, like: Tensor) -> Tensor:
    """In float32 at least: half precision has no number above 65504."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    return counts.sum().to(dtype) / max(1, len(counts))


def _sizes(presence: Tensor, target_mask: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """How many elements predictions and targets have, (B,) each."""
    if presence.ndim != 2:
        raise ValueError(f"presence must have shape (B, N), got {tuple(presence.shape)}")
    check_floating(presence, name="presence")
    wanted = torch.Size((len(presence), *target_mask.shape[-1:]))
    check_mask(target_mask, wanted, name="target_mask", of="presence")
    return (presence >= threshold).sum(dim=1), target_mask.sum(dim=1)
