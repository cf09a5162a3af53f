import pytest
import torch

from torchsets.decoders import DSPN, decode_adaptively, find_step_size
from torchsets.encoders import mlp_encoder


@pytest.fixture
def decoder():
    torch.manual_seed(0)
    decoder = DSPN(
        mlp_encoder(3, 32, 24, slots=5), slots=5, features=2, representation_loss="squared"
    ).double()
    decoder.step_size = find_step_size(decoder, decoder.encode(sets(8)))
    return decoder


def sets(count):
    return torch.rand(count, 5, 2, generator=torch.Generator().manual_seed(1)).double()


def test_it_gets_further_in_ten_steps_than_the_decoder_itself(decoder):
    vector = decoder.encode(sets(8))
    with torch.no_grad():
        plain = decoder(vector, steps=11).trajectory.loss
    adaptive = decode_adaptively(decoder, vector, steps=11).trajectory.loss
    torch.testing.assert_close(adaptive[0], plain[0])  # from the same start
    assert adaptive[-1].mean() < 0.5 * plain[-1].mean()


def test_its_sets_have_the_losses_that_it_says_and_these_never_rise(decoder):
    vector = decoder.encode(sets(4))
    way = decode_adaptively(decoder, vector, steps=6).trajectory
    assert way.elements.shape == (7, 4, 5, 2)
    assert way.loss.shape == (6, 4)
    assert (way.loss.diff(dim=0) <= 0).all()
    assert ((way.presence >= 0) & (way.presence <= 1)).all()
    encoded = decoder.encoder(torch.cat([way.elements[3], way.presence[3].unsqueeze(-1)], dim=-1))
    torch.testing.assert_close((encoded - vector).square().mean(dim=1) / 2, way.loss[3])


def test_the_first_step_is_the_decoders(decoder):
    vector = decoder.encode(sets(4))
    with torch.no_grad():
        plain = decoder(vector, steps=1)
    adaptive = decode_adaptively(decoder, vector, steps=1)
    torch.testing.assert_close(adaptive.elements, plain.elements)


def test_a_set_decodes_the_same_alone_as_in_a_batch(decoder):
    vector = decoder.encode(sets(4))
    together = decode_adaptively(decoder, vector, steps=5).elements
    alone = decode_adaptively(decoder, vector[2:3], steps=5).elements
    torch.testing.assert_close(together[2:3], alone)


def test_sets_of_a_fixed_size_have_presences_of_one():
    torch.manual_seed(0)
    encoder = mlp_encoder(2, 16, 8, slots=5)
    decoder = DSPN(encoder, slots=5, features=2, variable_size=False, project="simplex")
    prediction = decode_adaptively(decoder, torch.zeros(2, 8), steps=3)
    assert (prediction.presence == 1).all()
    torch.testing.assert_close(prediction.elements.sum(dim=-1), torch.ones(2, 5))
    assert decode_adaptively(decoder, torch.zeros(0, 8)).elements.shape == (0, 5, 2)


def test_it_needs_a_step(decoder):
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        decode_adaptively(decoder, torch.zeros(1, 24).double(), steps=0)


def test_inference_mode_changes_nothing(decoder):
    vector = decoder.encode(sets(4)).detach()
    expected, size = decode_adaptively(decoder, vector), find_step_size(decoder, vector)
    with torch.inference_mode():
        found = decode_adaptively(decoder, vector.clone())
        assert find_step_size(decoder, vector.clone()) == size
    assert torch.equal(found.elements, expected.elements)
    assert torch.equal(found.trajectory.loss, expected.trajectory.loss)
