"""Where the descent of a deep set prediction network begins."""

from collections.abc import Callable

import torch
from torch import Tensor

Project = Callable[[Tensor], Tensor]
"""Elements (B, N, D) to those that are allowed, of the same shape."""


def make_start(
    elements: Tensor,
    presence: Tensor | None,
    batch: int,
    *,
    shape: tuple[int, int],
    project: Project | None,
) -> Tensor:
    """Check the sets before the first step, and bring them to where sets are allowed to be.

    Args:
        elements: One set for each vector or one for all, (B or 1, slots, features).
        presence: Their presences, (B or 1, slots). None: there are none.
        batch: Number of sets B.
        shape: Number of slots and of features.
        project: Applied to the elements.

    Returns:
        The sets, (B, slots, features), or with presences in [0, 1] (B, slots, features + 1).
    """
    if elements.shape[1:] != shape or elements.shape[0] not in (1, batch):
        raise ValueError(
            f"initial elements must have shape (B or 1, slots, features) = "
            f"({batch} or 1, {shape[0]}, {shape[1]}), got {tuple(elements.shape)}"
        )
    start = elements.expand(batch, -1, -1)
    if project is not None:
        start = project(start)
        if start.shape != (batch, *shape):
            raise ValueError(
                f"project must keep the shape (B, slots, features) = {(batch, *shape)}, "
                f"got {tuple(start.shape)}"
            )
    if presence is None:
        return start
    if presence.shape[1:] != shape[:1] or presence.shape[0] not in (1, batch):
        raise ValueError(
            f"initial presence must have shape (B or 1, slots) = ({batch} or 1, {shape[0]}), "
            f"got {tuple(presence.shape)}"
        )
    given = presence.clamp(0, 1).to(start.dtype).expand(batch, -1)
    return torch.cat([start, given.unsqueeze(-1)], dim=-1)
