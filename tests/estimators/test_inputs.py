"""All forms of sets mean the same, and what is no list of sets gets a sentence that helps."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from torchsets import SetBatch, Sets
from torchsets.estimators import SetClassifier, SetStatistics
from torchsets.estimators.inputs import read_sets

RAGGED = [np.array([[1.0, 2], [3, 4]]), np.zeros((0, 2)), np.array([[5.0, 6]])]
EQUAL = [np.array([[1.0, 2], [3, 4]]), np.array([[5.0, 6], [7, 8]])]


def object_array(sets):
    array = np.empty(len(sets), dtype=object)
    array[:] = sets
    return array


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        object_array,
        Sets.from_list,
        SetBatch.from_list,
        lambda sets: [one.tolist() for one in sets],
        lambda sets: [torch.tensor(one) for one in sets],
        lambda sets: [one.astype(np.int8) for one in sets],
        lambda sets: [one.astype(object) for one in sets],
    ],
    ids=["list", "tuple", "objects", "Sets", "SetBatch", "nested", "tensors", "integers", "object"],
)
def test_all_forms_of_ragged_sets_mean_the_same(form):
    sets = read_sets(form(RAGGED))
    assert sets.values.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert sets.sizes.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([np.float32, np.float32], torch.float32),
        ([np.float16, np.int8], torch.float32),
        ([np.float32, np.float64], torch.float64),
        ([np.int64, np.float32], torch.float64),
    ],
    ids=str,
)
def test_numbers_keep_the_digits_that_they_have(dtypes, expected):
    sets = [np.ones((2, 1), dtype) for dtype in dtypes]
    assert read_sets(sets).values.dtype == expected
    assert read_sets(Sets.from_list([torch.zeros(1, 1).half()])).values.dtype == torch.float32


@pytest.mark.parametrize(
    "form",
    [np.array, lambda sets: np.array(sets, dtype=object), lambda s: torch.tensor(np.array(s))],
    ids=["array", "array of objects", "tensor"],
)
def test_an_array_with_three_axes_is_a_list_of_sets(form):
    sets = read_sets(form(EQUAL))
    assert sets.values.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert sets.sizes.tolist() == [2, 2]


@pytest.mark.skipif(find_spec("pandas") is None, reason="needs pandas")
def test_a_series_of_arrays_is_a_list_of_sets_whatever_its_index():
    from pandas import Series

    assert read_sets(Series(RAGGED, index=[7, 3, 7])).sizes.tolist() == [2, 0, 1]


class Table:
    """What tables of pandas and polars have in common."""

    columns = ("x", "y")

    def __len__(self):
        return 3


BAD = {
    "one array": (
        np.zeros((10, 3)),
        r"X must be a sequence of sets \(n, D\), or an array \(S, N, D\), got an array of shape "
        r"\(10, 3\)",
    ),
    "one vector": (np.zeros(4), r"got an array of shape \(4,\)"),
    "one tensor": (torch.zeros(4, 2), r"got an array of shape \(4, 2\)"),
    "images": (np.zeros((2, 3, 4, 5)), r"got an array of shape \(2, 3, 4, 5\)"),
    "1-d sets": (
        [np.zeros(3), np.zeros(4)],
        r"set 0 of X must have shape \(n, D\), got \(3,\); for a set of numbers use x\[:, None\]",
    ),
    "numbers": ([1.0, 2.0], r"set 0 of X must have shape \(n, D\), got \(\)"),
    "3-d sets": ([np.zeros((2, 3, 4))], r"set 0 of X must have shape \(n, D\), got \(2, 3, 4\)"),
    "features differ": (
        [np.zeros((2, 3)), np.zeros((1, 4))],
        "sets of X must have the same number of features, got 3 in set 0 and 4 in set 1",
    ),
    "no features": ([np.zeros((2, 0))], "sets of X must have at least one feature, got 0"),
    "nan": (
        [np.zeros((2, 2)), np.array([[np.nan, 0.0]])],
        r"X must be finite, got nan in set 1, feature 0 \(1 set\); remove or impute such elements",
    ),
    "infinite": ([np.array([[0, np.inf]])], "got infinity in set 0, feature 1"),
    "table": (
        Table(),
        r"X must be a sequence of sets, got a table; Sets.from_table\(frame, by=column\) makes "
        "sets of its rows",
    ),
    "nothing": ([], "X must hold at least one set, got none"),
    "empty lists only": ([[], []], r"must say their number of features, got empty lists; use np"),
    "words": ([np.array([["a", "b"]])], "set 0 of X must hold real numbers, got <U1; encode"),
    "complex numbers": ([np.array([[1j]])], "set 0 of X must hold real numbers, got complex128"),
    "ragged rows": ([[[1.0, 2.0], [3.0]]], "set 0 of X must be an array of numbers"),
    "a word": ("sets", "must be a sequence of sets .* got str"),
    "a dict": ({"x": RAGGED}, "must be a sequence of sets .* got dict"),
    "a number": (3, "must be a sequence of sets .* got int"),
    "None": (None, "must be a sequence of sets .* got NoneType"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence_that_helps(case):
    data, message = BAD[case]
    with pytest.raises((TypeError, ValueError), match=message):
        SetClassifier(max_epochs=1).fit(data, [0, 1])


def test_another_number_of_features_has_the_words_of_scikit_learn():
    fitted = SetStatistics().fit([np.zeros((2, 3))])
    message = "X has 5 features, but SetStatistics is expecting 3 features as input"
    with pytest.raises(ValueError, match=message):
        fitted.transform([np.zeros((2, 5))])
    assert fitted.transform([[]]).shape == (1, 16)  # a bare [] has no features of its own
