"""Flat sets, one after the other without padding: their sums, maxima and sorted features."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets._autograd import is_traced
from torchsets._checks import check_floating, check_tensor
from torchsets.sorting import falling_integers, runs_on_numpy

# Of the wider unsigned types torch has no sums.
_INTEGERS = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8}
# Keys are made and sorted in blocks that stay in a core's cache.
_BLOCK = 1 << 15
# Below this many keys a second thread costs more than it brings.
_THREADED = 1 << 17
# Small sets are sorted together up to about this many elements.
_RUN = 1 << 9


def check_flat(values: Tensor, sizes: Tensor) -> None:
    """Raise ``ValueError`` unless ``values`` is floating (total, D) and ``sizes`` integer (B,).

    On the CPU the sizes must also add up to the number of rows; elsewhere that is not read.
    """
    check_tensor(values, name="values")
    check_tensor(sizes, name="sizes")
    if values.ndim != 2:
        raise ValueError(f"values must have shape (total, D), got {tuple(values.shape)}")
    check_floating(values, name="values")
    if sizes.ndim != 1 or sizes.dtype not in _INTEGERS:
        raise ValueError(
            "sizes must be integer with shape (B,), signed or uint8, "
            f"got {sizes.dtype} {tuple(sizes.shape)}"
        )
    if sizes.device.type != "cpu" or type(sizes) is not Tensor or is_traced():
        return
    numbers = sizes.numpy()  # so few of them that torch would take several times as long
    total = int(numbers.sum())
    if total != values.shape[0] or (numbers < 0).any():
        raise ValueError(
            f"sizes must be non-negative and add up to the {len(values)} rows of values, got a "
            f"sum of {total}"
        )


def set_numbers(sizes: Tensor, total: int) -> Tensor:
    """The number of the set that each of ``total`` elements belongs to, (total,), long.

    Example:
        >>> set_numbers(torch.tensor([2, 0, 1]), 3)
        tensor([0, 0, 2])
    """
    places = torch.arange(total, device=sizes.device)
    return torch.searchsorted(sizes.cumsum(0), places, right=True)


def flat_sums(values: Tensor, sizes: Tensor) -> Tensor:
    """Add up the elements of each set: (total, D), (B,) -> (B, D); an empty set gives zeros.

    Example:
        >>> flat_sums(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 1])).flatten()
        tensor([3., 0., 4.])
    """
    numbers = set_numbers(sizes, values.shape[0])  # len() would freeze it in torch.export
    return values.new_zeros(sizes.shape[0], values.shape[1]).index_add(0, numbers, values)


def flat_maxima(values: Tensor, sizes: Tensor) -> Tensor:
    """The largest value of each feature: (total, D), (B,) -> (B, D); an empty set gives zeros.

    Example:
        >>> flat_maxima(torch.tensor([[1.0], [2.0], [-4.0]]), torch.tensor([2, 0, 1])).flatten()
        tensor([ 2.,  0., -4.])
    """
    numbers = set_numbers(sizes, values.shape[0]).unsqueeze(1).expand(values.shape)
    # A start of 0 would share the gradient of a maximum of 0, even if it takes no part.
    start = values.new_full((sizes.shape[0], values.shape[1]), -torch.inf)
    maxima = start.scatter_reduce(0, numbers, values, "amax", include_self=False)
    return torch.where(sizes.unsqueeze(1) > 0, maxima, 0)


def flat_ranks(sizes: Tensor, total: int) -> Tensor:
    """Count the elements of each set from 0: (total,), long.

    Example:
        >>> flat_ranks(torch.tensor([2, 0, 1]), 3)
        tensor([0, 1, 0])
    """
    starts = sizes.cumsum(0) - sizes
    numbers = set_numbers(sizes, total)
    return torch.arange(total, device=sizes.device) - starts.index_select(0, numbers)


def sort_flat(values: Tensor, sizes: Tensor) -> Tensor:
    """Sort each feature within each set, in descending order; the sets stay where they are.

    The set's number stands on top of the key that is sorted, so there is no padding, and a large
    set costs the others nothing. It is stable and differentiable any number of times.

    Args:
        values: The elements of all sets, (total, D), floating point.
        sizes: The number of elements of each set, (B,), integer.

    Returns:
        The sorted values, (total, D).

    Example:
        >>> values = torch.tensor([[1.0], [2.0], [3.0], [9.0]])
        >>> sort_flat(values, torch.tensor([3, 1])).flatten()
        tensor([3., 2., 1., 9.])
    """
    check_flat(values, sizes)
    rows = values.t().contiguous()  # (D, total): what is sorted lies together
    return rows.gather(1, flat_order(rows.detach(), sizes)).t()


def flat_order(rows: Tensor, sizes: Tensor) -> Tensor:
    """The stable permutation of each row of (D, total) that sorts within each set, descending."""
    if runs_on_numpy(rows) and type(sizes) is Tensor:
        return _numpy_flat_order(rows, sizes.numpy().astype(np.int64, copy=False))
    numbers = set_numbers(sizes, rows.shape[1])
    order = rows.argsort(dim=1, descending=True, stable=True)
    return order.gather(1, numbers[order].argsort(dim=1, stable=True))


def _numpy_flat_order(rows: Tensor, sizes: NDArray[Any]) -> Tensor:
    wide = rows.dtype == torch.float64
    sort = _argsort_sets if wide else _sort_packed_sets
    keys = (rows if wide else rows.float()).numpy()
    order = np.empty(keys.shape, dtype=np.int64)
    sizes = sizes[sizes > 0]
    starts = sizes.cumsum() - sizes

    def work(tile: tuple[slice, int, int]) -> None:
        part, first, last = tile
        start = starts[first]
        places = slice(start, starts[last - 1] + sizes[last - 1])
        order[part, places] = sort(keys[part, places], sizes[first:last])
        order[part, places] += start

    tiles = []
    for first, last in pairwise(_run_borders(starts, sizes)):
        count = max(1, _BLOCK // int(sizes[first:last].sum()))
        tiles += [(slice(row, row + count), first, last) for row in range(0, len(keys), count)]
    threads = torch.get_num_threads() if keys.size >= _THREADED else 1
    if threads > 1 and len(tiles) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, tiles))
    else:
        for tile in tiles:
            work(tile)
    return torch.from_numpy(order)


def _run_borders(starts: NDArray[Any], sizes: NDArray[Any]) -> list[int]:
    """Cut the sets into runs that are sorted together: several small ones, or a large one alone.

    Several sets have below 2 * _RUN elements together, so that the number of a set and a place fit
    beside 32 bits of a value. Short runs also take fewer comparisons than all sets at once.
    """
    begins = np.diff(starts // _RUN, prepend=-1) > 0
    begins |= sizes >= _RUN  # behind such a set the next one begins a run anyway
    return [*np.flatnonzero(begins).tolist(), len(sizes)]


def _sort_packed_sets(numbers: NDArray[np.float32], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Sort 64-bit keys: the set, then the number, falling as it rises, then the place."""
    bits = int(sizes.sum()).bit_length()
    # From 0 on, so that the bits of the set above stay as they are.
    keys = falling_integers((numbers + np.float32(0)).view(np.int32)).astype(np.int64)
    keys += 1 << 31
    keys <<= bits
    keys |= np.arange(keys.shape[1])
    keys |= np.repeat(np.arange(len(sizes)) << (32 + bits), sizes)
    keys.sort(axis=1)
    keys &= (1 << bits) - 1
    return keys


def _argsort_sets(numbers: NDArray[np.float64], sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Sort float64, too wide to pack: by value, then stably by set."""
    order = falling_integers((numbers + 0.0).view(np.int64)).argsort(axis=1, kind="stable")
    small = np.uint16 if len(sizes) <= 1 << 16 else np.int64  # numpy's radix sort takes 16 bits
    owners = np.repeat(np.arange(len(sizes), dtype=small), sizes)
    by_set = owners[order].argsort(axis=1, kind="stable")
    return np.take_along_axis(order, by_set, axis=1)
