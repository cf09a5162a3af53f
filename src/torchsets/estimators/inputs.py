"""What users call a list of sets, as :class:`Sets`; errors name the argument and the cure."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsets._inputs import Array, flatten_sets
from torchsets.padded import SetBatch
from torchsets.sets import Sets

_NUMBERS = "biuf"  # numpy's kinds: bool, integer, unsigned, floating point


def read_sets(data: Any, *, name: str = "X", features: int | None = None) -> Sets:
    """Read sets in any of the forms that estimators take, on the CPU.

    Numbers that float32 cannot hold, such as those of float64 arrays, stay float64: near a large
    mean, as of times in seconds, float32 has no digits left.

    Args:
        data: A list, tuple, 1-d object array or Series of sets (n, D), which are arrays, tensors
            or nested lists; an array (S, N, D); :class:`Sets`; or a :class:`SetBatch`.
        name: How errors call it.
        features: Number of features D, if every set is empty and does not say it.

    Raises:
        TypeError: If it is none of these.
        ValueError: If a set has another form, or an element is nan or infinite.

    Example:
        >>> read_sets([np.zeros((2, 3)), np.ones((0, 3))])
        Sets(2 sets of 0 to 2 elements, 3 features, float64, cpu)
    """
    if isinstance(data, SetBatch):
        data = Sets(*data.to_flat())
    if not isinstance(data, Sets):
        parts = [_read_set(one, index, name) for index, one in enumerate(_sequence(data, name))]
        data = _join(parts, name, features)
    dtype = torch.promote_types(data.values.dtype, torch.float32)
    sets = Sets(data.values.detach().to("cpu", dtype), data.sizes.cpu())
    if sets.values.shape[1] == 0:
        raise ValueError(f"sets of {name} must have at least one feature, got 0 feature(s)")
    _check_finite(sets, name)
    return sets


def _sequence(data: Any, name: str) -> Sequence[Any]:
    if isinstance(data, (np.ndarray, Tensor)):
        if data.ndim == 3 or (data.ndim == 1 and getattr(data.dtype, "kind", "") == "O"):
            found = list(data)
        else:
            raise ValueError(
                f"{name} must be a sequence of sets (n, D), or an array (S, N, D), "
                f"got an array of shape {tuple(data.shape)}"
            )
    elif hasattr(data, "columns") or hasattr(data, "column_names"):
        raise TypeError(
            f"{name} must be a sequence of sets, got a table; "
            "Sets.from_table(frame, by=column) makes sets of its rows"
        )
    elif isinstance(data, (str, bytes, dict)) or not (
        hasattr(data, "__len__") and hasattr(data, "__iter__")
    ):
        raise TypeError(
            f"{name} must be a sequence of sets (n, D), or an array (S, N, D), "
            f"got {_describe(data)}"
        )
    else:
        found = list(data)  # a Series iterates over its values, whatever its index
    if not found:
        raise ValueError(f"{name} must hold at least one set, got none")
    return found


def _read_set(one: Any, index: int, name: str) -> Array:
    """One set as an array (n, D), or (0,) for a bare []."""
    if isinstance(one, Tensor):
        one = one.detach().cpu()
    try:
        array = np.asarray(one)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"set {index} of {name} must be an array of numbers of shape (n, D), "
            f"got {_describe(one)}: {error}"
        ) from error
    if array.dtype.kind not in _NUMBERS:
        raise ValueError(
            f"set {index} of {name} must hold real numbers, got {array.dtype}; "
            "encode categories first"
        )
    if array.ndim != 2 and array.shape != (0,):
        cure = "; for a set of numbers use x[:, None]" if array.ndim == 1 else ""
        raise ValueError(
            f"set {index} of {name} must have shape (n, D), got {tuple(array.shape)}{cure}"
        )
    return array


def _join(parts: list[Array], name: str, features: int | None) -> Sets:
    widths = [part.shape[1] if part.ndim == 2 else None for part in parts]
    known = [width for width in widths if width is not None]
    if not known and features is None:
        raise ValueError(
            f"sets of {name} must say their number of features, got empty lists; "
            "use np.zeros((0, D)) for an empty set"
        )
    first = known[0] if known else features
    other = next((i for i, width in enumerate(widths) if width not in (None, first)), None)
    if other is not None:
        raise ValueError(
            f"sets of {name} must have the same number of features, "
            f"got {first} in set {widths.index(first)} and {widths[other]} in set {other}"
        )
    exact = np.result_type(np.float32, *{part.dtype for part in parts if part.size})
    dtype = torch.float32 if exact == np.float32 else torch.float64
    empty = np.zeros((0, first or 0), np.float32)
    with np.errstate(over="ignore"):  # too large for float64: the check below says so
        values, sizes = flatten_sets([part if part.ndim == 2 else empty for part in parts], dtype)
    return Sets(values, torch.tensor(sizes))


def _check_finite(sets: Sets, name: str) -> None:
    wrong = ~sets.values.isfinite()
    if not wrong.any():
        return
    places, columns = wrong.nonzero(as_tuple=True)
    owners = torch.searchsorted(sets.sizes.cumsum(0), places, right=True)
    value = "nan" if sets.values[places[0], columns[0]].isnan() else "infinity"
    count = len(set(owners.tolist()))
    raise ValueError(
        f"{name} must be finite, got {value} in set {owners[0]}, feature {columns[0]} "
        f"({count} set{'s' * (count > 1)}); remove or impute such elements"
    )


def _describe(data: Any) -> str:
    text = type(data).__name__
    return f"{text} of {data.dtype}" if isinstance(data, np.ndarray) else text
