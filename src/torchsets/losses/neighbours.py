"""Nearest neighbours between padded sets: exact anywhere, in bounded memory."""

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from torchsets._autograd import inside_transform
from torchsets.losses.elements import Element, cost_matrix
from torchsets.losses.pairs import pair_sets

# Pairs compared at once. On the CPU a block should stay in the cache: 32 sets of 342 elements took
# 14, 6, 5, 5, 8 and 21 ms with 2^14, 2^16, 2^17, 2^18, 2^20 and 2^24 pairs. From 2^15 on torch
# would share such short work among its threads, which gains little, and took many times as long
# while another program used the cores. Elsewhere than on the CPU: 64 MB.
_CPU_PAIRS = 2**17
_CPU_PAIRS_WITH_THREADS = 2**15 - 1
_PAIRS = 2**24

# Where a k-d tree is the faster way. Blocks against tree in ms, one direction, one thread:
#              342 points      1000 points     2000 points     4000 points
# 2 features   0.35  0.43      1.3   0.9       4.1   1.7       21   3.5
# 4 features   0.29  0.46      2.2   1.2       7.2   2.5       35   5.3
# 8 features   0.70  1.45      3.5   3.5       13    9.0       67   23
# 10 features  0.80  1.45      4.4   6.6       16    17        79   49
_TREE_FEATURES = 8
_TREE_PAIRS = 2**20


def nearest_neighbours(
    elements: Tensor,
    others: Tensor,
    other_mask: Tensor | None = None,
    *,
    mask: Tensor | None = None,
    element: Element = "squared",
) -> Tensor:
    """Find for each element of a set the cheapest element of the other set.

    Differences are taken directly, so the answer is exact far from the origin too, where
    ``torch.cdist`` is not. Large sets are compared in blocks, or through a k-d tree.

    Args:
        elements: The sets that ask, (*S, B, N, D), floating point.
        others: The sets that answer, (B, M, D), floating point.
        other_mask: True where one of the others is real, (B, M), bool. None: all are.
        mask: The same for the elements, (B, N) or (*S, B, N).
        element: ``"squared"``, ``"huber"``, or a callable; see :func:`chamfer_loss`.

    Returns:
        The slot of the neighbour, (*S, B, N), long; -1 for padding and where there is none.
        Between equally near ones any is returned.

    Raises:
        TypeError: If a side is not a tensor.
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> nearest_neighbours(torch.tensor([[[0.0], [9.0]]]), torch.tensor([[[8.0], [1.0]]]))
        tensor([[1, 0]])
    """
    names = ("elements", "others", "other_mask", "mask")
    pair = pair_sets(elements, others, other_mask, mask, element=element, names=names)
    shape = elements.shape[:-1]
    if pair.is_empty:
        return torch.full(shape, -1, device=elements.device)
    with torch.no_grad(), pair.full_precision():
        index = search(
            pair.prediction, pair.target[None], pair.prediction_mask, pair.target_mask, element
        )
    answered = pair.answered()[0]
    if answered is not None:
        index = index.masked_fill(~answered, -1)
    return index.view(shape)


def search(
    queries: Tensor,
    points: Tensor,
    query_mask: Tensor | None,
    point_mask: Tensor | None,
    element: Element,
    *,
    swapped: bool = False,
) -> Tensor:
    """The index of the nearest point of each query, (S, B, N); anything where there is none.

    Args:
        queries: (S, B, N, D), or (1, B, N, D) for the same queries at every step.
        points: (S, B, M, D), or (1, B, M, D).
        query_mask: (S, B, N), (B, N), or None.
        point_mask: (S, B, M), (B, M), or None.
        element: The cost of (query, point), or of (point, query) if ``swapped``.
        swapped: Whether the queries are the targets.
    """
    steps = max(len(queries), len(points))
    if inside_transform():
        find = _compare_all
    else:
        find = _find_by_tree if _suits_a_tree(queries, points, element) else _find_in_blocks
    return torch.stack(
        [
            find(
                queries[step % len(queries)],
                points[step % len(points)],
                _at(query_mask, step),
                _at(point_mask, step),
                element,
                swapped,
            )
            for step in range(steps)
        ]
    )


def _at(mask: Tensor | None, step: int) -> Tensor | None:
    return mask if mask is None or mask.ndim == 2 else mask[step]


def _compare_all(
    queries: Tensor,
    points: Tensor,
    query_mask: Tensor | None,
    point_mask: Tensor | None,
    element: Element,
    swapped: bool,
) -> Tensor:
    """All pairs at once, in operations that torch.func transforms: (B, N)."""
    index = _masked_costs(queries, points, point_mask, element, swapped).argmin(dim=-1)
    return index if point_mask is None else _off_padding(index, point_mask)


def _find_in_blocks(
    queries: Tensor,
    points: Tensor,
    query_mask: Tensor | None,
    point_mask: Tensor | None,
    element: Element,
    swapped: bool,
) -> Tensor:
    """Compare a few sets at a time, or a few queries where one set is large: (B, N)."""
    sets, rows, columns = queries.shape[0], queries.shape[1], points.shape[1]
    pairs = _PAIRS
    if queries.device.type == "cpu":
        pairs = _CPU_PAIRS if torch.get_num_threads() == 1 else _CPU_PAIRS_WITH_THREADS
    sets_at_once = max(1, pairs // (rows * columns))
    # A block has at least 16 queries unless it would not fit, as each block reads all points.
    rows_at_once = min(rows, max(pairs // columns, min(16, _PAIRS // columns), 1))
    if point_mask is not None and not callable(element):
        points = points.masked_fill(~point_mask.unsqueeze(-1), torch.inf)  # near to nobody
    points = points.mT.contiguous().mT  # one feature after the other, once for all blocks
    result = torch.empty(queries.shape[:2], dtype=torch.long, device=queries.device)
    for first in range(0, sets, sets_at_once):
        some = slice(first, first + sets_at_once)
        for row in range(0, rows, rows_at_once):
            block = queries[some, row : row + rows_at_once]
            mask = point_mask[some] if point_mask is not None else None
            found = _nearest(block, points[some], mask, element, swapped)
            result[some, row : row + rows_at_once] = found
    return result if point_mask is None else _off_padding(result, point_mask)


def _nearest(
    queries: Tensor, points: Tensor, point_mask: Tensor | None, element: Element, swapped: bool
) -> Tensor:
    if callable(element):
        return _argmin(_masked_costs(queries, points, point_mask, element, swapped))
    squared = cost_matrix("squared", queries, points)
    index = _argmin(squared)
    if element == "huber":
        # Huber costs are at least min(r^2, 1) / 2, with equality up to r = 1. So a neighbour by
        # distance r <= 1 is one by Huber cost too, and only farther ones need the comparison.
        nearest = squared.gather(-1, index.unsqueeze(-1))
        if not bool((nearest <= 1).all()):
            return _argmin(cost_matrix("huber", queries, points))
    return index


def _masked_costs(
    queries: Tensor, points: Tensor, point_mask: Tensor | None, element: Element, swapped: bool
) -> Tensor:
    """The cost of every pair, (B, N, M), infinite for points of padding."""
    if swapped:
        cost = cost_matrix(element, points, queries).mT.contiguous()
    else:
        cost = cost_matrix(element, queries, points)
    return cost if point_mask is None else cost.masked_fill(~point_mask.unsqueeze(1), torch.inf)


def _off_padding(index: Tensor, mask: Tensor) -> Tensor:
    """Move to a real point where all of them are infinitely far, so that padding was as near."""
    first = mask.long().argmax(dim=1, keepdim=True)
    return torch.where(mask.gather(1, index), index, first)


def _argmin(cost: Tensor) -> Tensor:
    """Over the last axis; numpy's is ten times faster than torch's on the CPU."""
    if cost.device.type != "cpu":
        return cost.argmin(dim=-1)
    return torch.from_numpy(cost.numpy().argmin(axis=-1))


def _suits_a_tree(queries: Tensor, points: Tensor, element: Element) -> bool:
    small = queries.shape[2] * points.shape[2] < _TREE_PAIRS
    many_features = queries.shape[3] > _TREE_FEATURES
    return not (callable(element) or small or many_features or queries.device.type != "cpu")


def _find_by_tree(
    queries: Tensor,
    points: Tensor,
    query_mask: Tensor | None,
    point_mask: Tensor | None,
    element: Element,
    swapped: bool,
) -> Tensor:
    """One k-d tree per set, of its real points: (B, N)."""
    result = torch.zeros(queries.shape[:2], dtype=torch.long)
    for index in range(len(queries)):
        asking = _real(query_mask, index, queries.shape[1])
        places = _real(point_mask, index, points.shape[1])
        if len(asking) and len(places):
            found = _ask_tree(queries[index][asking], points[index][places], element)
            result[index, asking] = places[found]
    return result


def _ask_tree(queries: Tensor, points: Tensor, element: Element) -> Tensor:
    if not (queries.isfinite().all() and points.isfinite().all()):  # a tree refuses them
        return _find_in_blocks(queries[None], points[None], None, None, element, False)[0]
    places = _distinct(points)
    tree = cKDTree(points[places].numpy())
    distance, found = tree.query(queries.numpy(), workers=torch.get_num_threads())
    lost = np.isinf(distance)  # its square overflows, and the tree answers with no place
    again = torch.from_numpy(lost | (distance > 1) if element == "huber" else lost)  # see _nearest
    index = places[torch.from_numpy(np.where(lost, 0, found))]
    if again.any():
        rest = queries[again][None]
        index[again] = _find_in_blocks(rest, points[None], None, None, element, False)[0]
    return index


def _distinct(points: Tensor) -> Tensor:
    """The place of one of each distinct point, if many are equal; otherwise all places.

    A tree cannot part equal points: a query near 50 000 of them looks at every one.
    """
    columns = points.numpy().T
    _, counts = np.unique(columns[0], return_counts=True)
    if counts.max() <= 32:
        return torch.arange(len(points))
    order = np.lexsort(columns)
    ordered = columns[:, order]
    new = np.concatenate([[True], (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)])
    return torch.from_numpy(order[new])


def _real(mask: Tensor | None, index: int, slots: int) -> Tensor:
    return torch.arange(slots) if mask is None else mask[index].nonzero().squeeze(1)
