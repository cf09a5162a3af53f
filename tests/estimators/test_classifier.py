import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from torchsets import SetBatch, Sets
from torchsets.encoders import DeepSets
from torchsets.estimators import ElementTransformer, SetClassifier, SetStatistics
from torchsets.estimators.trained import moments, scale_sets
from torchsets.mlp import MLP
from torchsets.pooling import SumPool

SMALL = {"hidden": 8, "max_epochs": 15, "learning_rate": 0.02, "random_state": 0}


def two_kinds(count=40, seed=0):
    """Sets of 0 to 6 points about two centres far from zero; the empty ones are all of a kind."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, count)
    sizes = np.where(kinds, rng.integers(1, 7, count), rng.integers(0, 7, count))
    sets = [
        rng.normal(size=(size, 2)) + 100 + 3 * kind for size, kind in zip(sizes, kinds, strict=True)
    ]
    return sets, np.array(["few", "many"])[kinds]


@pytest.fixture(scope="module")
def data():
    return two_kinds()


@pytest.fixture(scope="module")
def fitted(data):
    return SetClassifier(**SMALL).fit(*data)


def test_learns_what_can_be_learned(fitted):
    X, y = two_kinds(seed=1)
    assert fitted.score(X, y) > 0.9
    assert fitted.predict_proba(X).sum(axis=1) == pytest.approx(1)
    assert fitted.classes_.tolist() == ["few", "many"]
    assert fitted.n_iter_ == len(fitted.history_) == 15
    assert fitted.history_[-1]["loss"] < fitted.history_[0]["loss"]


def test_two_fits_are_equal_bit_for_bit_and_leave_torch_alone(data, fitted):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    again = clone(fitted).fit(*data)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(again.predict_proba(data[0]), fitted.predict_proba(data[0]))
    other = clone(fitted).set_params(random_state=1).fit(*data)
    assert not np.array_equal(other.predict_proba(data[0]), fitted.predict_proba(data[0]))


def test_neither_the_order_of_elements_nor_the_other_sets_matter(data, fitted):
    X, _ = data
    together = fitted.predict_proba(X)
    alone = np.concatenate([fitted.predict_proba([one[::-1]]) for one in X])
    assert alone == pytest.approx(together, abs=1e-5)


@pytest.mark.parametrize("elements", [1, 7, 40])
def test_predictions_in_many_batches_are_the_same(elements, data, fitted, monkeypatch):
    together = fitted.predict_proba(data[0])
    monkeypatch.setattr("torchsets.estimators.trained._ELEMENTS_AT_ONCE", elements)
    assert fitted.predict_proba(data[0]) == pytest.approx(together, abs=1e-5)


@pytest.mark.parametrize("form", [tuple, Sets.from_list, SetBatch.from_list])
def test_other_forms_predict_the_same(form, data, fitted):
    assert np.array_equal(fitted.predict(form(data[0])), fitted.predict(data[0]))


def test_weights_move_the_probabilities_of_equal_sets():
    X, y = [np.zeros((1, 1))] * 20, [0] * 10 + [1] * 10
    weighted = SetClassifier(**SMALL, class_weight={0: 1, 1: 9}).fit(X, y)
    by_set = SetClassifier(**SMALL).fit(X, y, sample_weight=[1] * 10 + [9] * 10)
    assert weighted.predict_proba(X[:1])[0, 1] > 0.7
    assert by_set.predict_proba(X[:1])[0, 1] == pytest.approx(
        weighted.predict_proba(X[:1])[0, 1], abs=1e-5
    )
    unequal = SetClassifier(**SMALL, class_weight="balanced").fit(X[:12], y[:12])
    assert unequal.predict_proba(X[:1])[0, 1] == pytest.approx(0.5, abs=0.1)


def test_early_stopping_holds_out_and_stops(data):
    patient = {**SMALL, "max_epochs": 200, "learning_rate": 0.1}
    stopped = SetClassifier(**patient, early_stopping=True, patience=2).fit(*data)
    losses = [line["valid_loss"] for line in stopped.history_]
    assert stopped.n_iter_ < 200
    assert min(losses) == losses[-3]
    with pytest.raises(ValueError, match="early_stopping needs sets to hold out"):
        SetClassifier(early_stopping=True, validation_fraction=0.01).fit(*data)


def test_partial_fit_goes_on_where_it_was(data):
    X, y = data
    online = SetClassifier(**SMALL)
    with pytest.raises(ValueError, match="classes must be given to the first call"):
        online.partial_fit(X, y)
    for _ in range(15):
        online.partial_fit(X[:20], y[:20], classes=["few", "many"])
        online.partial_fit(X[20:], y[20:])
    assert online.n_iter_ == 30
    assert online.score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"y must be among classes .* got 'none'"):
        online.partial_fit(X[:1], ["none"])
    with pytest.raises(ValueError, match="'balanced' needs all sets at once"):
        SetClassifier(class_weight="balanced").partial_fit(X, y, classes=["few", "many"])


def test_partial_fit_after_fit_still_moves(data):
    X, y = data
    fitted = SetClassifier(**{**SMALL, "max_epochs": 2}).fit(X, y)
    before = fitted.predict_proba(X)
    assert np.abs(fitted.partial_fit(X, y).predict_proba(X) - before).max() > 1e-2


def my_network(features, outputs):
    return DeepSets(MLP(features, 8, 8), SumPool(), nn.Linear(8, outputs))


def test_a_network_of_ones_own_is_trained(data):
    own = clone(SetClassifier(**SMALL, network=my_network)).fit(*data)
    assert isinstance(own.module_, DeepSets)
    assert own.score(*data) > 0.9


def test_the_bar_shows_epochs(data, capsys, monkeypatch):
    monkeypatch.setattr("torchsets.estimators.trained._SECONDS_BETWEEN_LINES", -1.0)
    SetClassifier(**{**SMALL, "max_epochs": 2}, verbose=1).fit(*data)
    assert "SetClassifier: epoch 2 of 2, loss" in capsys.readouterr().err


def test_works_inside_scikit_learn(data):
    X, y = data
    quick = SetClassifier(**{**SMALL, "max_epochs": 6})
    assert cross_val_score(quick, Sets.from_list(X), y, cv=2, scoring="roc_auc").min() > 0.7
    scaled = make_pipeline(ElementTransformer(StandardScaler()), quick)
    assert cross_val_predict(scaled, tuple(X), y, cv=2, method="predict_proba").shape == (40, 2)
    plain = make_pipeline(SetStatistics(), StandardScaler(), LogisticRegression())
    stack = StackingClassifier([("network", quick), ("plain", plain)], cv=2)
    assert stack.fit(X, y).score(X, y) > 0.7
    assert CalibratedClassifierCV(quick, cv=2).fit(X, y).score(X, y) > 0.7


@pytest.mark.slow  # starts two processes, which import torch
def test_grid_search_in_two_processes(data):
    search = GridSearchCV(SetClassifier(**SMALL), {"pooling": ["sum", "fspool"]}, cv=2, n_jobs=2)
    array = np.empty(len(data[0]), dtype=object)
    array[:] = data[0]
    search.fit(array, data[1], sample_weight=np.ones(40))
    assert search.best_score_ > 0.8


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"max_epochs": 1.5}, "max_epochs must be an integer, got 1.5"),
        ({"learning_rate": 0}, "learning_rate must be above 0, got 0"),
        ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1"),
        ({"pooling": "median"}, "pooling must be one of fspool"),
        ({"network": nn.Linear(1, 1), "device": "abacus"}, "device 'abacus' is not available"),
        ({"network": "big"}, r"network must be a callable \(features, outputs\) -> module"),
        ({"network": lambda features, outputs: None}, "network must return a torch.nn.Module"),
    ],
)
def test_parameters_are_checked_in_fit(parameters, message, data):
    classifier = SetClassifier(**parameters)  # stores only
    with pytest.raises((TypeError, ValueError), match=message):
        classifier.fit(*data)


def test_targets_are_checked(data):
    X, y = data
    with pytest.raises(ValueError, match="requires y to be passed"):
        SetClassifier().fit(X, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SetClassifier().fit(X, y[:3])
    with pytest.raises(ValueError, match="y must have at least 2 classes, got 1 class: 1"):
        SetClassifier().fit(X, [1] * len(X))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(40,\), got \(3,\)"):
        SetClassifier().fit(X, y, [1, 2, 3])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        SetClassifier().predict(X)
    with pytest.raises(FloatingPointError, match=r"loss must be finite, got .* lower"):
        SetClassifier(learning_rate=1e30, hidden=4, max_epochs=9).fit(X, y)


@pytest.mark.parametrize("missing", [None, float("nan"), 3], ids=str)
def test_labels_must_be_of_one_type(missing):
    y = np.array(["a", "b", missing], dtype=object)
    message = f"y must hold labels of one type, none missing, got .*{type(missing).__name__}"
    with pytest.raises(ValueError, match=message):
        SetClassifier().fit([np.zeros((1, 1))] * 3, y)


def test_times_in_seconds_keep_their_digits():
    rng = np.random.default_rng(0)
    gaps, starts = rng.integers(0, 2, 60), rng.integers(0, 10**6, 60)
    sets = [
        1.7e9 + np.array([[start], [start + (20 if gap else 2)]], dtype=np.float64)
        for gap, start in zip(gaps, starts, strict=True)
    ]
    model = SetClassifier("max", standardise=False, max_epochs=1, random_state=0)
    read = model._read(sets, reset=True)
    assert torch.equal(read.values.diff(dim=0)[::2].flatten(), torch.tensor(2.0 + 18 * gaps))
    scaled = scale_sets(read, *moments(read.values))
    apart = scaled.values.diff(dim=0)[::2].flatten()
    assert apart[gaps == 1].min() > 5 * apart[gaps == 0].max()  # 10 times, in float32


def test_features_must_come_in_the_order_of_training():
    columns = {"k": [0, 0, 1, 1], "a": [1.0, 2, 3, 4], "b": [10.0, 20, 30, 40]}
    swapped = {name: columns[name] for name in ("k", "b", "a")}
    fitted = SetClassifier(**SMALL).fit(Sets.from_table(columns, by="k"), [0, 1])
    with pytest.raises(ValueError, match=r"feature names should match .*: a, b, got b, a"):
        fitted.predict(Sets.from_table(swapped, by="k"))
    assert len(fitted.predict(Sets.from_table(columns, by="k").values.view(2, 2, 2))) == 2


def test_tiny_and_huge_weights_mean_the_same(data):
    sets, y = data
    expected = SetClassifier(**SMALL).fit(sets, y).predict_proba(sets)
    for weight in (1e-60, 1e60):
        fitted = SetClassifier(**SMALL).fit(sets, y, sample_weight=np.full(len(y), weight))
        assert np.array_equal(fitted.predict_proba(sets), expected)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"few": 0, "many": 0}, "class_weight times sample_weight must be above 0 for some"),
        ({"few": -1, "many": 1}, "class_weight times sample_weight must be finite and not neg"),
    ],
)
def test_weights_of_classes_are_checked(weights, message, data):
    with pytest.raises(ValueError, match=message):
        SetClassifier(**SMALL, class_weight=weights).fit(*data)


def test_a_part_without_a_weighted_class_is_learned(data):
    sets, y = data
    model = SetClassifier(**SMALL, class_weight={"many": 5.0})
    model.partial_fit(sets, y, classes=["few", "many"])
    few = [one for one, kind in zip(sets, y, strict=True) if kind == "few"]
    assert model.partial_fit(few, ["few"] * len(few)).n_iter_ == 2


def test_numbers_too_large_for_the_network_are_named():
    sets, y = [np.full((1, 1), 10.0 ** (100 + kind)) for kind in (0, 1)], [0, 1]
    with pytest.raises(ValueError, match="must fit float32 when they are scaled, got 1e"):
        SetClassifier(**SMALL, standardise=False).fit(sets, y)
    assert SetClassifier(**SMALL).fit(sets, y).predict(sets).tolist() == [0, 1]
