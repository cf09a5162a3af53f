import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from torchsets.estimators import SetEncoder

SMALL = {"hidden": 16, "learning_rate": 0.02, "random_state": 0}


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(0)
    centres = rng.choice([-50.0, 50.0], size=(40, 1, 1))
    return [
        centre + rng.normal(size=(size, 2)) * [1, 0.1]
        for centre, size in zip(centres, rng.integers(1, 5, size=40), strict=True)
    ]


@pytest.fixture(scope="module")
def fitted(sets):
    return SetEncoder(4, max_epochs=40, **SMALL).fit(sets)


def test_restores_sets_from_the_vector_alone(sets, fitted):
    vectors = fitted.transform(sets)
    assert vectors.shape == (40, 4)
    restored = fitted.inverse_transform(vectors)
    sizes = np.array([[len(one), len(other)] for one, other in zip(sets, restored, strict=True)])
    assert np.abs(sizes[:, 0] - sizes[:, 1]).mean() < 0.8
    near = [
        abs(one.mean() - other.mean()) < 25  # the centres are 100 apart
        for one, other in zip(sets, restored, strict=True)
        if len(other)
    ]
    assert np.mean(near) > 0.9


def test_nothing_but_the_vector_reaches_the_decoder(sets, fitted):
    """The order of the elements cannot leak: other orders give the same vectors and sets."""
    there = fitted.transform(sets)
    reversed_order = fitted.transform([one[::-1] for one in sets])
    assert reversed_order == pytest.approx(there, abs=1e-4)


def test_stands_before_a_model_for_vectors(sets):
    y = [one.mean() > 0 for one in sets]
    pipeline = make_pipeline(SetEncoder(4, max_epochs=5, **SMALL), LogisticRegression())
    assert pipeline.fit(sets, y).score(sets, y) > 0.9
    names = pipeline[0].get_feature_names_out().tolist()
    assert names == ["setencoder0", "setencoder1", "setencoder2", "setencoder3"]


@pytest.mark.parametrize("decoder", ["lstm", "dspn", "tspn"])
def test_other_decoders_restore_sets(decoder, sets):
    quick = SetEncoder(4, decoder=decoder, matching="hungarian", max_epochs=2, **SMALL)
    restored = quick.fit(sets).inverse_transform(quick.transform(sets[:3]))
    assert all(one.shape[1] == 2 for one in restored)
    assert quick.history_[-1]["loss"] < quick.history_[0]["loss"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"decoder": "fspool"}, "decoder must be one of dspn, mlp, lstm, tspn, got 'fspool'"),
        ({"matching": "any"}, "matching must be one of hungarian, chamfer, got 'any'"),
        ({"slots": 2}, "slots must be at least the largest set of X, 4, got 2"),
        ({"latent": 0}, "latent must be at least 1, got 0"),
    ],
)
def test_parameters_are_checked(parameters, message, sets):
    with pytest.raises(ValueError, match=message):
        SetEncoder(**parameters).fit(sets)


def test_vectors_of_another_size_are_refused(fitted):
    with pytest.raises(ValueError, match="X must have 4 columns, got 3"):
        fitted.inverse_transform(np.zeros((1, 3)))


def test_vectors_have_the_size_of_training(sets):
    fitted = SetEncoder(4, max_epochs=1, **SMALL).fit(sets).set_params(latent=8)
    assert len(fitted.get_feature_names_out()) == fitted.transform(sets).shape[1]
    assert len(fitted.inverse_transform(fitted.transform(sets))) == len(sets)
