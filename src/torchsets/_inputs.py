"""Sets as users have them (tensors, arrays, lists) to one flat tensor; errors name the cure.

One rule for dtypes: tensors keep theirs, arrays and lists become ``torch.get_default_dtype()``.
"""

from collections.abc import Iterable, Sequence
from mmap import ALLOCATIONGRANULARITY
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]
Set = Tensor | Array | Sequence[Sequence[float]]
"""One set as users have it: a tensor, array or nested list of shape (n, D)."""

_NUMPY = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}
_NUMBERS = "biuf"  # numpy's kinds: bool, integer, unsigned, floating point


class Flat(NamedTuple):
    """What :class:`torchsets.Sets` holds, by the names of its arguments."""

    values: Tensor
    sizes: Array
    labels: Array | None = None
    keys: Array | None = None
    names: Sequence[str] | None = None


def flatten_sets(sets: Iterable[Set], dtype: torch.dtype | None) -> tuple[Tensor, list[int]]:
    """All elements one after the other (total, D), and the size of each set.

    Sets are joined before they become a tensor: one conversion instead of one for each set.
    """
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype must be floating point, got {dtype}")
    parts = [
        one if isinstance(one, (Tensor, np.ndarray)) else _to_array(one, f"set {index}")
        for index, one in enumerate(sets)
    ]
    if not parts:
        raise ValueError("sets must hold at least one set, got none")
    model = next((part for part in parts if part.ndim == 2), None)
    if model is not None:  # a bare [] beside other sets is an empty set
        parts = [model[:0] if part.shape == (0,) else part for part in parts]
    _check_sets(parts, dtype)
    sizes = [len(part) for part in parts]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return _join_arrays(arrays, dtype), sizes
    tensors = [_join_arrays([p], dtype) if isinstance(p, np.ndarray) else p for p in parts]
    if dtype is not None:
        tensors = [tensor.to(dtype) for tensor in tensors]
    _check_alike("dtype", [tensor.dtype for tensor in tensors])
    _check_alike("device", [tensor.device for tensor in tensors])
    return torch.cat(tensors), sizes


def to_values(values: Tensor | Array | Sequence[Sequence[float]]) -> Tensor:
    """Flat elements (total, D) as a tensor; an array's memory is used where torch can."""
    if not isinstance(values, Tensor):
        array = _to_array(values, "values")
        dtype = torch.get_default_dtype()
        # torch takes neither foreign byte orders nor negative strides nor read-only memory.
        shared = array.dtype == _NUMPY.get(dtype) and min(array.strides, default=0) >= 0
        if not (shared and array.flags.writeable):
            array = array.astype(_NUMPY.get(dtype, np.float64), order="C", copy=True)
        values = torch.from_numpy(array).to(dtype)
    if values.ndim == 2 and values.is_floating_point():
        return values
    raise ValueError(
        "values must be floating point with shape (total, D), "
        f"got {values.dtype} {tuple(values.shape)}{_cure(values, 'values')}"
    )


def writable_map(values: Any) -> Any:
    """A read-only ``np.memmap`` mapped anew, so that no copy is needed; all else as it is.

    torch would take read-only memory too, but then a write ends the process. Here it stays private.
    """
    if not isinstance(values, np.memmap) or values.flags.writeable or values.filename is None:
        return values
    if not values.flags.c_contiguous or values.size == 0:
        return values
    mapping: Any = values._mmap  # type: ignore[attr-defined]
    begin = values.offset - values.offset % ALLOCATIONGRANULARITY
    inside = values.ctypes.data - np.frombuffer(mapping, dtype=np.uint8).ctypes.data
    # offset is that of the whole array, also in a slice of it, so the addresses have to tell.
    return np.memmap(
        values.filename, values.dtype, mode="c", offset=begin + inside, shape=values.shape
    )


def to_sizes(sizes: Tensor | Array | Sequence[int], values: Tensor) -> Tensor:
    """The sizes of flat sets, (S,) long beside ``values``; checked against its rows."""
    if not isinstance(sizes, Tensor):
        array = _to_array(sizes, "sizes")
        whole = array.size == 0 or array.dtype.kind in "iu"
        sizes = torch.from_numpy(array.astype(np.int64 if whole else np.float64))
    if sizes.ndim != 1 or sizes.is_floating_point() or sizes.dtype == torch.bool:
        raise ValueError(
            f"sizes must be integer with shape (S,), got {sizes.dtype} {tuple(sizes.shape)}"
        )
    sizes = sizes.to(values.device, torch.long)
    if int(sizes.sum()) != len(values) or bool((sizes < 0).any()):
        raise ValueError(
            f"sizes must be non-negative and add up to the {len(values)} rows of values, "
            f"got {_shorten(sizes.tolist())}"
        )
    return sizes


def to_offsets(offsets: Tensor | Array | Sequence[int], values: Tensor) -> Tensor:
    """Where flat sets begin, (S + 1,) long; the last one is the end. Checked against ``values``."""
    if not isinstance(offsets, Tensor):
        offsets = torch.from_numpy(_to_array(offsets, "offsets").copy())
    if offsets.ndim != 1 or len(offsets) == 0 or offsets.is_floating_point():
        raise ValueError(
            "offsets must be integer with shape (S + 1,), "
            f"got {offsets.dtype} {tuple(offsets.shape)}"
        )
    offsets = offsets.to(values.device, torch.long)
    ends = int(offsets[0]), int(offsets[-1])
    if ends != (0, len(values)) or bool((offsets.diff() < 0).any()):
        raise ValueError(
            f"offsets must never fall, begin with 0 and end with the {len(values)} rows of "
            f"values, got {_shorten(offsets.tolist())}"
        )
    return offsets


def to_index(index: object, count: int, *, of: str = "sets") -> int | slice | Tensor:
    """What picks some of ``count`` things: an int in range, a slice, or a tensor of places (K,)."""
    if isinstance(index, slice):
        places = range(count)[index]
        if places.step > 0:
            return slice(places.start, places.stop, places.step)
        return torch.tensor(places, dtype=torch.long)  # torch has no negative steps
    wanted = (
        "index must be an integer, a slice, or a list of integers or of one bool for each of "
        f"the {count} {of}"
    )
    if not isinstance(index, Tensor):
        array = np.array(index)
        if array.size and array.dtype.kind not in _NUMBERS:
            raise IndexError(f"{wanted}, got {index!r}")
        index = torch.from_numpy(array if array.size else np.zeros(0, dtype=np.int64))
    if index.dtype == torch.bool and index.shape == (count,):
        return index.nonzero().squeeze(1)
    if index.dtype == torch.bool or index.is_floating_point() or index.ndim > 1:
        raise IndexError(f"{wanted}, got {index.dtype} {tuple(index.shape)}")
    given, index = index, index.long()  # unsigned types have no minimum, small ones no sums
    lowest = -count if given.dtype.is_signed else 0
    if index.numel() and not lowest <= int(index.min()) <= int(index.max()) < count:
        raise IndexError(f"index must be below the {count} {of}, got {_shorten(given.tolist())}")
    index = torch.where(index < 0, index + count, index)
    return int(index) if index.ndim == 0 else index


def run_places(starts: Tensor, counts: Tensor) -> Tensor:
    """The places start, start + 1, ... of each run of ``counts``, one run after the other."""
    shift = (starts - (counts.cumsum(0) - counts)).repeat_interleave(counts)
    return torch.arange(len(shift), device=shift.device) + shift


def _to_array(numbers: Any, name: str) -> Array:
    try:
        array = np.asarray(numbers)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise ValueError(_not_numbers(name, numbers)) from error
    if array.dtype.kind not in _NUMBERS:
        raise ValueError(_not_numbers(name, numbers))
    return array


def _not_numbers(name: str, numbers: Any) -> str:
    kind = f" of {numbers.dtype}" if isinstance(numbers, np.ndarray) else ""
    return (
        f"{name} must be a tensor, an array or rows of numbers of one length, "
        f"got {type(numbers).__name__}{kind}"
    )


def _check_sets(parts: Sequence[Tensor | Array], dtype: torch.dtype | None) -> None:
    for index, part in enumerate(parts):
        if part.ndim != 2:
            raise ValueError(
                f"set {index} must have shape (n, D), got {tuple(part.shape)}{_cure(part, 'x')}"
            )
        if isinstance(part, np.ndarray):
            if part.dtype.kind not in _NUMBERS:
                raise ValueError(_not_numbers(f"set {index}", part))
        elif dtype is None and not part.is_floating_point():
            raise ValueError(
                f"set {index} must be floating point, got {part.dtype}{_cure(part, 'x')}"
            )
    _check_alike("number of features", [part.shape[1] for part in parts])


def _check_alike(what: str, values: list[Any]) -> None:
    if values.count(values[0]) == len(values):
        return
    other = next(index for index, value in enumerate(values) if value != values[0])
    raise ValueError(
        f"sets must all have the same {what}, got {values[0]} in set 0 "
        f"and {values[other]} in set {other}"
    )


def _cure(part: Tensor | Array, name: str) -> str:
    if part.ndim == 1:
        return f"; if each element is one number, use {name}[:, None]"
    if part.ndim == 2:
        return f"; use {name}.float(), or embed them if they are categories"
    return ""


def _join_arrays(arrays: Sequence[Array], dtype: torch.dtype | None) -> Tensor:
    """Any strides and byte orders, converted in one pass."""
    dtype = dtype or torch.get_default_dtype()
    joined = np.concatenate(arrays, dtype=_NUMPY.get(dtype, np.float64), casting="unsafe")
    return torch.from_numpy(joined).to(dtype)


def _shorten(numbers: Any) -> str:
    text = str(numbers)
    return text if len(text) <= 60 else f"{text[:57]}..."
