"""Ragged arrays of other libraries (awkward, Arrow) to flat sets, without a copy where possible."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsets._extras import import_extra
from torchsets._inputs import _NUMBERS, _NUMPY, Array, Flat


def flatten_awkward(array: Any, fields: Sequence[str] | None) -> Flat:
    """Elements and sizes of sets of records or vectors; see :meth:`torchsets.Sets.from_awkward`."""
    awkward = import_extra("awkward", "awkward")
    if not isinstance(array, awkward.Array):
        raise TypeError(f"array must be an awkward Array, got {type(array).__name__}")
    kind = str(array.type)
    if array.ndim < 2 or "?" in kind or "option[" in kind or "union[" in kind:
        raise ValueError(
            "array must be sets of records or of vectors, without missing values, "
            f"got {kind}; {_awkward_cure(array, kind)}"
        )
    sizes = awkward.to_numpy(awkward.num(array, axis=1))
    flat = awkward.flatten(array, axis=1)  # also right after cuts, unlike the layout of the array
    if not flat.fields:
        if fields is not None:
            raise ValueError(f"fields must be None for an array without records, got {fields}")
        return Flat(_tensor(_awkward_matrix(awkward, flat, kind)), sizes)
    names = list(flat.fields) if fields is None else list(fields)
    unknown = [name for name in names if name not in flat.fields]
    if unknown or not names:
        raise ValueError(f"fields must be some of {flat.fields}, got {names}")
    columns = []
    for name in names:
        column = flat[name]
        if column.ndim != 1 or column.fields or _array(awkward, column).dtype.kind not in _NUMBERS:
            raise ValueError(
                f"field {name!r} must hold one number for each element, got {column.type}; "
                "name the others with fields=[...]"
            )
        columns.append(_array(awkward, column))
    return Flat(_stack(columns), sizes, names=names)


def flatten_arrow(array: Any) -> Flat:
    """Elements and sizes of sets of structs or vectors; see :meth:`torchsets.Sets.from_arrow`."""
    arrow = import_extra("pyarrow", "arrow")
    types = import_extra("pyarrow.types", "arrow")
    if not isinstance(array, (arrow.Array, arrow.ChunkedArray)):
        if not hasattr(array, "__arrow_c_stream__") and not hasattr(array, "__arrow_c_array__"):
            raise TypeError(
                "array must be a list array of Arrow, or a column that offers one, got "
                f"{type(array).__name__}"
            )
        stream = hasattr(array, "__arrow_c_stream__")
        array = arrow.chunked_array(array) if stream else arrow.array(array)
    if isinstance(array, arrow.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, arrow.ChunkedArray):  # of no chunks
        array = arrow.concat_arrays(array.chunks) if array.chunks else arrow.array([], array.type)
    if not _is_list(types, array.type):
        raise ValueError(
            "array must be sets: list<fixed_size_list<float>[D]>, list<list<float>> or "
            f"list<struct<..>>, got {array.type}"
        )
    _refuse_nulls(array, "set")
    flat, sizes = _open_list(types, array)
    _refuse_nulls(flat, "element")
    if types.is_struct(flat.type):
        names = [flat.type.field(place).name for place in range(flat.type.num_fields)]
        columns = [_arrow_numbers(types, one, flat.type) for one in flat.flatten()]
        return Flat(_stack(columns), sizes, names=names)
    if not _is_list(types, flat.type):
        raise ValueError(
            f"array must hold a vector for each element, got {array.type}; "
            "a set of plain numbers needs a list around each number"
        )
    numbers, widths = _open_list(types, flat)
    if types.is_fixed_size_list(flat.type):
        width = flat.type.list_size
    else:
        width = int(widths[0]) if len(widths) else 0
        if (widths != width).any():
            culprit = int((widths != width).argmax())
            raise ValueError(
                f"elements must all have the same number of features, got {width} in element 0 "
                f"and {int(widths[culprit])} in element {culprit}"
            )
    matrix = _arrow_numbers(types, numbers, flat.type).reshape(len(flat), width)
    return Flat(_tensor(matrix), sizes)


def _awkward_cure(array: Any, kind: str) -> str:
    if array.ndim < 2:
        return "a set of plain numbers x needs an axis for the feature: x[..., np.newaxis]"
    return "ak.drop_none or ak.fill_none removes missing values"


def _awkward_matrix(awkward: Any, flat: Any, kind: str) -> Array:
    if flat.ndim != 2:
        raise ValueError(
            f"array must have three axes, sets, elements and features, got {kind}; "
            "a set of plain numbers x needs an axis for the feature: x[..., np.newaxis]"
        )
    try:
        # Rows of one length may still be of a type that allows others.
        matrix = _array(awkward, awkward.to_regular(flat, axis=1))
    except ValueError as error:
        raise ValueError(
            f"elements must all have the same number of features, got {kind}"
        ) from error
    if matrix.dtype.kind not in _NUMBERS:
        raise ValueError(f"array must hold numbers, got {kind}")
    return matrix


def _array(awkward: Any, flat: Any) -> Array:
    array: Array = awkward.to_numpy(flat)
    return array


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _open_list(types: Any, array: Any) -> tuple[Any, Array]:
    """What is inside a list array that has no nulls, respecting slices, and the lengths."""
    if types.is_fixed_size_list(array.type):
        width = array.type.list_size
        inside = array.values.slice(array.offset * width, len(array) * width)
        return inside, np.full(len(array), width, dtype=np.int64)
    offsets = array.offsets.to_numpy()
    if not len(offsets):
        return array.values.slice(0, 0), np.zeros(0, dtype=np.int64)
    return array.values.slice(offsets[0], offsets[-1] - offsets[0]), np.diff(offsets)


def _refuse_nulls(array: Any, what: str) -> None:
    if array.null_count:
        place = int(np.asarray(array.is_null()).argmax())
        raise ValueError(
            f"array must have no nulls, got {array.null_count}, the first in {what} {place}; "
            "fill or drop them first (an empty set is an empty list)"
        )


def _arrow_numbers(types: Any, column: Any, kind: Any) -> Array:
    if not (
        types.is_integer(column.type)
        or types.is_floating(column.type)
        or types.is_boolean(column.type)
    ):
        raise ValueError(f"array must hold numbers, got {kind}")
    _refuse_nulls(column, "number")
    array: Array = column.to_numpy(zero_copy_only=False)
    return array


def _stack(columns: list[Array]) -> Tensor:
    dtype = torch.get_default_dtype()
    joined = np.empty((len(columns[0]), len(columns)), dtype=_NUMPY.get(dtype, np.float64))
    for place, column in enumerate(columns):
        joined[:, place] = column
    return torch.from_numpy(joined).to(dtype)


def _tensor(array: Array) -> Tensor:
    """A tensor of the default dtype that uses the array's memory where it can."""
    dtype = torch.get_default_dtype()
    wanted = _NUMPY.get(dtype, np.float64)
    array = np.ascontiguousarray(array, dtype=wanted)
    with warnings.catch_warnings():
        # Arrow's memory is read-only. The documentation says not to write into such sets.
        warnings.filterwarnings("ignore", message=".*not writable", category=UserWarning)
        return torch.from_numpy(array).to(dtype)
