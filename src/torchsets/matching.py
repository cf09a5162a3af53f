"""Linear assignment for batches of padded sets: which row goes with which column."""

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from torchsets._autograd import refuse_recording
from torchsets._checks import check_floating, check_mask

lap: Any = None
with suppress(ModuleNotFoundError):
    lap = import_module("lap")

# The package `lap` has the import name of `lapx`, lacks the batch solver and is not always
# optimal on rectangular input. Tests and benchmarks set this to False to see scipy alone.
_USE_LAPX = hasattr(lap, "lapjvr_batch")

# lapx takes longer to call and less to solve: the two are alike at 15 x 15 and at 100 x 3.
_LAPX_ENTRIES = 300

# One problem per thread: 1.8 times faster at n = 100 and above, slower than one thread at n = 10.
_THREADED_SIZE = 100

# lapx keeps a pool of threads. A forked child inherits the pool without its threads and waits
# for them without end, so there it must solve on the calling thread.
_PROCESS = os.getpid()

Costs = NDArray[np.floating[Any]]
Indices = NDArray[np.int64]
Pair = tuple[Indices, Indices]


class _Real(NamedTuple):
    """Which rows (or columns) of each of P problems are real."""

    sizes: list[int]  # P
    order: Indices | None  # (P, N): the real ones first; None: they come first already


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
    where it is installed (``pip install 'torchsets[fast]'``) and by scipy otherwise and for the
    smallest sets. Both are optimal; between equally good matchings they may choose differently.

    Args:
        cost: Cost of each pair, (*S, B, N, M), floating point. Padding may hold anything. The
            leading axes S are free: all layers of a decoder, say, in one call.
        row_mask: True where a row is real, (B, N) or (*S, B, N), bool. None: all are real.
        column_mask: True where a column is real, (B, M) or (*S, B, M), bool. None: all are real.
        invalid: What nan, inf and -inf between real elements do. ``"raise"``: an error.
            ``"worst"``: they count as worse than any finite cost, so as few as possible are
            matched.

    Returns:
        The column of each row, (*S, B, N), long; -1 for padding and for rows without a match.

    Raises:
        ValueError: If a shape or dtype differs from the above, or at an invalid cost.
        RuntimeError: If the costs have no values to read, as under ``torch.vmap``.

    Example:
        >>> cost = torch.tensor([[[4.0, 1.0, 3.0], [2.0, 0.0, 5.0]]])
        >>> assign(cost)
        tensor([[1, 0]])
        >>> assign(cost, column_mask=torch.tensor([[False, True, True]]))
        tensor([[2, 1]])
    """
    _check(cost, row_mask, column_mask, invalid)
    refuse_recording("assign")
    costs = _on_host(cost)
    sets, (height, width) = costs.shape[:-2], costs.shape[-2:]
    result: Indices = np.full((*sets, height), -1, dtype=np.int64)
    if costs.size:
        costs = costs.reshape(-1, height, width)
        rows, columns = _real(row_mask, len(costs)), _real(column_mask, len(costs))
        problems = _crop(costs, rows, columns)
        if not _are_finite(costs, problems):
            problems = _repair(problems, sets, invalid)
        _write(result.reshape(len(costs), height), _solve(problems), rows, columns)
    matches = torch.from_numpy(result)
    return matches if cost.is_cpu else matches.to(cost.device)


def assign_flat(
    cost: Tensor, sizes: Sequence[int], *, invalid: Literal["raise", "worst"] = "raise"
) -> Tensor:
    """Match the rows of each set with the columns, :func:`assign` for rows without padding.

    Args:
        cost: Cost of each pair, (*S, total, N), floating point: the rows of all sets one after the
            other, such as the targets of all images, with the N slots of their own image.
        sizes: The number of rows of each set, (B,), on the host.
        invalid: What nan, inf and -inf do; see :func:`assign`.

    Returns:
        The column of each row, (*S, total), long; -1 for rows without a match.

    Raises:
        ValueError: If a shape or dtype differs from the above, or at an invalid cost.

    Example:
        >>> cost = torch.tensor([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [9.0, 9.0, 1.0]])
        >>> assign_flat(cost, [2, 1])
        tensor([1, 0, 2])
    """
    check_floating(cost, name="cost")
    if cost.ndim < 2 or sum(sizes) != cost.shape[-2] or min(sizes, default=0) < 0:
        raise ValueError(
            "cost must have shape (total, N), with any axes before it and as many rows as sizes "
            f"adds up to, got {tuple(cost.shape)} and a sum of {sum(sizes)}"
        )
    if invalid not in ("raise", "worst"):
        raise ValueError(f'invalid must be "raise" or "worst", got {invalid!r}')
    refuse_recording("assign_flat")
    costs = _on_host(cost)
    result: Indices = np.full(costs.shape[:-1], -1, dtype=np.int64)
    if costs.size:
        ends = list(accumulate(sizes, initial=0))
        flat = costs.reshape(-1, *costs.shape[-2:])
        problems = [one[begin:end] for one in flat for begin, end in pairwise(ends)]
        if not _are_finite(costs, problems):
            problems = _repair(problems, (*costs.shape[:-2], len(sizes)), invalid)
        begins = [total * len(flat[0]) + begin for total in range(len(flat)) for begin in ends[:-1]]
        places = result.reshape(-1)
        for begin, rows, columns in zip(begins, *_solve(problems), strict=True):
            places[begin + rows] = columns
    matches = torch.from_numpy(result)
    return matches if cost.is_cpu else matches.to(cost.device)


def _check(cost: Tensor, row_mask: Tensor | None, column_mask: Tensor | None, invalid: str) -> None:
    if cost.ndim < 3:
        raise ValueError(
            f"cost must have shape (B, N, M), with any axes before it, got {tuple(cost.shape)}"
        )
    check_floating(cost, name="cost")
    *sets, height, width = cost.shape
    for mask, size, name in ((row_mask, height, "row_mask"), (column_mask, width, "column_mask")):
        if mask is not None:
            own = sets if mask.ndim == cost.ndim - 1 else sets[-1:]
            check_mask(mask, torch.Size((*own, size)), name=name, of="cost")
    if invalid not in ("raise", "worst"):
        raise ValueError(f'invalid must be "raise" or "worst", got {invalid!r}')


def _on_host(cost: Tensor) -> Costs:
    """All costs in one copy; the solvers turn them into float64 one problem at a time."""
    try:
        exact = cost if cost.dtype in (torch.float32, torch.float64) else cost.float()
        costs: Costs = exact.numpy(force=True)
    except RuntimeError as error:
        raise RuntimeError(
            "assign reads the values of cost on the host, which the transforms of torch.func and "
            "the meta device do not have; instead of vmap, put the extra axes first: "
            "(*S, B, N, M); instead of torch.func.grad, use torch.autograd.grad"
        ) from error
    return costs


def _real(mask: Tensor | None, count: int) -> _Real | None:
    """None: all are real."""
    if mask is None:
        return None
    real = mask.numpy(force=True).reshape(-1, mask.shape[-1])
    sizes = real.sum(axis=1).tolist()
    is_prefix = not (real[:, 1:] > real[:, :-1]).any()
    order = None if is_prefix else np.argsort(~real, axis=1, kind="stable")
    repeats = count // len(real)  # the leading axes of the costs
    if order is not None and repeats > 1:
        order = np.tile(order, (repeats, 1))
    return _Real(sizes * repeats, order)


def _are_finite(costs: Costs, problems: Costs | list[Costs]) -> bool:
    """Prove that the real costs are finite; huge ones may fail the proof."""
    flat = costs.ravel(order="K")
    with np.errstate(over="ignore", invalid="ignore"):
        if math.isfinite(np.dot(flat, flat)):  # takes a third of the time of isfinite
            return True
        # Padding may hold anything.
        return all(math.isfinite(np.add.reduce(one, axis=None)) for one in problems)


def _crop(costs: Costs, rows: _Real | None, columns: _Real | None) -> Costs | list[Costs]:
    """The real part of each problem: an array if all are equally large, else slices of one."""
    if rows is not None and rows.order is not None:
        costs = np.take_along_axis(costs, rows.order[:, :, None], 1)
    if columns is not None and columns.order is not None:
        costs = np.take_along_axis(costs, columns.order[:, None, :], 2)
    count, height, width = costs.shape
    heights = [height] * count if rows is None else rows.sizes
    widths = [width] * count if columns is None else columns.sizes
    if heights.count(heights[0]) == widths.count(widths[0]) == count:
        return costs[:, : heights[0], : widths[0]]
    return [one[:n, :m] for one, n, m in zip(costs, heights, widths, strict=True)]


def _repair(problems: Costs | list[Costs], sets: Sequence[int], invalid: str) -> list[Costs]:
    """Deal with invalid costs, and with finite ones that are too large to be added up."""
    counts = [int((~np.isfinite(problem)).sum()) for problem in problems]
    if invalid == "raise" and any(counts):
        raise ValueError(_describe_invalid(counts, sets))
    return [_with_worst(problem) for problem in problems]


def _describe_invalid(counts: list[int], sets: Sequence[int]) -> str:
    places = [(index, count) for index, count in enumerate(counts) if count]
    names = [tuple(map(int, np.unravel_index(index, sets))) for index, _ in places[:5]]
    shown = ", ".join(
        f"{count} in set {name if len(name) > 1 else name[0]}"
        for name, (_, count) in zip(names, places, strict=False)
    )
    if len(places) > 5:
        shown += f" and more in {len(places) - 5} other sets"
    return (
        f"cost must be finite between real elements, got nan or inf entries: {shown}; "
        'invalid="worst" avoids such pairs instead'
    )


def _with_worst(problem: Costs) -> Costs:
    """Replace invalid entries by a cost above what any number of valid ones can save."""
    if problem.size == 0:
        return problem
    finite = np.isfinite(problem)
    valid = np.where(finite, problem, 0.0).astype(np.float64)
    # A power of two rescales without rounding; now valid costs are between -1 and 1.
    scaled = np.ldexp(valid, -np.frexp(np.abs(valid).max())[1])
    replaced: Costs = np.where(finite, scaled, 2.0 * min(problem.shape) + 2.0)
    return replaced


def _solve(problems: Costs | list[Costs]) -> tuple[Sequence[Indices], Sequence[Indices]]:
    """Rows and columns of the matches of each problem, rows in increasing order."""
    threads = torch.get_num_threads() if os.getpid() == _PROCESS else 1
    if _USE_LAPX and isinstance(problems, np.ndarray) and problems.size >= _LAPX_ENTRIES:
        rows, columns = lap.lapjvr_batch(
            problems.astype(np.float64, copy=False),
            extend_cost=True,
            return_cost=False,
            n_threads=threads,
        )
        return rows, columns
    if threads > 1 and max(min(problem.shape) for problem in problems) >= _THREADED_SIZE:
        with ThreadPoolExecutor(threads) as pool:  # both solvers release the GIL
            pairs = list(pool.map(_solve_one, problems))
    else:
        pairs = list(map(_solve_one if _USE_LAPX else linear_sum_assignment, problems))
    rows, columns = zip(*pairs, strict=True)
    return rows, columns


def _solve_one(problem: Costs) -> Pair:
    if _USE_LAPX and problem.size >= _LAPX_ENTRIES:
        cost = problem.astype(np.float64, copy=False)
        rows, columns = lap.lapjvr(cost, extend_cost=True, return_cost=False)
        return rows, columns
    return linear_sum_assignment(problem)


def _write(
    result: Indices,
    pairs: tuple[Sequence[Indices], Sequence[Indices]],
    rows: _Real | None,
    columns: _Real | None,
) -> None:
    """Put the columns into the places of their rows, (P, N)."""
    row, column = np.concatenate(pairs[0]), np.concatenate(pairs[1])
    problem = np.repeat(np.arange(len(result)), list(map(len, pairs[0])))
    if rows is not None and rows.order is not None:
        row = rows.order[problem, row]
    if columns is not None and columns.order is not None:
        column = columns.order[problem, column]
    result.reshape(-1)[problem * result.shape[1] + row] = column
