"""Both models get the same folds, and the recorded numbers are what scikit-learn measures."""

import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_score

from torchsets.lab.experiments.estimators.configs import CROSS_VALIDATE, CrossValidate
from torchsets.lab.experiments.estimators.cross_validate import ACCURACY, load_sets, make_model
from torchsets.lab.experiments.launch import run_experiment


@pytest.mark.parametrize(("chosen", "needed"), [(["digits"], []), (["digits", "mnist"], ["mnist"])])
def test_only_the_chosen_datasets_are_fetched(chosen, needed):
    found = CROSS_VALIDATE.datasets({"datasets": chosen}, "cpu")
    assert [dataset.name for dataset in found] == needed


def test_the_digits_are_all_digits():
    sets, labels = load_sets("digits", None)
    assert len(sets) == len(labels) == 1797
    assert [len(one) for one in load_sets("digits", 5)] == [5, 5]


def test_the_recorded_accuracy_is_that_of_scikit_learn(tmp_path):
    config = CrossValidate(datasets=("digits",), sets=200, folds=2, epochs=1, seed=3)
    run = run_experiment("set-estimators", config, scale="smoke", folder=tmp_path)
    cells = {cell.model: cell.value for cell in run.cells if cell.table.startswith(ACCURACY)}
    sets, labels = load_sets("digits", 200)
    folds = StratifiedKFold(2, shuffle=True, random_state=3)
    for name, row in (("forest", "SetStatistics + random forest"), ("network", "SetClassifier")):
        scores = cross_val_score(make_model(config, name), sets.to_list(), labels, cv=folds)
        assert cells[row] == pytest.approx(100 * scores.mean())


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"datasets must be among mnist, .* got cifar"):
        CrossValidate(datasets=("cifar",))
