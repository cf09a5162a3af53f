"""Sorting each feature of a set: the fast exact sort, and NeuralSort, its relaxation."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets._autograd import becomes_program, is_traced, without_autocast
from torchsets._checks import check_elements, check_floating, check_mask
from torchsets._relaxed_order import relaxed_order

# Keys are made and sorted in blocks that stay in a core's cache; each block holds whole rows.
_BLOCK = 1 << 15
# Below this many keys a second thread costs more than it brings.
_THREADED = 1 << 17


class SortedSets(NamedTuple):
    """Sets with every feature sorted on its own, largest first.

    Attributes:
        values: The sorted features, (B, N, D); zero at the ranks of padding.
        order: Index of the element that stands at each rank, (B, N, D), long. The ranks behind
            the real elements list the padding in the order of its slots.
    """

    values: Tensor
    order: Tensor


def sort_features(elements: Tensor, mask: Tensor | None = None) -> SortedSets:
    """Sort each feature over the real elements of each set, in descending order.

    The sort is stable, differentiable any number of times, and works inside ``torch.func``
    transforms, ``torch.compile`` and ``torch.export``. On the CPU it is several times faster than
    ``torch.sort``.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        Values and permutation, both (B, N, D).

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> elements = torch.tensor([[[1.0], [3.0], [9.0]]])
        >>> values, order = sort_features(elements, torch.tensor([[True, True, False]]))
        >>> values.flatten(), order.flatten()
        (tensor([3., 1., 0.]), tensor([1, 0, 2]))
    """
    check_elements(elements)
    if mask is not None:
        check_mask(mask, elements.shape[:2], of="elements")
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
    rows = elements.transpose(1, 2).contiguous()  # (B, D, N): what is sorted lies together
    order = descending_order(rows, None if mask is None else mask.unsqueeze(1))
    # A gather of the values instead of the sorted keys: torch differentiates it any number of
    # times, and its backward pass is one scatter.
    values = rows.gather(-1, order)
    return SortedSets(values.transpose(1, 2), order.transpose(1, 2))


def descending_order(rows: Tensor, mask: Tensor | None = None) -> Tensor:
    """The stable permutation that sorts the last axis in descending order, real elements first.

    Args:
        rows: Numbers to sort, (..., N). Masked ones must be finite.
        mask: True where a number is real, broadcastable to ``rows``. None: all are real.

    Returns:
        Indices, shaped like ``rows``, long. nan counts as an extreme, at either end.
    """
    rows = rows.detach()
    if runs_on_numpy(rows):
        return _numpy_order(rows, mask)
    if mask is None:
        return _plain_order(rows)
    # Move the real numbers to the front first: a stable sort then keeps padding behind a real
    # -inf, and in the order of its slots.
    front = _plain_order(mask.byte()).expand(rows.shape)
    compact = rows.masked_fill(~mask, float("-inf")).gather(-1, front)
    return front.gather(-1, _plain_order(compact))


def _plain_order(rows: Tensor) -> Tensor:
    """The stable descending order in operations that torch can record."""
    if becomes_program() and torch.onnx.is_in_onnx_export():
        # ONNX has no stable sort, but its TopK puts the first of equal numbers first.
        wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
        return wide.topk(rows.shape[-1], dim=-1).indices
    return rows.argsort(dim=-1, descending=True, stable=True)


def neural_sort(scores: Tensor, *, temperature: float = 1.0, mask: Tensor | None = None) -> Tensor:
    """Relax the permutation that sorts scores in descending order (NeuralSort).

    The sums of absolute differences take O(N log N) by way of one sort. A padded set gives
    exactly the matrix of the bare set, in every precision.

    Args:
        scores: What to sort by, (B, N), floating point, below the largest number / N^2.
        temperature: Above 0. The smaller, the closer to a permutation matrix.
        mask: True where a score is real, (B, N), bool. None: all are real.

    Returns:
        P, (B, N, N): rank x element. Each real rank is a distribution over the real elements.
        Rows from n on and columns of padding are zero.

    Raises:
        ValueError: If a shape or dtype differs from the above, or the temperature is not positive.

    Example:
        >>> neural_sort(torch.tensor([[1.0, 3.0]]), temperature=0.1)[0].round(decimals=3)
        tensor([[0., 1.],
                [1., 0.]])

    Reference:
        Grover, Wang, Zweig, Ermon (2019), "Stochastic optimization of sorting networks via
        continuous relaxations", equation 5. https://arxiv.org/abs/1903.08850
    """
    if scores.ndim != 2:
        raise ValueError(f"scores must have shape (B, N), got {tuple(scores.shape)}")
    check_floating(scores, name="scores")
    if mask is not None:
        check_mask(mask, scores.shape, of="scores")
    return _relax(scores, mask, temperature, multiply=False)[1]


def relaxed_sort(
    scores: Tensor, mask: Tensor | None, *, temperature: float
) -> tuple[Tensor, Tensor]:
    """The scores (B, N) in relaxed order, P @ scores, and P of :func:`neural_sort`.

    No gradient of P is stored for the product alone.
    """
    values, weights = _relax(scores, mask, temperature, multiply=True)
    return cast(Tensor, values), weights


def _relax(
    scores: Tensor, mask: Tensor | None, temperature: float, *, multiply: bool
) -> tuple[Tensor | None, Tensor]:
    """P @ scores, if wanted, and P."""
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    if scores.shape[1] == 0:
        return scores, scores.unsqueeze(2).expand(-1, -1, 0)
    exact = scores.masked_fill(~mask, 0).to(torch.promote_types(scores.dtype, torch.float32))
    size = mask.sum(dim=1, keepdim=True)  # (B, 1)
    # P does not change when all scores move together; sums are most accurate around 0.
    centre = exact.detach().sum(dim=1, keepdim=True) / size.clamp(min=1)
    centred = (exact - centre).masked_fill(~mask, 0)
    order = descending_order(centred, mask)
    rank = torch.arange(scores.shape[1], device=scores.device)
    slope = (size - 1 - 2 * rank).to(exact.dtype)  # (B, N): n + 1 - 2i for the ranks i = 1..N
    rows = exact if multiply else None
    with without_autocast(scores):
        values, weights = relaxed_order(centred, rows, mask, order, slope, temperature)
    return None if values is None else values.to(scores.dtype), weights.to(scores.dtype)


def runs_on_numpy(rows: Tensor) -> bool:
    """Whether these numbers can be sorted with numpy, here and now."""
    return (
        rows.device.type == "cpu"
        and type(rows) is Tensor  # a subclass, such as a fake tensor, has no numbers to sort
        and rows.numel() > 0
        and not is_traced()  # an order of this example would be taken for that of all sets
    )


def _numpy_order(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Sort with numpy, which is many times faster than torch on the CPU."""
    slots = rows.shape[-1]
    numbers = rows.reshape(-1, slots)
    wide = numbers.dtype == torch.float64
    keys = (numbers if wide else numbers.float()).numpy()
    real = None if mask is None else mask.expand(rows.shape).reshape(-1, slots).numpy()
    order = np.empty(keys.shape, dtype=np.int64)
    sort = _argsort_rows if wide else _sort_packed_rows

    def work(part: slice) -> None:
        sort(keys[part], None if real is None else real[part], order[part])

    count = max(1, _BLOCK // slots)
    parts = [slice(start, start + count) for start in range(0, len(keys), count)]
    threads = torch.get_num_threads() if keys.size >= _THREADED else 1
    if threads > 1 and len(parts) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, parts))
    else:
        for part in parts:
            work(part)
    return torch.from_numpy(order).view(rows.shape)


def _sort_packed_rows(
    numbers: NDArray[np.float32], real: NDArray[np.bool_] | None, order: NDArray[np.int64]
) -> None:
    """Sort 64-bit keys: the number as an integer that falls as it rises, then its index.

    The index makes the sort stable, and is what remains of the key afterwards.
    """
    falling = falling_integers((numbers + np.float32(0)).view(np.int32))
    if real is not None:
        falling[~real] = np.iinfo(np.int32).max
    order[...] = falling
    order <<= 32
    order |= np.arange(order.shape[1])
    order.sort(axis=1)
    order &= 0xFFFFFFFF


def _argsort_rows(
    numbers: NDArray[np.float64], real: NDArray[np.bool_] | None, order: NDArray[np.int64]
) -> None:
    """Sort float64, too wide to pack: numpy's fast unstable sort, again for rows with ties."""
    falling = falling_integers((numbers + 0.0).view(np.int64))
    if real is not None:  # padding gets keys of its own, so that it does not tie
        highest = np.iinfo(np.int64).max - falling.shape[1]
        falling = np.where(real, falling, highest + np.arange(falling.shape[1]))
    order[...] = falling.argsort(axis=1)
    ranked = np.take_along_axis(falling, order, axis=1)
    tied = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
    order[tied] = falling[tied].argsort(axis=1, kind="stable")


def falling_integers(bits: NDArray[Any]) -> NDArray[Any]:
    """Turn the bits of floats, in place, into integers of the reverse order.

    Adding 0 beforehand makes -0.0 equal to 0.0. A nan is an extreme, at either end.
    """
    sign = bits >> (8 * bits.itemsize - 1)  # 0 or -1
    sign &= np.iinfo(bits.dtype).max
    bits ^= sign
    np.invert(bits, out=bits)
    return bits
