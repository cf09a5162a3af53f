import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone
from torch import nn

from torchsets.encoders import DeepSets
from torchsets.estimators import SetClassifier, SetEncoder, SetPredictor, SetRegressor
from torchsets.mlp import MLP
from torchsets.pooling import SumPool

SMALL = {"hidden": 8, "max_epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def sets():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(size, 2)) for size in rng.integers(1, 5, size=12)]


def tied(features, outputs):
    layer = nn.Linear(features, features)
    return DeepSets(nn.Sequential(layer, nn.ReLU(), layer), SumPool(), MLP(features, 4, outputs))


@pytest.mark.parametrize("classes", [[0, 1], [True, False], ["ab", "c"], [1.0, 2.0]])
def test_a_saved_classifier_predicts_the_same(classes, sets, tmp_path):
    y = [classes[len(one) % 2] for one in sets]
    # A weight for a class of each type: JSON has words for keys only.
    weights = {classes[0]: 2.0, classes[1]: 1.0}
    saved = SetClassifier(**SMALL, class_weight=weights).fit(sets, y)
    saved.save(tmp_path / "model")
    torch.manual_seed(0)
    before = torch.get_rng_state()
    loaded = SetClassifier.load(tmp_path / "model")
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(loaded.predict(sets), saved.predict(sets))
    assert np.array_equal(loaded.predict_proba(sets), saved.predict_proba(sets))
    assert loaded.classes_.dtype == saved.classes_.dtype
    expected = {**saved.get_params(), "random_state": None}
    assert loaded.get_params() == expected
    assert [one.name for one in tmp_path.iterdir()] == ["model"]


def test_a_saved_regressor_predicts_the_same(sets, tmp_path):
    saved = SetRegressor(**SMALL).fit(sets, [len(one) for one in sets])
    saved.save(tmp_path / "model")
    assert np.array_equal(SetRegressor.load(tmp_path / "model").predict(sets), saved.predict(sets))


def test_a_saved_encoder_encodes_and_restores_the_same(sets, tmp_path):
    saved = SetEncoder(4, **SMALL).fit(sets)
    saved.save(tmp_path / "model")
    loaded = SetEncoder.load(tmp_path / "model")
    vectors = saved.transform(sets)
    assert np.array_equal(loaded.transform(sets), vectors)
    for one, other in zip(
        loaded.inverse_transform(vectors), saved.inverse_transform(vectors), strict=True
    ):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("decoder", ["dspn", "tspn"])
def test_a_saved_predictor_predicts_the_same(decoder, sets, tmp_path):
    saved = SetPredictor(decoder, latent=8, **{**SMALL, "max_epochs": 1}).fit(sets, sets)
    saved.save(tmp_path / "model")
    loaded = SetPredictor.load(tmp_path / "model")
    for one, other in zip(loaded.predict(sets), saved.predict(sets), strict=True):
        assert np.array_equal(one, other)


def other_network(features, outputs):
    return nn.Linear(1, 1)


@pytest.mark.parametrize(
    ("estimator", "other"),
    [
        (SetClassifier(**SMALL), {"hidden": 16}),
        (SetClassifier("sum", **SMALL), {"pooling": "max"}),  # the weights would fit
        (SetRegressor(**SMALL), {"layers": 3}),
        (SetRegressor(**SMALL), {"network": other_network}),
        (SetEncoder(4, **SMALL), {"latent": 8}),
        (SetPredictor("mlp", latent=8, **SMALL), {"decoder": "lstm", "latent": 4}),
    ],
    ids=["hidden", "pooling", "layers", "network", "latent", "decoder"],
)
def test_the_network_is_saved_as_it_was_trained(estimator, other, sets, tmp_path):
    y = sets if isinstance(estimator, SetPredictor) else [len(one) % 2 for one in sets]
    fitted = clone(estimator).fit(sets, y)
    expected = fitted._predict_vectors(sets)
    fitted.set_params(**other, max_epochs=7).save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    assert torch.equal(loaded._predict_vectors(sets), expected)
    assert loaded.get_params()["max_epochs"] == 7  # belongs to no network
    before = estimator.get_params()
    assert {name: loaded.get_params()[name] for name in other} == {n: before[n] for n in other}
    loaded.save(tmp_path / "again")


def test_a_network_of_ones_own_is_given_again(sets, tmp_path):
    y = [len(one) % 2 for one in sets]
    saved = SetClassifier(**SMALL, network=tied).fit(sets, y)  # with tied weights
    saved.save(tmp_path / "model")
    loaded = SetClassifier.load(tmp_path / "model", network=tied)
    assert np.array_equal(loaded.predict_proba(sets), saved.predict_proba(sets))
    with pytest.raises(ValueError, match=r"pass it again: SetClassifier.load\(path, network="):
        SetClassifier.load(tmp_path / "model")
    with pytest.raises(ValueError, match="do not fit the network"):
        SetClassifier.load(tmp_path / "model", network=lambda features, outputs: nn.Linear(1, 1))


def test_a_file_that_holds_something_else_is_named(sets, tmp_path):
    SetRegressor(**SMALL).fit(sets, np.arange(12.0)).save(tmp_path / "regressor")
    with pytest.raises(ValueError, match=r"holds a SetRegressor; read it with SetRegressor.load"):
        SetClassifier.load(tmp_path / "regressor")
    with pytest.raises(ValueError, match="has no network of its own; leave out network"):
        SetRegressor.load(tmp_path / "regressor", network=tied)
    save_file({"x": torch.zeros(1)}, tmp_path / "tensors")
    save_file({"x": torch.zeros(1)}, tmp_path / "header", {"torchsets estimator": json.dumps([1])})
    (tmp_path / "text").write_text("no tensors")
    for name in ("tensors", "header", "text"):
        with pytest.raises(ValueError, match="holds no estimator of torchsets, or is damaged"):
            SetClassifier.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        SetClassifier.load(tmp_path / "missing")


def test_what_json_cannot_hold_is_not_saved(sets, tmp_path):
    fitted = SetClassifier(**SMALL).fit(sets, [len(one) % 2 for one in sets])
    fitted.classes_ = np.array([object(), object()])
    with pytest.raises(TypeError, match="classes_ must be made of numbers and strings"):
        fitted.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_importing_torchsets_imports_no_scikit_learn():
    code = "import sys, torchsets, torchsets.fitting; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h["parameters"].update(heads=3), "unexpected keyword argument 'heads'"),
        (lambda h: h["fitted"].update(predict=3), "it has no predict"),
        (lambda h: h["fitted"].pop("classes_"), "classes_"),
        (lambda h: h["fitted"].pop("mean_"), "mean_ missing"),
        (lambda h: h.update(parameters=[1]), "no attribute 'items'"),
        (lambda h: h.update(fitted=None), "no attribute 'items'"),
    ],
)
def test_a_changed_header_is_told(change, message, sets, tmp_path):
    SetClassifier(**SMALL).fit(sets, [len(one) % 2 for one in sets]).save(tmp_path / "model")
    with safe_open(tmp_path / "model", framework="pt") as file:
        header = json.loads(file.metadata()["torchsets estimator"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    change(header)
    save_file(tensors, tmp_path / "other", {"torchsets estimator": json.dumps(header)})
    with pytest.raises(ValueError, match=f"does not fit SetClassifier of torchsets .*{message}"):
        SetClassifier.load(tmp_path / "other")
