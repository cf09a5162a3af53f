import numpy as np
import pytest

from torchsets import Sets
from torchsets.estimators import SetStatistics

SETS = [np.array([[1.0, -2], [3, 5], [4, 0]]), np.zeros((0, 2)), np.array([[1e4 + 1, 7.0]])]


def test_matches_numpy():
    found = SetStatistics().fit_transform(SETS)
    for row, one in zip(found, SETS, strict=True):
        expected = (
            [one.mean(0), one.std(0), one.min(0), one.max(0), one.sum(0), [len(one)]]
            if len(one)
            else [np.zeros(11)]
        )
        assert row == pytest.approx(np.concatenate(expected))


def test_a_spread_beside_a_large_mean_keeps_its_digits():
    found = SetStatistics(["std"], size=False).fit_transform([[[1e4], [1e4 + 1]]])
    assert found[0, 0] == pytest.approx(0.5)


def test_columns_have_names():
    fitted = SetStatistics(["min", "sum"]).fit(SETS)
    names = ["min_x0", "min_x1", "sum_x0", "sum_x1", "size"]
    assert fitted.get_feature_names_out().tolist() == names
    assert fitted.get_feature_names_out(["a", "b"]).tolist()[0] == "min_a"


def test_an_unknown_statistic_is_named():
    with pytest.raises(ValueError, match=r"statistics must be among mean, .* got 'median'"):
        SetStatistics(["mean", "median"]).fit(SETS)
    with pytest.raises(ValueError, match="at least one if size is False"):
        SetStatistics([], size=False).fit(SETS)


def test_names_of_features_are_kept():
    sets = Sets.from_list(SETS)
    sets.names = ("mass", "charge")  # as those of a table
    fitted = SetStatistics(["max"]).fit(sets)
    assert fitted.feature_names_in_.tolist() == ["mass", "charge"]
    assert fitted.get_feature_names_out().tolist() == ["max_mass", "max_charge", "size"]
    assert not hasattr(fitted.fit(SETS), "feature_names_in_")


def test_large_numbers_keep_their_digits():
    sets = [np.array([[16777217], [16777217]]), 1.7e9 + np.array([[0.0], [20.0]])]
    found = SetStatistics(["sum", "max", "std"], size=False).fit_transform(sets)
    assert found[0].tolist() == [33554434.0, 16777217.0, 0.0]
    assert found[1, 2] == 10.0
