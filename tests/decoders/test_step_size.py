import copy

import pytest
import safetensors.torch
import torch
from torch import nn

from torchsets.decoders import DSPN, find_step_size
from torchsets.encoders import DeepSets, mlp_encoder, relation_encoder
from torchsets.mlp import MLP
from torchsets.pooling import FSPool, MaxPool


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(encoder):
    return DSPN(encoder, slots=8, features=2).double()


ENCODERS = pytest.mark.parametrize(
    "encoder",
    [
        lambda: mlp_encoder(3, 32, 16, slots=8),
        lambda: relation_encoder(3, 32, 16, slots=8),
        lambda: relation_encoder(3, 32, 16, slots=8, pool=MaxPool()),
        lambda: DeepSets(MLP(3, 32, 16), FSPool(16)),
    ],
    ids=["elements", "pairs", "pairs-max", "undivided"],
)


@ENCODERS
def test_the_median_element_moves_as_far_as_asked(encoder):
    decoder = make(encoder())
    vector = decoder.encode(torch.rand(20, 8, 2, dtype=torch.float64))
    decoder.step_size = find_step_size(decoder, vector, movement=0.2)
    start, moved = decoder(vector, steps=1).trajectory.elements
    spread = (start[0] - start[0].mean(dim=0)).norm(dim=-1).square().mean().sqrt()
    torch.testing.assert_close((moved - start).norm(dim=-1).median(), 0.2 * spread)


@ENCODERS
def test_a_random_decoder_lowers_its_loss_visibly(encoder):
    decoder = make(encoder())
    vector = decoder.encode(torch.rand(20, 8, 2, dtype=torch.float64))
    before = decoder(vector).trajectory.loss
    decoder.step_size = find_step_size(decoder, vector)
    losses = decoder(vector).trajectory.loss.mean(dim=1)
    assert losses[-1] < 0.6 * losses[0]
    torch.testing.assert_close(losses[0], before[0].mean())  # nothing else was changed


def test_the_scale_of_the_encoder_does_not_matter():
    decoder = make(nn.Sequential(mlp_encoder(3, 32, 16, slots=8), nn.Linear(16, 16)))
    vector = decoder.encode(torch.rand(20, 8, 2, dtype=torch.float64)).detach()
    size = find_step_size(decoder, vector)
    with torch.no_grad():
        decoder.encoder[1].weight *= 0.1
        decoder.encoder[1].bias *= 0.1
    assert find_step_size(decoder, 0.1 * vector) == pytest.approx(100 * size)


def small(**options):
    return DSPN(mlp_encoder(3, 8, 4, slots=5), slots=5, features=2, **options)


def test_the_step_size_is_saved_and_loaded():
    trained, loaded = small(), small(step_size=3.0)
    trained.step_size = 379.1
    assert loaded.load_state_dict(trained.state_dict()) == ([], [])
    assert loaded.step_size == 379.1
    vector = torch.randn(3, 4)
    assert torch.equal(loaded(vector).elements, trained(vector).elements)


def test_it_is_saved_as_part_of_a_larger_model(tmp_path):
    trained, loaded = (nn.ModuleDict({"decoder": small(), "other": nn.Linear(2, 2)}) for _ in "ab")
    trained["decoder"].step_size = 0.1
    safetensors.torch.save_file(trained.state_dict(), tmp_path / "weights")
    assert loaded.load_state_dict(safetensors.torch.load_file(tmp_path / "weights")) == ([], [])
    assert loaded["decoder"].step_size == 0.1


def test_weights_without_a_step_size_load_with_a_warning():
    old = {name: value for name, value in small().state_dict().items() if name != "step_size"}
    decoder = small(step_size=7.0)
    with pytest.warns(UserWarning, match=r"no step size .* it stays 7; set decoder\.step_size"):
        assert decoder.load_state_dict(old) == ([], [])
    assert decoder.step_size == 7
    assert torch.equal(decoder.initial_elements, old["initial_elements"])


def test_other_keys_are_still_compared():
    state = small().state_dict()
    state["step_sise"] = state.pop("initial_presence")
    with pytest.raises(RuntimeError, match=r"(?s)Missing.*initial_presence.*Unexpected.*step_sise"):
        small().load_state_dict(state)


def test_a_number_in_and_out_in_every_precision():
    decoder = small(step_size=1e6 / 3)
    for changed in (decoder, decoder.half(), decoder.double(), copy.deepcopy(decoder)):
        assert type(changed.step_size) is float
        assert changed.step_size == 1e6 / 3
    decoder.step_size = torch.tensor(2)
    assert type(decoder.step_size) is float
    assert decoder.state_dict()["step_size"] == 2


@pytest.mark.parametrize("size", [0, -1.0, float("nan"), float("inf")])
def test_rejects_a_step_size_that_is_none(size):
    decoder = small()
    with pytest.raises(ValueError, match="step_size must be above 0, got"):
        decoder.step_size = size
    state = {**decoder.state_dict(), "step_size": torch.tensor(size)}
    with pytest.raises(RuntimeError, match="step_size must be above 0, got"):
        decoder.load_state_dict(state)
    assert decoder.step_size == 25


def test_rejects_what_cannot_be_measured():
    decoder = make(mlp_encoder(3, 32, 16, slots=8))
    vector = torch.zeros(2, 16, dtype=torch.float64)
    with pytest.raises(ValueError, match="movement must be above 0, got 0"):
        find_step_size(decoder, vector, movement=0)
    with torch.no_grad():
        decoder.encoder.pool.weight.zero_()
    with pytest.raises(
        ValueError, match="the first step moves no element: the encoder's gradient is zero"
    ):
        find_step_size(decoder, vector)
