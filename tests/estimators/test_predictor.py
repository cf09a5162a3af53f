import numpy as np
import pytest
from pandas import DataFrame
from sklearn.model_selection import GridSearchCV, cross_val_score

from torchsets import Sets
from torchsets.estimators import SetPredictor

SMALL = {"latent": 16, "hidden": 16, "learning_rate": 0.01, "random_state": 0}


@pytest.fixture(scope="module")
def numbers():
    """Vectors of a size and a place, and the sets that have them."""
    rng = np.random.default_rng(0)
    sizes, places = rng.integers(1, 4, size=60), rng.normal(size=60)
    X = np.stack([sizes, places], axis=1)
    pairs = zip(sizes, places, strict=True)
    return X, [np.array([[100 + 10 * p + k] for k in range(n)]) for n, p in pairs]


@pytest.fixture(scope="module")
def fitted(numbers):
    return SetPredictor("mlp", max_epochs=60, **SMALL).fit(*numbers)


def test_predicts_sets_from_vectors(numbers, fitted):
    X, Y = numbers
    predicted = fitted.predict(X)
    sizes = np.array([[len(one), len(other)] for one, other in zip(predicted, Y, strict=True)])
    assert (sizes[:, 0] == sizes[:, 1]).mean() > 0.8
    untrained = SetPredictor("mlp", max_epochs=1, **SMALL).fit(X, Y)
    assert untrained.score(X, Y) < fitted.score(X, Y) <= 0


def test_a_vector_predicts_the_same_alone(numbers, fitted):
    X, _ = numbers
    together = fitted.predict(X[:5])
    for row, expected in zip(X[:5], together, strict=True):
        assert fitted.predict([row.tolist()])[0] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("decoder", ["dspn", "lstm", "tspn", "query", "slot-attention"])
def test_every_decoder_learns_from_sets(decoder, numbers):
    _, Y = numbers
    X = [one[::-1] / 2 for one in Y]
    quick = SetPredictor(decoder, max_epochs=3, **SMALL).fit(Sets.from_list(X[:30]), Y[:30])
    assert quick.history_[-1]["loss"] < quick.history_[0]["loss"]
    assert len(quick.predict(X[:2])) == 2


def test_the_score_is_what_the_docstring_says(numbers, fitted):
    X, _ = numbers
    predicted = fitted.predict(X)
    assert fitted.score(X, predicted) == pytest.approx(0, abs=1e-6)
    longer = [np.concatenate([one, one[:1]]) if len(one) else one for one in predicted]
    expected = -np.mean([1 / len(one) if len(one) else 0 for one in longer])
    assert fitted.score(X, longer) == pytest.approx(expected, abs=1e-6)
    assert fitted.score(X, [np.zeros((0, 1))] * len(X)) == pytest.approx(
        -np.mean([len(one) > 0 for one in predicted])
    )


def test_sets_are_targets_for_the_splitters_of_scikit_learn(numbers):
    X, Y = numbers
    quick = SetPredictor("mlp", max_epochs=2, matching="chamfer", **SMALL)
    assert np.isfinite(cross_val_score(quick, X, Y, cv=2)).all()
    search = GridSearchCV(quick, {"hidden": [8, 16]}, cv=2).fit(list(X), Y)
    assert search.best_params_["hidden"] in (8, 16)


def test_empty_sets_are_sets(numbers):
    X, Y = numbers
    Y = [np.zeros((0, 1)), *Y[1:]]
    assert np.isfinite(SetPredictor("dspn", max_epochs=1, **SMALL).fit(X, Y).score(X, Y))


def test_wrong_input_is_named(numbers, fitted):
    X, Y = numbers
    with pytest.raises(ValueError, match=r"X must be vectors \(S, F\) as in training, got sets"):
        fitted.predict(Y)
    with pytest.raises(ValueError, match="X has 3 features, but SetPredictor is expecting 2"):
        fitted.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="sets of y must have 1 features as in training, got 2"):
        fitted.score(X[:1], [np.zeros((1, 2))])
    with pytest.raises(ValueError, match="slots must be at least the largest set of y, 3, got 2"):
        SetPredictor(slots=2).fit(X, Y)
    with pytest.raises(ValueError, match="decoder must be one of dspn"):
        SetPredictor("fspool").fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"latent": 0}, "latent must be at least 1, got 0"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        ({"max_epochs": 2.5}, "max_epochs must be an integer, got 2.5"),
    ],
)
def test_parameters_are_checked_for_vectors_too(parameters, message, numbers):
    with pytest.raises((TypeError, ValueError), match=message):
        SetPredictor("mlp", **parameters).fit(*numbers)


def test_columns_must_come_in_the_order_of_training(numbers):
    X, Y = numbers
    frame = DataFrame(X, columns=["size", "place"])
    fitted = SetPredictor("mlp", max_epochs=1, **SMALL).fit(frame, Y)
    assert fitted.feature_names_in_.tolist() == ["size", "place"]
    with pytest.raises(ValueError, match=r"feature names should match .*: size, place, got place"):
        fitted.predict(frame[["place", "size"]])
    assert not hasattr(fitted.fit(DataFrame(X), Y), "feature_names_in_")  # numbered columns
