"""Linear assignment for batches of padded sets: which row goes with which column."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from torchsets._checks import check_floating, check_mask

lap: Any = None
with suppress(ModuleNotFoundError):
    lap = import_module("lap")

# The package `lap` has the import name of `lapx`, lacks the batch solver and is not always
# optimal on rectangular input. Tests and benchmarks set this to False to see scipy alone.
_USE_LAPX = hasattr(lap, "lapjvr_batch")

# scipy in two threads: 1.8 times faster at n = 100 and above, slower than one at n = 10.
_THREADED_SIZE = 100

# lapx keeps a pool of threads. A forked child inherits the pool without its threads and waits
# for them without end, so there it must solve on the calling thread.
_PROCESS = os.getpid()

Costs = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int64]


class _Group(NamedTuple):
    """Sets with equally many real rows and columns; None: all rows and columns, in order."""

    sets: Indices  # (G,)
    rows: Indices | None  # (G, n)
    columns: Indices | None  # (G, m)


def assign(
    cost: Tensor,
    row_mask: Tensor | None = None,
    column_mask: Tensor | None = None,
    *,
    invalid: Literal["raise", "worst"] = "raise",
) -> Tensor:
    """Match rows with columns one to one so that each set's total cost is as small as possible.

    A set with n real rows and m real columns gets min(n, m) matches. The costs are copied to the
    host once and solved there in float64, with ``torch.get_num_threads()`` threads, by lapx
    where it is installed (``pip install 'torchsets[fast]'``) and by scipy otherwise. Both are
    optimal; between equally good matchings they may choose differently.

    Args:
        cost: Cost of each pair, (B, N, M), floating point. Padding may hold anything.
        row_mask: True where a row is real, (B, N), bool. None: all are real.
        column_mask: True where a column is real, (B, M), bool. None: all are real.
        invalid: What nan, inf and -inf between real elements do. ``"raise"``: an error.
            ``"worst"``: they count as worse than any finite cost, so as few as possible are
            matched.

    Returns:
        The column of each row, (B, N), long; -1 for padding and for rows without a match.

    Raises:
        ValueError: If a shape or dtype differs from the above, or at an invalid cost.

    Example:
        >>> cost = torch.tensor([[[4.0, 1.0, 3.0], [2.0, 0.0, 5.0]]])
        >>> assign(cost)
        tensor([[1, 0]])
        >>> assign(cost, column_mask=torch.tensor([[False, True, True]]))
        tensor([[2, 1]])
    """
    _check(cost, row_mask, column_mask, invalid)
    costs = _on_host(cost)
    groups = list(_groups(costs, row_mask, column_mask))
    stacks = [_stack(costs, group) for group in groups]
    valid = [_all_finite(stack) for stack in stacks]
    if invalid == "raise" and not all(valid):
        raise ValueError(_describe_invalid(stacks, groups))
    result: Indices = np.full(costs.shape[:2], -1, dtype=np.int64)
    for stack, group, finite in zip(stacks, groups, valid, strict=True):
        rows, columns = _solve(stack if finite else _with_worst(stack))
        if group.rows is not None:
            rows = np.take_along_axis(group.rows, rows, axis=1)
        if group.columns is not None:
            columns = np.take_along_axis(group.columns, columns, axis=1)
        result[group.sets[:, None], rows] = columns
    return torch.from_numpy(result).to(cost.device)


def _check(cost: Tensor, row_mask: Tensor | None, column_mask: Tensor | None, invalid: str) -> None:
    if cost.ndim != 3:
        raise ValueError(f"cost must have shape (B, N, M), got {tuple(cost.shape)}")
    check_floating(cost, name="cost")
    if row_mask is not None:
        check_mask(row_mask, cost.shape[:2], name="row_mask", of="cost")
    if column_mask is not None:
        check_mask(column_mask, cost.shape[::2], name="column_mask", of="cost")
    if invalid not in ("raise", "worst"):
        raise ValueError(f'invalid must be "raise" or "worst", got {invalid!r}')


def _on_host(cost: Tensor) -> Costs:
    """All costs in one copy; the solvers turn them into float64 one problem at a time."""
    cost = cost.detach().cpu()
    costs: Costs = (cost if cost.dtype == torch.float64 else cost.float()).numpy()
    return costs


def _groups(costs: Costs, row_mask: Tensor | None, column_mask: Tensor | None) -> Iterator[_Group]:
    """Put the sets that need a solution into groups of one shape each."""
    if row_mask is None and column_mask is None:
        if costs.size:
            yield _Group(np.arange(len(costs)), None, None)
        return
    rows, heights = _real_places(row_mask, costs.shape[:2])
    columns, widths = _real_places(column_mask, costs.shape[::2])
    shapes, members = np.unique(np.stack([heights, widths], axis=1), axis=0, return_inverse=True)
    for index, (n, m) in enumerate(shapes):
        if n and m:
            sets = np.flatnonzero(members.reshape(-1) == index)
            yield _Group(sets, rows[sets, :n], columns[sets, :m])


def _real_places(mask: Tensor | None, shape: tuple[int, ...]) -> tuple[Indices, Indices]:
    """Each set's real places first (B, N), and how many they are (B,)."""
    real = np.ones(shape, dtype=bool) if mask is None else mask.cpu().numpy()
    return np.argsort(~real, axis=1, kind="stable"), real.sum(axis=1)


def _stack(costs: Costs, group: _Group) -> Costs:
    if group.rows is None or group.columns is None:
        return costs
    return costs[group.sets[:, None, None], group.rows[:, :, None], group.columns[:, None, :]]


def _all_finite(stack: Costs) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        total = stack.sum()  # a finite sum proves it and takes half the time of isfinite
    return bool(np.isfinite(total) or np.isfinite(stack).all())


def _describe_invalid(stacks: list[Costs], groups: list[_Group]) -> str:
    counts = [
        (int(index), int(count))
        for stack, group in zip(stacks, groups, strict=True)
        for index, count in zip(group.sets, (~np.isfinite(stack)).sum(axis=(1, 2)), strict=True)
        if count
    ]
    counts.sort()
    shown = ", ".join(f"{count} in set {index}" for index, count in counts[:5])
    if len(counts) > 5:
        shown += f" and more in {len(counts) - 5} other sets"
    return (
        f"cost must be finite between real elements, got nan or inf entries: {shown}; "
        'invalid="worst" avoids such pairs instead'
    )


def _with_worst(stack: Costs) -> Costs:
    """Replace invalid entries by a cost above what any number of valid ones can save."""
    stack = stack.astype(np.float64)
    finite = np.isfinite(stack)
    sizes = np.abs(stack, where=finite, out=np.zeros_like(stack)).max(axis=(1, 2), keepdims=True)
    # A power of two rescales without rounding; now valid costs are between -1 and 1.
    scale = np.exp2(-np.frexp(sizes)[1].astype(np.float64))
    worst = 2.0 * min(stack.shape[1:]) + 2.0
    replaced: Costs = np.where(finite, np.where(finite, stack, 0.0) * scale, worst)
    return replaced


def _solve(stack: Costs) -> tuple[Indices, Indices]:
    """Rows and columns of the matches of equally large problems, each (G, min(n, m))."""
    size = min(stack.shape[1:])
    threads = torch.get_num_threads() if os.getpid() == _PROCESS else 1
    if _USE_LAPX:
        rows, columns = lap.lapjvr_batch(
            stack.astype(np.float64, copy=False),
            extend_cost=True,
            return_cost=False,
            n_threads=threads,
        )
    elif threads > 1 and size >= _THREADED_SIZE:
        with ThreadPoolExecutor(threads) as pool:  # scipy releases the GIL
            rows, columns = zip(*pool.map(linear_sum_assignment, stack), strict=True)
    else:
        rows, columns = zip(*map(linear_sum_assignment, stack), strict=True)
    return np.concatenate(rows).reshape(-1, size), np.concatenate(columns).reshape(-1, size)
