import numpy as np
import pytest
from sklearn.base import clone

from torchsets.estimators import SetClassifier, SetEncoder, SetPredictor, SetRegressor

SMALL = {"hidden": 8, "max_epochs": 3, "batch_size": 8, "random_state": 0}
RNG = np.random.default_rng(0)
SETS = [RNG.normal(size=(size, 2)) for size in RNG.integers(1, 7, size=40)]
NUMBERS = np.array([float(len(one)) for one in SETS])
WORDS = np.where(NUMBERS > 3, "many", "few")
FAR = np.full((50, 2), 1e6)  # another mean, spread and number of slots
CASES = {
    "regressor": (SetRegressor(**SMALL), NUMBERS, 1e6),
    "classifier": (SetClassifier(**SMALL), WORDS, "other"),
    "balanced": (SetClassifier(**SMALL, class_weight="balanced"), WORDS, "few"),
    "stopping": (SetClassifier(**SMALL, early_stopping=True), WORDS, "many"),
    "encoder": (SetEncoder(4, **SMALL), None, None),
    "predictor": (SetPredictor(latent=8, **SMALL), SETS, FAR),
}


def what_was_learned(estimator):
    scales = [
        value for name, value in vars(estimator).items() if name.endswith(("mean_", "scale_"))
    ]
    return scales + [weight.numpy() for weight in estimator.module_.state_dict().values()]


def assert_same(first, second):
    for one, other in zip(what_was_learned(first), what_was_learned(second), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("case", CASES)
def test_a_set_of_weight_zero_is_as_good_as_absent(case):
    estimator, y, odd = CASES[case]
    expected = clone(estimator).fit(SETS, y)
    longer = None if y is None else [odd, *y]
    given = clone(estimator).fit([FAR, *SETS], longer, sample_weight=[0] + [1] * len(SETS))
    assert_same(given, expected)


def test_a_class_of_weight_zero_keeps_its_column_and_takes_no_part():
    model = SetClassifier(**SMALL, class_weight={"few": 1, "many": 2, "other": 0})
    model.fit([FAR, *SETS], ["other", *WORDS])
    assert model.classes_.tolist() == ["few", "many", "other"]
    assert np.array_equal(model.mean_, SetClassifier(**SMALL).fit(SETS, WORDS).mean_)


@pytest.mark.parametrize(
    ("estimator", "y", "odd", "options"),
    [
        (SetRegressor(**SMALL), NUMBERS, 1e6, {}),
        (SetClassifier(**SMALL), WORDS, "other", {"classes": ["few", "many"]}),
    ],
)
def test_a_set_of_weight_zero_takes_no_part_in_partial_fit(estimator, y, odd, options):
    expected = clone(estimator).partial_fit(SETS, y, **options)
    weights = [0] + [1] * len(SETS)
    assert_same(
        estimator.partial_fit([FAR, *SETS], [odd, *y], sample_weight=weights, **options), expected
    )


@pytest.mark.parametrize("case", CASES)
def test_some_weight_must_be_above_zero(case):
    estimator, y, _ = CASES[case]
    with pytest.raises(ValueError, match="sample_weight must be above 0 for some sets, got zero"):
        estimator.fit(SETS, y, sample_weight=np.zeros(40))
