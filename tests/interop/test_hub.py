"""Models that are saved with their arguments, here to a folder and back, without a network."""

import copy
import json
import pickle

import pytest
import torch

pytest.importorskip(
    "huggingface_hub", reason="huggingface_hub is not installed: pip install 'torchsets[hub]'"
)

from torchsets import decoders, encoders
from torchsets.interop import hub
from torchsets.mlp import MLP
from torchsets.pooling import FSPool

MODELS = {
    "GIN": ((3, 2), {"hidden": 4, "blocks": 2}),
    "PointNet": ((3, 2), {"hidden": 4}),
    "SetTransformer": ((3, 2), {"hidden": 8, "heads": 2, "layers": 1, "inducing": 2}),
    "FSPoolAutoEncoder": ((3,), {"hidden": 4, "latent": 2}),
    "LSTMDecoder": ((3, 4), {"slots": 5, "features": 2}),
    "MLPDecoder": ((3, 4), {"slots": 5, "features": 2, "variable_size": False}),
    "QueryDecoder": ((3, 4), {"slots": 5, "features": 2, "layers": 1, "heads": 2}),
    "SlotAttention": ((3, 4), {"slots": 5, "features": 2}),
    "TSPNDecoder": ((2, 5), {"inputs": 3, "hidden": 4, "layers": 1, "heads": 2}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_with_its_arguments_and_weights(name, tmp_path):
    args, options = MODELS[name]
    model = getattr(hub, name)(*args, **options)
    plain = getattr(encoders, name, None) or getattr(decoders, name)
    assert isinstance(model, plain)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert options.items() <= config.items()
    loaded = getattr(hub, name).from_pretrained(tmp_path)
    assert str(loaded) == str(model)
    states = model.state_dict(), loaded.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(one, states[1][key]) for key, one in states[0].items())
    assert not any(path.suffix in (".bin", ".pkl", ".pt") for path in tmp_path.iterdir())


def test_it_gives_the_same_scores(tmp_path, generator):
    model = hub.SetTransformer(3, 2, hidden=8, heads=2).eval()
    model.save_pretrained(tmp_path)
    sets = torch.randn(2, 5, 3, generator=generator)
    loaded = hub.SetTransformer.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(sets), model(sets))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_keep_their_dtype(dtype, tmp_path):
    model = hub.PointNet(3, 2, hidden=4).to(dtype)
    model.save_pretrained(tmp_path)
    loaded = hub.PointNet.from_pretrained(tmp_path)
    for one, other in zip(model.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(one, other)
        assert other.dtype == dtype


def test_a_module_as_an_argument_is_refused():
    with pytest.raises(ValueError, match=r"pooling must be a number.*got FSPool; write a class"):
        hub.PointNet(3, 2, pooling=FSPool)
    with pytest.raises(ValueError, match=r"pooling must be a number.*got function"):
        hub.GIN(3, 2, hidden=4, pooling=lambda features: FSPool(features))


def test_weights_that_do_not_fit_are_refused(tmp_path):
    hub.MLPDecoder(3, 4, slots=5, features=2).save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="state_dict"):
        hub.LSTMDecoder.from_pretrained(tmp_path)


def test_pickled_weights_are_refused():
    with pytest.raises(ValueError, match="torchsets unpickles nothing"):
        hub.MLPDecoder._load_as_pickle(None, "file", "cpu", True)


@hub.with_hub
class PointClassifier(encoders.DeepSets):
    def __init__(self, features, classes, *, hidden=8):
        outer = MLP(hidden, hidden, classes)
        super().__init__(MLP(features, hidden, hidden), FSPool(hidden), outer)


def test_a_class_of_your_own_builds_its_parts_from_numbers(tmp_path, generator):
    model = PointClassifier(3, classes=2, hidden=4)
    model.save_pretrained(tmp_path)
    sets = torch.randn(2, 5, 3, generator=generator)
    torch.testing.assert_close(PointClassifier.from_pretrained(tmp_path)(sets), model(sets))


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'DeepSets'"):
        hub.DeepSets  # noqa: B018


def test_models_can_be_copied_and_pickled():
    model = hub.MLPDecoder(3, 4, slots=5, features=2)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is hub.MLPDecoder
        torch.testing.assert_close(
            other(torch.ones(1, 3)).elements, model(torch.ones(1, 3)).elements
        )


class Wider(PointClassifier):
    def __init__(self, width):
        super().__init__(3, 2, hidden=width)


def test_a_subclass_may_have_arguments_of_its_own(tmp_path, generator):
    model = Wider(7)
    model.save_pretrained(tmp_path)
    sets = torch.randn(2, 5, 3, generator=generator)
    torch.testing.assert_close(Wider.from_pretrained(tmp_path)(sets), model(sets))


@hub.with_hub
class Any(torch.nn.Module):
    def __init__(self, sizes, *rest, **more):
        super().__init__()


def test_what_json_would_change_is_refused():
    Any((3, 4), names={"a": [1, (2,)]})
    with pytest.raises(ValueError, match=r"\*rest cannot be saved with the model"):
        Any(3, 4)
    for value in ({1: "one"}, {"deep": {2: 3}}, float("nan")):
        with pytest.raises(ValueError, match="sizes must be a number, text or a list"):
            Any(value)
