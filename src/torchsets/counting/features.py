"""A count as a vector: one entry per whole number, between two of them interpolated."""

import torch
from torch import Tensor

from torchsets._checks import check_floating


def count_features(count: Tensor, *, objects: int) -> Tensor:
    """Turn counts into vectors with ``max(0, 1 - abs(count - i))`` at entry i.

    At a whole number the gradient is that of the next larger count; at ``objects`` it is 0.

    Args:
        count: Counts of any shape, floating point; those outside [0, objects] count as the end.
        objects: Largest count.

    Returns:
        The vectors, (..., objects + 1), which add up to 1.

    Raises:
        ValueError: If ``count`` is not floating point.

    Example:
        >>> count_features(torch.tensor([2.0, 0.75]), objects=3)
        tensor([[0.0000, 0.0000, 1.0000, 0.0000],
                [0.2500, 0.7500, 0.0000, 0.0000]])
    """
    check_floating(count, name="count")
    count = count.clamp(0, objects).unsqueeze(-1)
    below = count.detach().floor()
    rest = count - below
    number = torch.arange(objects + 1, device=count.device, dtype=count.dtype)
    above = (below + 1).clamp(max=objects)
    return torch.where(number == below, 1 - rest, 0) + torch.where(number == above, rest, 0)
