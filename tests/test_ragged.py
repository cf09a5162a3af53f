"""Sets from ragged arrays of awkward and Arrow."""

import numpy as np
import pytest
import torch

from torchsets import Sets

LISTED = [[[1.0, 2.0], [3.0, 4.0]], [], [[5.0, 6.0]]]


@pytest.fixture
def ak():
    return pytest.importorskip("awkward", reason="awkward is not installed")


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def shares_memory(sets, array):
    address, length = array.ctypes.data, array.nbytes
    return address <= sets.values.data_ptr() < address + length


def assert_listed(sets, listed=LISTED):
    assert sets.sizes.tolist() == [len(one) for one in listed]
    assert [one.tolist() for one in sets] == listed


def test_records_of_awkward_become_features(ak):
    array = ak.Array([[{"x": x, "y": y} for x, y in one] for one in LISTED])
    sets = Sets.from_awkward(array)
    assert_listed(sets)
    assert sets.names == ("x", "y")
    assert Sets.from_awkward(array, fields=["y"]).values.tolist() == [[2.0], [4.0], [6.0]]


def test_an_awkward_array_after_a_cut_and_in_another_order(ak):
    array = ak.Array([[{"x": x, "y": y} for x, y in one] for one in LISTED])
    cut = array[array.x > 2][::-1]
    assert_listed(Sets.from_awkward(cut), [[[5.0, 6.0]], [], [[3.0, 4.0]]])


def test_vectors_of_awkward_are_not_copied(ak):
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    array = ak.unflatten(ak.from_numpy(values, regulararray=True), [3, 0, 3])
    sets = Sets.from_awkward(array)
    assert shares_memory(sets, values)
    assert torch.equal(sets.values, torch.from_numpy(values))
    assert sets.sizes.tolist() == [3, 0, 3]


def test_awkward_lists_of_one_length_are_vectors(ak):
    assert_listed(Sets.from_awkward(ak.Array(LISTED)))


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        ([1.0, 2.0], {}, r"x\[\.\.\., np\.newaxis\]"),
        ([[1.0], [2.0, 3.0]], {}, r"x\[\.\.\., np\.newaxis\]"),
        ([[[1.0], [2.0, 3.0]]], {}, "same number of features"),
        ([[[1.0]], None], {}, r"without missing values, got .*ak\.drop_none"),
        ([[[1.0, None]]], {}, "without missing values"),
        ([[[1.0]]], {"fields": ["x"]}, "fields must be None for an array without records"),
        ([[{"x": 1.0}]], {"fields": ["z"]}, r"fields must be some of \['x'\], got \['z'\]"),
        ([[{"x": 1.0, "s": "a"}]], {}, "field 's' must hold one number for each element"),
        ([[{"x": [1.0]}]], {}, "field 'x' must hold one number for each element"),
    ],
)
def test_awkward_arrays_that_are_no_sets(ak, array, options, message):
    with pytest.raises(ValueError, match=message):
        Sets.from_awkward(ak.Array(array), **options)


def test_only_awkward_arrays_are_awkward_arrays(ak):
    with pytest.raises(TypeError, match="array must be an awkward Array, got list"):
        Sets.from_awkward(LISTED)


def vectors(pa, large=False, dtype="float32"):
    inner = pa.list_(getattr(pa, dtype)(), 2)
    return pa.array(LISTED, pa.large_list(inner) if large else pa.list_(inner))


@pytest.mark.parametrize("large", [False, True])
def test_vectors_of_arrow_are_not_copied(pa, large):
    array = vectors(pa, large)
    sets = Sets.from_arrow(array)
    assert_listed(sets)
    numbers = array.values.values.to_numpy()
    assert shares_memory(sets, numbers)


def test_a_slice_of_arrow_is_not_copied(pa):
    array = vectors(pa)
    sets = Sets.from_arrow(array[1:])
    assert_listed(sets, LISTED[1:])
    assert shares_memory(sets, array.values.values.to_numpy())


def test_other_layouts_of_arrow(pa):
    assert_listed(Sets.from_arrow(vectors(pa, dtype="float64")))
    assert_listed(Sets.from_arrow(pa.array(LISTED)))  # list<list<double>>
    assert_listed(Sets.from_arrow(pa.chunked_array([pa.array(LISTED[:2]), pa.array(LISTED[2:])])))
    pairs = [[[7.0, 8.0], [9.0, 0.0]], LISTED[0]]
    fixed = pa.array(pairs, pa.list_(pa.list_(pa.float32(), 2), 2))
    assert_listed(Sets.from_arrow(fixed), pairs)
    assert_listed(Sets.from_arrow(fixed[1:]), pairs[1:])
    structs = pa.array([[{"x": x, "y": y} for x, y in one] for one in LISTED])
    sets = Sets.from_arrow(structs[1:])
    assert_listed(sets, LISTED[1:])
    assert sets.names == ("x", "y")
    nothing = Sets.from_arrow(pa.chunked_array([], pa.list_(pa.list_(pa.float32(), 2))))
    assert nothing.values.shape == (0, 2)


def test_a_column_of_polars_is_arrow_too(pa):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    column = polars.Series(LISTED, dtype=polars.List(polars.Array(polars.Float32, 2)))
    assert_listed(Sets.from_arrow(column))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([LISTED[0], None], "no nulls, got 1, the first in set 1"),
        ([[[1.0], None]], "no nulls, got 1, the first in element 1"),
        ([[[1.0, None]]], "no nulls, got 1, the first in number 1"),
        ([[[1.0], [1.0, 2.0]]], "got 1 in element 0 and 2 in element 1"),
        ([[1.0]], "needs a list around each number"),
        ([1.0], "array must be sets: .* got double"),
        ([[["a"]]], r"array must hold numbers, got list"),
        ([[{"x": "a"}]], "array must hold numbers, got struct"),
    ],
)
def test_arrow_arrays_that_are_no_sets(pa, array, message):
    with pytest.raises(ValueError, match=message):
        Sets.from_arrow(pa.array(array))


def test_only_arrow_arrays_are_arrow_arrays(pa):
    with pytest.raises(TypeError, match=r"array must be a list array of Arrow, .* got list"):
        Sets.from_arrow(LISTED)
