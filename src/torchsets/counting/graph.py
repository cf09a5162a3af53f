"""The graph that the counting module works on: weighted proposals and how far apart they are.

The batch is the last axis, and each unordered pair of the n proposals appears once, in the order
of :func:`pairs`, P = n (n - 1) / 2 of them.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torchsets._autograd import becomes_program
from torchsets._checks import check_floating, check_padded_sets, check_shape
from torchsets.boxes import paired_iou
from torchsets.sorting import descending_order


class Graph(NamedTuple):
    """Proposals that take part, and their distances.

    Attributes:
        weights: Weight of each proposal from 0 to 1, (n, B); 0 for padding.
        distances: Distance of each pair from 0 to 1, (P, B); 1 for padding.
        valid: True where a proposal is real, (n, B), bool. None: all are real.
        kept: The slots that the proposals come from, (B, n), long.
    """

    weights: Tensor
    distances: Tensor
    valid: Tensor | None
    kept: Tensor


def box_graph(
    boxes: Tensor, attention: Tensor, mask: Tensor | None, *, objects: int, logits: bool
) -> Graph:
    """The graph of boxes (B, N, 4): their distance is 1 - intersection over union."""
    check_padded_sets(boxes, mask, name="boxes")
    check_shape(boxes, (None, None, 4), name="boxes", letters="(B, N, 4)")
    _check_attention(attention, boxes, of="boxes")
    if becomes_program():
        boxes = pad(boxes, (0, 0, 0, objects))
        attention, mask = _with_room(attention, mask, objects)
    weights, valid, kept = _choose(attention, mask, objects, logits)
    if boxes.shape[1] > objects:
        boxes = boxes.gather(1, kept.unsqueeze(-1).expand(-1, -1, 4))
    boxes = boxes.to(weights.dtype).permute(2, 1, 0).contiguous()  # (4, n, B)
    if valid is not None:
        boxes = boxes.masked_fill(~valid, 0)
    corners = [boxes.index_select(1, ends).movedim(0, -1) for ends in pairs(weights)]
    return Graph(weights, 1 - paired_iou(*corners), valid, kept)


def distance_graph(
    distances: Tensor, attention: Tensor, mask: Tensor | None, *, objects: int, logits: bool
) -> Graph:
    """The graph of proposals with the given distances (B, N, N); those of a pair are averaged."""
    check_padded_sets(distances, mask, name="distances")
    _check_attention(attention, distances, of="distances")
    check_shape(distances, (None, None, attention.shape[1]), name="distances", letters="(B, N, N)")
    if becomes_program():
        distances = pad(distances, (0, objects, 0, objects))
        attention, mask = _with_room(attention, mask, objects)
    slots = attention.shape[1]
    weights, valid, kept = _choose(attention, mask, objects, logits)
    first, second = pairs(weights)
    row, column = kept[:, first], kept[:, second]  # (B, P)
    flat = distances.to(weights.dtype).flatten(1)
    both = flat.gather(1, row * slots + column) + flat.gather(1, column * slots + row)
    means = both.t() / 2
    if valid is not None:
        means = means.masked_fill(~(valid[first] & valid[second]), 1)
    return Graph(weights, means.clamp(0, 1), valid, kept)


def pairs(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """First and second end of each pair of the n rows of ``nodes``, (P,) each.

    Row i meets rows i + 1, i + 2, ... (mod n), in this order.

    Example:
        >>> pairs(torch.zeros(4, 1))
        (tensor([0, 1, 2, 3, 0, 1]), tensor([1, 2, 3, 0, 2, 3]))
    """
    n = len(nodes)
    number = torch.arange(n * (n - 1) // 2, device=nodes.device)
    first = number % max(n, 1)
    return first, (first + number // max(n, 1) + 1) % max(n, 1)


def symmetric_index(nodes: Tensor) -> Tensor:
    """Where each entry of the symmetric n x n matrix lies among the pairs, (n, n); P: diagonal."""
    first, second = pairs(nodes)
    index = first.new_full((len(nodes), len(nodes)), len(first))
    number = torch.arange(len(first), device=nodes.device)
    index[first, second] = number
    index[second, first] = number
    return index


def _with_room(attention: Tensor, mask: Tensor | None, objects: int) -> tuple[Tensor, Tensor]:
    """Add padding, so that ``objects`` proposals are chosen from sets of every size."""
    mask = torch.ones_like(attention, dtype=torch.bool) if mask is None else mask
    return pad(attention, (0, objects)), pad(mask, (0, objects))


def _choose(
    attention: Tensor, mask: Tensor | None, objects: int, logits: bool
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Weights (n, B), validity and slots of the proposals with the largest attention."""
    slots = attention.shape[1]
    if mask is not None:
        attention = attention.masked_fill(~mask, 0)
    kept = torch.arange(slots, device=attention.device).expand(attention.shape)
    if slots > objects:
        # Stable: a top-k takes other ones of equal weights if there is more padding.
        lowest = torch.finfo(attention.dtype).min  # for a logit of -inf
        order = descending_order(attention.detach().clamp(min=lowest), mask)
        kept = order[:, :objects].sort(dim=1).values
        attention = attention.gather(1, kept)
    attention = attention.to(torch.promote_types(attention.dtype, torch.float32))
    weights = (attention.sigmoid() if logits else attention.clamp(0, 1)).t().contiguous()
    if mask is None:
        return weights, None, kept
    valid = mask.gather(1, kept).t()
    return weights.masked_fill(~valid, 0), valid, kept


def _check_attention(attention: Tensor, proposals: Tensor, *, of: str) -> None:
    check_floating(attention, name="attention")
    if attention.shape != proposals.shape[:2]:
        raise ValueError(
            f"attention must have shape {tuple(proposals.shape[:2])} to match {of}, "
            f"got {tuple(attention.shape)}"
        )
