"""Long tables to flat sets: rows that share a key are one set."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from torchsets._extras import import_extra
from torchsets._inputs import _NUMBERS, _NUMPY, Array, Flat, _shorten

_DATES = "mM"  # kinds of numpy: spans and points of time


def group_table(
    frame: Any,
    by: str,
    features: Sequence[str] | None,
    label: str | None,
    keys: Iterable[Any] | None,
) -> Flat:
    """Rows with the same value of column ``by`` as sets; see :meth:`torchsets.Sets.from_table`."""
    columns = _columns(frame)
    names = _feature_names(columns, by, features, label)
    key = _array(columns[by])
    group, found = _factorise(key)
    _check_keys(columns[by], group, found, by)
    if keys is not None:
        group, found = _in_order_of(keys, group, found, by)
    sizes = np.bincount(group, minlength=len(found))
    # Most tables are in order already; a sort would take longer than everything else.
    in_order = bool((group[1:] >= group[:-1]).all())
    rows = slice(None) if in_order else np.argsort(group, kind="stable")
    labels = None
    if label is not None:
        unknown = _missing(columns[label])[rows]
        labels = _labels(_array(columns[label])[rows], unknown, sizes, found, label)
    dtype = torch.get_default_dtype()
    values = np.empty((len(key), len(names)), dtype=_NUMPY.get(dtype, np.float64))
    for place, name in enumerate(names):
        values[:, place] = _numbers(columns[name], name)[rows]
    return Flat(torch.from_numpy(values).to(dtype), sizes, labels, found, names)


def _columns(frame: Any) -> Mapping[str, Any]:
    """The columns of a table by name, arrays or Series of narwhals."""
    if isinstance(frame, Mapping):
        columns = {name: np.asarray(column) for name, column in frame.items()}
        if any(column.ndim != 1 for column in columns.values()):
            shapes = {name: column.shape for name, column in columns.items()}
            raise ValueError(f"columns of frame must have one axis, got shapes {_shorten(shapes)}")
        lengths = {name: len(column) for name, column in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of frame must have the same length, got {_shorten(lengths)}")
        return columns
    narwhals = import_extra("narwhals", "tables")
    try:
        table = narwhals.from_native(frame, eager_only=True)
    except TypeError as error:
        raise TypeError(
            "frame must be a table of pandas, polars or pyarrow, or a dict of columns, got "
            f"{type(frame).__name__}; of a lazy table use frame.collect()"
        ) from error
    return {name: table.get_column(name) for name in table.columns}  # table[0] is a row


def _feature_names(
    columns: Mapping[str, Any], by: str, features: Sequence[str] | None, label: str | None
) -> list[str]:
    if isinstance(features, str):
        raise TypeError(f"features must be a list of columns, got {features!r}; use [{features!r}]")
    if isinstance(by, list):
        raise TypeError(f"by must be one column, got {by!r}")
    asked = [by, *([] if label is None else [label]), *(features or ())]
    for name in asked:
        if name not in columns:
            raise ValueError(
                f"frame has no column {name!r}, only {_shorten(list(columns))}; "
                "reset_index() makes columns of the index of pandas"
            )
    doubled = next((name for name in asked if asked.count(name) > 1), None)
    if doubled is not None:
        raise ValueError(
            f"by, label and features must be different columns, got {doubled!r} more than once"
        )
    names = [name for name in columns if name not in asked] if features is None else list(features)
    if not names:
        raise ValueError("features must name at least one column, got none")
    return names


def _array(column: Any) -> Array:
    array: Array = column if isinstance(column, np.ndarray) else column.to_numpy()
    return array


def _missing(column: Any) -> Array:
    """True where a row has no value: None, nan, or null in a table."""
    if not isinstance(column, np.ndarray):
        nulls: Array = column.is_null().to_numpy()
        return nulls | (_missing(_array(column)) if column.dtype.is_float() else False)
    if column.dtype.kind == "O":
        return np.array([one is None or not _is_itself(one) for one in column], dtype=bool)
    return np.asarray(column != column)


def _is_itself(one: object) -> bool:
    """False of nan and NaT; the NA of pandas has no answer."""
    same = one == one
    return isinstance(same, bool | np.bool_) and bool(same)


def _check_keys(column: Any, group: Array, found: Array, by: str) -> None:
    nulls = _missing(found)[group] if isinstance(column, np.ndarray) else _missing(column)
    if nulls.any():
        raise ValueError(
            f"by must name the set of each row, got no value of {by!r} in row "
            f"{int(nulls.argmax())} ({int(nulls.sum())} in total)"
        )


def _factorise(key: Array) -> tuple[Array, Array]:
    """The group of each row, numbered in order of first appearance, and the key of each group."""
    if key.dtype.kind == "O":  # a dict is faster than a sort of Python objects
        numbers: dict[Any, int] = {}
        group = np.array([numbers.setdefault(one, len(numbers)) for one in key.tolist()], np.int64)
        found = np.empty(len(numbers), dtype=object)
        found[:] = list(numbers)
        return group, found
    begins = np.ones(len(key), dtype=bool)
    begins[1:] = key[1:] != key[:-1]
    runs = key[begins]
    _, first, inverse = np.unique(runs, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    place = np.empty_like(by_appearance)
    place[by_appearance] = np.arange(len(by_appearance))
    group = place[inverse][np.cumsum(begins) - 1]
    return group, runs[first[by_appearance]]


def _in_order_of(keys: Iterable[Any], group: Array, found: Array, by: str) -> tuple[Array, Array]:
    """The same groups, numbered as in ``keys``, which may name groups without rows."""
    if found.dtype.kind in _DATES:
        keys = _as_dates(keys, found, by)
        found = found.astype(keys.dtype)
    listed = _listed(keys) if isinstance(keys, np.ndarray) else list(keys)
    place = {key: index for index, key in enumerate(listed)}
    if len(place) < len(listed):
        doubled = next(key for index, key in enumerate(listed) if place[key] != index)
        raise ValueError(f"keys must be different, got {doubled!r} more than once")
    unnamed = [key for key in _listed(found) if key not in place]
    if unnamed:
        raise ValueError(
            f"keys must name every group of {by!r}, got none for {_shorten(unnamed)}; "
            "filter the table first to leave groups out"
        )
    new = np.array([place[key] for key in _listed(found)], dtype=np.int64)
    as_they_are = found.dtype.kind == "O" or _is_mixed(listed)
    ordered = np.empty(len(listed), dtype=object) if as_they_are else np.array(listed)
    if as_they_are:
        ordered[:] = listed
    return new[group] if len(new) else group, ordered


def _is_mixed(keys: list[Any]) -> bool:
    """Whether numpy would make text of some of the keys."""
    texts = sum(isinstance(key, str) for key in keys)
    return 0 < texts < len(keys)


def _as_dates(keys: Iterable[Any], found: Array, by: str) -> Array:
    """Keys as dates or spans, no coarser than they are, nor than those of the table."""
    kind = found.dtype.kind
    change = "to_datetime64" if kind == "M" else "to_timedelta64"  # of pandas
    listed = [getattr(key, change)() if hasattr(key, change) else key for key in keys]
    try:
        dates = np.array(listed, dtype=f"{kind}8")
        return dates.astype(np.promote_types(dates.dtype, found.dtype))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"keys must be dates as those of {by!r}, got {_shorten(listed)}"
        ) from error


def _listed(keys: Array) -> list[Any]:
    """Keys as Python has them; dates stay what numpy has, for its lists of them hold integers."""
    return list(keys) if keys.dtype.kind in _DATES else keys.tolist()


def _labels(label: Array, unknown: Array, sizes: Array, found: Array, name: str) -> Array:
    """The label of each group, from the labels of the rows, which are in the order of groups."""
    if not sizes.all():
        raise ValueError(
            f"label must be known for each group, but group {found[sizes.argmin()]} has no rows; "
            "leave label out and use labels of your own"
        )
    first = np.cumsum(sizes) - sizes
    labels = label[first]
    owners = np.repeat(np.arange(len(sizes)), sizes)
    same = ~(unknown | unknown[first][owners])  # the rest can be compared
    same[same] = label[same] == labels[owners[same]]
    if not same.all():
        culprit = int(owners[same.argmin()])
        what = "no value" if unknown[owners == culprit].all() else "several values"
        raise ValueError(
            f"label must be constant within a group, got {what} of {name!r} "
            f"in group {found[culprit]}"
        )
    return labels


def _numbers(column: Any, name: str) -> Array:
    """A feature column as numbers; what is missing is nan."""
    is_array = isinstance(column, np.ndarray)
    dtype = column.dtype
    fits = dtype.kind in _NUMBERS if is_array else dtype.is_numeric() or str(dtype) == "Boolean"
    if not fits:
        raise ValueError(
            f"column {name!r} must hold numbers to be a feature, got {dtype}; "
            "leave it out with features=[...], or encode it first"
        )
    if not is_array and not dtype.is_numeric():
        column = column.cast(import_extra("narwhals", "tables").Int8)  # pandas' NA has no float
    array = _array(column)
    return array if array.dtype.kind in _NUMBERS else np.array(array, dtype=np.float64)
