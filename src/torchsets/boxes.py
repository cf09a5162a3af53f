"""Axis-aligned boxes (x1, y1, x2, y2): areas, overlaps, greedy non-maximum suppression.

A box whose right edge is not right of its left edge, or whose lower edge is not below its upper
edge, has no area: it overlaps nothing. Boxes given as (x, y, width, height) often look like that;
:func:`check_boxes` tells.
"""

import math

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
    width, height = _sides(boxes)
    return width * height


def centres_to_corners(boxes: Tensor) -> Tensor:
    """Boxes (centre x, centre y, width, height) to (x1, y1, x2, y2), (..., 4) each.

    Example:
        >>> centres_to_corners(torch.tensor([1.0, 2.0, 2.0, 4.0]))
        tensor([0., 0., 2., 4.])
    """
    _check_boxes(boxes, name="boxes")
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def corners_to_centres(boxes: Tensor) -> Tensor:
    """Boxes (x1, y1, x2, y2) to (centre x, centre y, width, height), (..., 4) each.

    Example:
        >>> corners_to_centres(torch.tensor([0.0, 0.0, 2.0, 4.0]))
        tensor([1., 2., 2., 4.])
    """
    _check_boxes(boxes, name="boxes")
    size = boxes[..., 2:] - boxes[..., :2]
    return torch.cat([boxes[..., :2] + size / 2, size], dim=-1)


def box_intersection(boxes: Tensor, others: Tensor) -> Tensor:
    """Area that each box shares with each other box, (..., N, 4), (..., M, 4) -> (..., N, M).

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
        >>> box_intersection(boxes, torch.tensor([[1.0, 1.0, 3.0, 3.0], [5.0, 5.0, 6.0, 6.0]]))
        tensor([[1., 0.]])
    """
    _check_pair(boxes, others)
    width, height = _shared_sides(boxes.unsqueeze(-2), others.unsqueeze(-3))
    return width * height


def box_iou(
    boxes: Tensor,
    others: Tensor | None = None,
    mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Intersection over union of each box with each other box.

    There is no epsilon: equal boxes overlap by exactly 1, whatever their size. Sides are divided by
    powers of 2 first, so that no area over- or underflows. Half precision is computed in float32.

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
    _check_boxes(boxes, name="boxes")
    _check_boxes(others, name="others")
    dtype = torch.promote_types(boxes.dtype, others.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    boxes, others = boxes.to(wide), others.to(wide)
    sides = [_sides(boxes), _sides(others), _shared_sides(boxes, others)]
    factors = [torch.minimum(*map(_inverse_power, pair)) for pair in zip(*sides[:2], strict=True)]
    area, other_area, shared = (
        (width * factors[0]) * (height * factors[1]) for width, height in sides
    )
    areas = area + other_area
    exists = shared > 0
    overlap = torch.where(exists, shared, 0) / torch.where(exists, areas - shared, 1)
    return overlap.to(dtype)


def check_boxes(boxes: Tensor, mask: Tensor | None = None) -> None:
    """Raise ``ValueError`` if a real box has x2 < x1 or y2 < y1.

    It reads values, so a GPU has to be waited for: call it once on your data. Of the functions
    here only :func:`non_maximum_suppression`, which reads values anyway, calls it.

    Args:
        boxes: Boxes, (..., 4), floating point.
        mask: True where a box is real, (...), bool. None: all are real.

    Example:
        >>> check_boxes(torch.tensor([[0.0, 0.0, 2.0, 2.0]]))
    """
    _check_boxes(boxes, name="boxes")
    reversed_ = (boxes[..., 2:] < boxes[..., :2]).any(dim=-1)
    if mask is not None:
        check_mask(mask, boxes.shape[:-1], of="boxes")
        reversed_ = reversed_ & mask
    if reversed_.any():
        culprit = [round(number, 4) for number in boxes[reversed_][0].tolist()]
        raise ValueError(
            f"boxes must be (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2, got {culprit}; "
            f"from (x, y, width, height): torch.cat([xy, xy + size], dim=-1)"
        )


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
        ValueError: If a shape or dtype differs from the above, the threshold is nan, or a real box
            has x2 < x1 or y2 < y1.

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
    if math.isnan(threshold):
        raise ValueError(f"threshold must be a number, got {threshold}")
    check_boxes(boxes, mask)
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


def _sides(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height of each box, (...) each, at least 0."""
    left, top, right, bottom = boxes.unbind(-1)
    return (right - left).clamp(min=0), (bottom - top).clamp(min=0)


def _shared_sides(boxes: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    """Width and height of what each box shares with its partner."""
    left, top, right, bottom = boxes.unbind(-1)
    other_left, other_top, other_right, other_bottom = others.unbind(-1)
    width = torch.minimum(right, other_right) - torch.maximum(left, other_left)
    height = torch.minimum(bottom, other_bottom) - torch.maximum(top, other_top)
    return width.clamp(min=0), height.clamp(min=0)


def _inverse_power(side: Tensor) -> Tensor:
    """A power of 2 that brings a side to about 1, without any rounding."""
    limits = torch.finfo(side.dtype)
    # Not exp2, which the older ONNX exporter does not know; powers of 2 are exact, too.
    return torch.pow(2, side.detach().clamp(limits.tiny, limits.max / 4).log2().floor().neg())


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
