import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from torchsets.estimators import SetRegressor

SMALL = {"hidden": 8, "max_epochs": 40, "learning_rate": 0.02, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(size, 2)) for size in rng.integers(1, 7, size=60)]
    return sets, np.array([1000 + 50 * len(one) for one in sets])


def test_learns_numbers_far_from_zero(data):
    X, y = data
    assert cross_val_score(SetRegressor(**SMALL), X, y, cv=2).min() > 0.6


def test_several_numbers_have_a_column_each(data):
    X, y = data
    both = SetRegressor(**SMALL).fit(X, np.stack([y, -y / 10], axis=1))
    predicted = both.predict(X)
    assert predicted.shape == (60, 2)
    assert np.corrcoef(predicted[:, 0], predicted[:, 1])[0, 1] < -0.9
    assert both.score(X, np.stack([y, -y / 10], axis=1)) > 0.8


def test_partial_fit_keeps_the_scales_of_the_first_call(data):
    X, y = data
    online = SetRegressor(**SMALL)
    for _ in range(20):
        online.partial_fit(X[:30], y[:30])
        online.partial_fit(X[30:], y[30:])
    assert online.target_mean_ == pytest.approx([y[:30].mean()])
    assert online.score(X, y) > 0.6
    with pytest.raises(ValueError, match="y must have 1 columns as in the first call, got 2"):
        online.partial_fit(X, np.stack([y, y], axis=1))


def test_targets_are_checked(data):
    X, _ = data
    with pytest.raises(ValueError, match="requires y to be passed"):
        SetRegressor().fit(X, None)
    with pytest.raises(ValueError, match=r"y must have shape \(S,\) or \(S, K\), got \(60, 1, 1\)"):
        SetRegressor().fit(X, np.zeros((60, 1, 1)))
    with pytest.raises(ValueError, match="must be small enough for their variance to be finite"):
        SetRegressor().fit(X, np.linspace(-1e200, 1e200, 60))
    with pytest.raises(ValueError, match="must be small enough for their variance to be finite"):
        SetRegressor().fit([one * 1e200 for one in X], np.zeros(60))
