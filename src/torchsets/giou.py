"""Generalised intersection over union of boxes (x1, y1, x2, y2): useful without overlap too."""

import torch
from torch import Tensor

from torchsets._checks import check_floating, check_mask


def box_giou(
    boxes: Tensor,
    others: Tensor,
    mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Generalised intersection over union of each box with each other box.

    It is the intersection over union minus the share of the smallest box around both that neither
    covers. So boxes that do not overlap still have a gradient towards each other.

    Args:
        boxes: Boxes, (..., N, 4), floating point; :func:`torchsets.boxes.centres_to_corners` makes
            them of centres and sizes.
        others: Other boxes, (..., M, 4).
        mask: True where a box is real, (..., N), bool. None: all are real.
        other_mask: The same for the other boxes, (..., M).

    Returns:
        Numbers from -1 (far apart) to 1 (equal), (..., N, M); -1 where neither box has an area, and
        at padding.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
        >>> box_giou(boxes, torch.tensor([[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0]]))
        tensor([[1., 0.]])

    Reference:
        Rezatofighi et al., Generalized Intersection over Union, 2019,
        https://arxiv.org/abs/1902.09630
    """
    if boxes.shape[:-2] != others.shape[:-2] or min(boxes.ndim, others.ndim) < 2:
        raise ValueError(
            f"boxes and others must have shapes (..., N, 4) and (..., M, 4), "
            f"got {tuple(boxes.shape)} and {tuple(others.shape)}"
        )
    _check(boxes, others)
    if mask is not None:
        check_mask(mask, boxes.shape[:-1], of="boxes")
        boxes = boxes.masked_fill(~mask.unsqueeze(-1), 0)
    if other_mask is not None:
        check_mask(other_mask, others.shape[:-1], name="other_mask", of="others")
        others = others.masked_fill(~other_mask.unsqueeze(-1), 0)
    overlap = paired_giou(boxes.unsqueeze(-2), others.unsqueeze(-3))
    if mask is not None:
        overlap = overlap.masked_fill(~mask.unsqueeze(-1), -1)
    if other_mask is not None:
        overlap = overlap.masked_fill(~other_mask.unsqueeze(-2), -1)
    return overlap


def paired_giou(boxes: Tensor, others: Tensor) -> Tensor:
    """Generalised intersection over union of each box with its partner; see :func:`box_giou`.

    Args:
        boxes: Boxes, (..., 4), floating point.
        others: Their partners, (..., 4); the leading axes are broadcast.

    Returns:
        Numbers from -1 to 1, (...).

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> paired_giou(torch.tensor([0.0, 0.0, 1.0, 1.0]), torch.tensor([2.0, 0.0, 3.0, 1.0]))
        tensor(-0.3333)
    """
    _check(boxes, others)
    axes = max(boxes.ndim, others.ndim)
    dtype = torch.promote_types(boxes.dtype, others.dtype)
    wide = torch.promote_types(dtype, torch.float32)
    edges, other_edges = (
        one[(None,) * (axes - one.ndim)].to(wide).movedim(-1, 0) for one in (boxes, others)
    )
    return giou_of_edges(
        torch.cat([-edges[:2], edges[2:]]), torch.cat([-other_edges[:2], other_edges[2:]])
    ).to(dtype)


def giou_of_edges(edges: Tensor, others: Tensor) -> Tensor:
    """:func:`paired_giou` of boxes in the order of memory that is fastest for many pairs.

    Args:
        edges: Boxes (-x1, -y1, x2, y2), coordinates first, (4, ...), in float32 or float64. So the
            larger edge is always the outer one.
        others: Their partners, (4, ...), with the same number of axes.
    """
    hull = _one_for_none(_sides(torch.maximum(edges, others)))
    # Sides in units of the hull: no area can over- or underflow, and the area of the hull is 1.
    shared_width, shared_height = (
        _sides(torch.minimum(edges, others)).clamp(min=0) / hull
    ).unbind()
    width, height = (_sides(edges).clamp(min=0) / hull).unbind()
    other_width, other_height = (_sides(others).clamp(min=0) / hull).unbind()
    intersection = shared_width * shared_height
    union = torch.addcmul(width * height, other_width, other_height) - intersection
    return intersection / _one_for_none(union) + union - 1


def _one_for_none(sizes: Tensor) -> Tensor:
    """A divisor where there is no size: what it divides is 0, and its gradient finite."""
    if not sizes.requires_grad:  # then any divisor will do, and a clamp takes half the time
        return sizes.clamp(min=torch.finfo(sizes.dtype).tiny)
    return sizes.masked_fill(sizes <= 0, 1)


def _check(boxes: Tensor, others: Tensor) -> None:
    for name, one in (("boxes", boxes), ("others", others)):
        if one.ndim == 0 or one.shape[-1] != 4:
            raise ValueError(f"{name} must have shape (..., 4), got {tuple(one.shape)}")
        check_floating(one, name=name)


def _sides(edges: Tensor) -> Tensor:
    """Width and height, (2, ...)."""
    return edges[:2] + edges[2:]
