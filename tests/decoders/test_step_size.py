import pytest
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


def test_rejects_what_cannot_be_measured():
    decoder = make(mlp_encoder(3, 32, 16, slots=8))
    vector = torch.zeros(2, 16, dtype=torch.float64)
    with pytest.raises(ValueError, match="movement must be above 0, got 0"):
        find_step_size(decoder, vector, movement=0)
    with torch.no_grad():
        decoder.encoder.pool.weight.zero_()
    with pytest.raises(ValueError, match="vector must move the start"):
        find_step_size(decoder, vector)
