"""Regular polygons as sets of points, turned by any angle."""

import math

import torch
from torch import Tensor

from torchsets._checks import check_counts


def turned_polygons(angles: Tensor, size: int) -> Tensor:
    """Return regular polygons around 0 with radius 1, each turned by its angle.

    Args:
        angles: Angles in radians, (B,), floating point.
        size: Number of corners N.

    Returns:
        The corners, (B, N, 2), counterclockwise from the angle itself.

    Example:
        >>> turned_polygons(torch.zeros(1), 2).round()
        tensor([[[ 1.,  0.],
                 [-1., -0.]]])
    """
    check_counts(size=size)
    corners = torch.arange(size, dtype=angles.dtype, device=angles.device) * (2 * math.pi / size)
    turned = angles.unsqueeze(-1) + corners  # (B, N)
    return torch.stack([turned.cos(), turned.sin()], dim=-1)


def random_polygons(count: int, size: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Draw regular polygons with any rotation and their corners in any order, (count, size, 2).

    Example:
        >>> random_polygons(16, 4).shape
        torch.Size([16, 4, 2])
    """
    angles = torch.rand(count, generator=generator) * (2 * math.pi)
    order = torch.rand(count, size, generator=generator).argsort(dim=1)
    return turned_polygons(angles, size).take_along_dim(order.unsqueeze(-1), dim=1)
