"""Axis-aligned boxes (x1, y1, x2, y2): areas, overlaps, greedy non-maximum suppression.

A box whose right edge is not right of its left edge, or whose lower edge is not below its upper
edge, has no area: it overlaps nothing.
"""

import torch
from torch import Tensor

from torchsets._autograd import refuse_recording
from torchsets._checks import check_floating, check_mask

_BLOCK = 128  # boxes that the suppression decides about at once


def box_area(boxes: Tensor) -> Tensor:
    """Width times height of each box, (..., 4) -> (...); 0 for a box without area.

    Example:
        >>> box_area(torch.tensor([[0.0, 0.0, 2.0, 3.0], [1.0, 1.0, 0.0, 5.0]]))
        tensor([6., 0.])
    """
    _check_boxes(boxes, name="boxes")
    x1, y1, x2, y2 = boxes.unbind(-1)
    return (x2 - x1).clamp(min=0) * (y2 - y1).clamp(min=0)


def box_intersection(boxes: Tensor, others: Tensor) -> Tensor:
    """Area that each box shares with each other box, (..., N, 4), (..., M, 4) -> (..., N, M).

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
        >>> box_intersection(boxes, torch.tensor([[1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 6.0, 6.0]]))
        tensor([[1., 0.]])
    """
    _check_pair(boxes, others)
    return _shared_area(boxes.unsqueeze(-2), others.unsqueeze(-3))


def box_iou(
    boxes: Tensor,
    others: Tensor | None = None,
    mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Intersection over union of each box with each other box.

    There is no epsilon: equal boxes overlap by exactly 1, also when their area is tiny. Half
    precision is computed in float32, where the areas of boxes in pixels do not overflow.

    Args:
        boxes: Boxes, (..., N, 4), floating point.
        others: Other boxes, (..., M, 4). None: the same boxes.
        mask: True where a box is real, (..., N), bool. None: all are real.
        other_mask: The same for the other boxes, (..., M); with ``others=None`` it is ``mask``.

    Returns:
        Overlaps from 0 to 1, (..., N, M). A box without area has overlap 0 with every box, itself
        included, and a finite gradient; so has padding.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> box_iou(torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 0.0, 3.0, 2.0]]))
        tensor([[1.0000, 0.3333],
                [0.3333, 1.0000]])
    """
    if others is None:
        others, other_mask = boxes, mask
    _check_pair(boxes, others)
    boxes = _fill(boxes, mask, name="mask", of="boxes").unsqueeze(-2)
    others = _fill(others, other_mask, name="other_mask", of="others").unsqueeze(-3)
    return paired_iou(boxes, others)


def paired_iou(boxes: Tensor, others: Tensor) -> Tensor:
    """Intersection over union of each box with its partner; see :func:`box_iou`.

    Args:
        boxes: Boxes, (..., 4), floating point.
        others: Their partners, (..., 4); the leading axes are broadcast.

    Returns:
        Overlaps from 0 to 1, (...).

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> paired_iou(torch.tensor([0.0, 0.0, 2.0, 2.0]), torch.tensor([1.0, 0.0, 2.0, 2.0]))
        tensor(0.5000)
    """
    dtype = torch.promote_types(boxes.dtype, others.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    boxes, others = boxes.to(wide), others.to(wide)
    areas = box_area(boxes) + box_area(others)
    shared = _shared_area(boxes, others)
    exists = shared > 0
    overlap = torch.where(exists, shared, 0) / torch.where(exists, areas - shared, 1)
    return overlap.to(dtype)


def non_maximum_suppression(
    boxes: Tensor, scores: Tensor, mask: Tensor | None = None, *, threshold: float = 0.5
) -> Tensor:
    """Keep a box unless it overlaps a kept box of higher score: greedy, for a batch of sets.

    It has no gradient. Blocks of boxes are decided about together, so that memory grows with N and
    not with its square, and there is no step per box.

    Args:
        boxes: Boxes, (..., N, 4), floating point.
        scores: Score of each box, (..., N), floating point. Equal scores: the first slot wins.
        mask: True where a box is real, (..., N), bool. None: all are real.
        threshold: Boxes with a larger intersection over union count as the same object.

    Returns:
        True where a box is kept, (..., N), bool; False at padding.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]])
        >>> non_maximum_suppression(boxes, torch.tensor([0.7, 0.9, 0.1]))
        tensor([False,  True,  True])
    """
    _check_boxes(boxes, name="boxes")
    if scores.shape != boxes.shape[:-1]:
        raise ValueError(
            f"scores must have shape {tuple(boxes.shape[:-1])} to match boxes, "
            f"got {tuple(scores.shape)}"
        )
    check_floating(scores, name="scores")
    refuse_recording("non_maximum_suppression")
    real = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    boxes = _fill(boxes.detach(), mask, name="mask", of="boxes")
    ranked = scores.detach().masked_fill(~real, -torch.inf)
    # padding has no area, so it may stand anywhere among boxes of score -inf
    order = ranked.sort(dim=-1, descending=True, stable=True).indices
    boxes = boxes.take_along_dim(order.unsqueeze(-1), dim=-2)
    keep = torch.ones_like(real)  # by rank
    for start in range(0, boxes.shape[-2], _BLOCK):
        block = slice(start, start + _BLOCK)
        same = box_iou(boxes[..., : start + _BLOCK, :], boxes[..., block, :]) > threshold
        rivals = same[..., :start, :] & keep[..., :start].unsqueeze(-1)
        keep[..., block] = _settle(same[..., start:, :], ~rivals.any(dim=-2))
    return torch.zeros_like(real).scatter(-1, order, keep) & real


def _settle(same: Tensor, alive: Tensor) -> Tensor:
    """Which boxes a greedy choice keeps among those alive (..., K), ``same`` as what (..., K, K).

    It is the fixed point of: a box is kept when no kept box before it is the same.
    Each round settles at least one more rank and usually many.
    """
    rivals = same.triu(diagonal=1)  # earlier x later
    keep = alive
    while True:
        settled = alive & ~(rivals & keep.unsqueeze(-1)).any(dim=-2)
        if torch.equal(settled, keep):
            return keep
        keep = settled


def _shared_area(boxes: Tensor, others: Tensor) -> Tensor:
    """Area that each box shares with its partner, (..., 4), (..., 4) -> (...)."""
    left, top, right, bottom = boxes.unbind(-1)
    other_left, other_top, other_right, other_bottom = others.unbind(-1)
    width = torch.minimum(right, other_right) - torch.maximum(left, other_left)
    height = torch.minimum(bottom, other_bottom) - torch.maximum(top, other_top)
    return width.clamp(min=0) * height.clamp(min=0)


def _fill(boxes: Tensor, mask: Tensor | None, *, name: str, of: str) -> Tensor:
    if mask is None:
        return boxes
    check_mask(mask, boxes.shape[:-1], name=name, of=of)
    return boxes.masked_fill(~mask.unsqueeze(-1), 0)


def _check_pair(boxes: Tensor, others: Tensor) -> None:
    _check_boxes(boxes, name="boxes")
    _check_boxes(others, name="others")
    if boxes.shape[:-2] != others.shape[:-2] or boxes.ndim < 2:
        raise ValueError(
            f"boxes and others must have shapes (..., N, 4) and (..., M, 4), "
            f"got {tuple(boxes.shape)} and {tuple(others.shape)}"
        )


def _check_boxes(boxes: Tensor, *, name: str) -> None:
    if boxes.ndim == 0 or boxes.shape[-1] != 4:
        raise ValueError(f"{name} must have shape (..., 4), got {tuple(boxes.shape)}")
    check_floating(boxes, name=name)
