"""What fails changes nothing: a fitted estimator predicts as before, a new one is not fitted."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

from torchsets import Sets
from torchsets.estimators import (
    ElementTransformer,
    SetClassifier,
    SetEncoder,
    SetPredictor,
    SetRegressor,
)
from torchsets.estimators.networks import SetNetwork

SMALL = {"hidden": 8, "max_epochs": 2, "random_state": 0}
RNG = np.random.default_rng(0)
SETS = [RNG.normal(size=(size, 2)) for size in RNG.integers(1, 5, size=20)]
WIDER = Sets(RNG.normal(size=(120, 3)), np.full(20, 6), names=["a", "b", "c"])
SIZES = np.array([len(one) for one in SETS])
ESTIMATORS = {
    "classifier": (SetClassifier(**SMALL), SIZES > 2, SIZES),
    "regressor": (SetRegressor(**SMALL), SIZES, np.stack([SIZES, SIZES], axis=1)),
    "encoder": (SetEncoder(4, **SMALL), None, None),
    "predictor": (SetPredictor(latent=8, **SMALL), SETS, WIDER),
}
FAILURES = {
    "device": ({"device": "abacus"}, "device 'abacus' is not available"),
    "hold-out": ({"early_stopping": True, "validation_fraction": 0.001}, "sets to hold out"),
    "training": ({"learning_rate": 1e30, "max_epochs": 9}, "must be finite"),
    "parameter": ({"pooling": "nope"}, "pooling must be one of"),
}


def outputs(estimator):
    return estimator._predict_vectors(SETS)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("case", ESTIMATORS)
def test_a_fit_that_fails_changes_nothing(case, failure):
    estimator, y, other = ESTIMATORS[case]
    parameters, message = FAILURES[failure]
    estimator = clone(estimator).fit(SETS, y)
    expected, before = outputs(estimator), dict(vars(estimator))
    with pytest.raises((ValueError, FloatingPointError), match=message):
        estimator.set_params(**parameters).fit(WIDER, other)
    after = vars(estimator)
    assert after.keys() == before.keys()
    assert all(after[name] is before[name] for name in before if name not in parameters)
    assert torch.equal(outputs(estimator), expected)


def test_a_predictor_of_sets_stays_one_when_a_fit_fails():
    vectors = np.stack([SIZES, SIZES], axis=1).astype(float)
    predictor = SetPredictor("mlp", latent=8, **SMALL).fit(vectors, SETS)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        predictor.fit(SETS, SETS[:3])
    assert len(predictor.predict(vectors)) == 20


def test_what_fails_at_first_is_not_fitted():
    new = SetClassifier(**{**SMALL, "learning_rate": 1e30, "max_epochs": 9})
    with pytest.raises(FloatingPointError):
        new.fit(SETS, SIZES > 2)
    with pytest.raises(NotFittedError):
        new.predict(SETS)
    with pytest.raises(ValueError, match="y must be among classes"):
        new.partial_fit(SETS, SIZES, classes=[1, 2])
    with pytest.raises(NotFittedError):
        new.predict(SETS)


def test_a_transformer_that_fails_changes_nothing():
    transformer = ElementTransformer(StandardScaler()).fit(SETS)
    with pytest.raises(TypeError):
        transformer.set_params(transformer=3).fit(WIDER)
    assert len(transformer.transform(SETS)) == 20


class Interrupted(SetNetwork):
    """Ctrl-C in the second batch."""

    def forward(self, elements, mask=None):
        if self.training:
            self.batches = getattr(self, "batches", 0) + 1
            if self.batches == 2:
                raise KeyboardInterrupt
        return super().forward(elements, mask)


def test_an_interrupt_keeps_what_was_trained_so_far():
    classifier = SetClassifier(**SMALL).fit(SETS, SIZES > 2)
    with pytest.raises(KeyboardInterrupt):
        classifier.set_params(network=Interrupted, batch_size=8).fit(WIDER, SIZES)
    assert classifier.predict_proba(WIDER).shape == (20, len(np.unique(SIZES)))


def interrupt(features, outputs):
    raise KeyboardInterrupt


def test_an_interrupt_before_training_changes_nothing():
    classifier = SetClassifier(**SMALL).fit(SETS, SIZES > 2)
    expected = classifier.predict_proba(SETS)
    with pytest.raises(KeyboardInterrupt):
        classifier.set_params(network=interrupt).fit(SETS, SIZES)
    assert np.array_equal(classifier.predict_proba(SETS), expected)
    assert classifier.classes_.tolist() == [False, True]
