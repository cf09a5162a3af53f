import pytest
import torch

from torchsets.decoders import LSTMDecoder, MLPDecoder
from torchsets.decoders.presence import split_presence

LATENT, HIDDEN, SLOTS, FEATURES = 6, 16, 4, 2


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(decoder, **options):
    return decoder(LATENT, HIDDEN, slots=SLOTS, features=FEATURES, **options).double()


BOTH = pytest.mark.parametrize("decoder", [MLPDecoder, LSTMDecoder])


def test_mlp_outputs_are_the_slots_and_the_presence_is_one_more():
    decoder = make(MLPDecoder)
    vector = torch.randn(3, LATENT, dtype=torch.float64)
    first, second, last = decoder.mlp[0], decoder.mlp[2], decoder.mlp[4]
    outputs = last(second(first(vector).relu()).relu()).reshape(3, SLOTS, FEATURES + 1)
    prediction = decoder(vector)
    torch.testing.assert_close(prediction.elements, outputs[..., :FEATURES])
    torch.testing.assert_close(prediction.presence, (outputs[..., FEATURES] + 1).clamp(0, 1))


def test_lstm_starts_from_the_vector_as_cell_state():
    decoder = make(LSTMDecoder)
    vector = torch.randn(3, LATENT, dtype=torch.float64)
    cell, state = decoder.first(vector), torch.zeros(3, HIDDEN, dtype=torch.float64)
    slots = []
    for _ in range(SLOTS):
        gates = (
            torch.nn.functional.linear(state, decoder.lstm.weight_hh_l0, decoder.lstm.bias_hh_l0)
            + decoder.lstm.bias_ih_l0  # no input
        )
        keep_in, forget, new, out = gates.chunk(4, dim=1)
        cell = forget.sigmoid() * cell + keep_in.sigmoid() * new.tanh()
        state = out.sigmoid() * cell.tanh()
        slots.append(decoder.last(state))
    outputs = torch.stack(slots, dim=1)
    prediction = decoder(vector)
    torch.testing.assert_close(prediction.elements, outputs[..., :FEATURES])
    torch.testing.assert_close(prediction.presence, (outputs[..., FEATURES] + 1).clamp(0, 1))


@BOTH
def test_all_slots_exist_at_first(decoder):
    assert (make(decoder)(torch.zeros(1, LATENT, dtype=torch.float64)).presence > 0.5).all()


@BOTH
def test_presence_outside_the_range_can_come_back(decoder):
    model = make(decoder)
    last = model.mlp[4] if decoder is MLPDecoder else model.last
    with torch.no_grad():
        last.bias += 5.0
    prediction = model(torch.zeros(1, LATENT, dtype=torch.float64))
    assert (prediction.presence == 1).all()
    prediction.presence.sum().backward()
    assert last.bias.grad.sum() == SLOTS


@BOTH
def test_a_set_decodes_the_same_alone(decoder):
    model, vector = make(decoder), torch.randn(3, LATENT, dtype=torch.float64)
    torch.testing.assert_close(model(vector[1:2]).elements[0], model(vector).elements[1])


@BOTH
def test_runs_under_autocast(decoder):
    model, vector = make(decoder).float(), torch.randn(3, LATENT)
    expected = model(vector)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model(vector)
    torch.testing.assert_close(half.elements.float(), expected.elements, rtol=0.1, atol=0.1)
    half.elements.float().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


@BOTH
def test_fixed_sizes_have_presence_one(decoder):
    prediction = make(decoder, variable_size=False)(torch.randn(3, LATENT).double())
    assert prediction.elements.shape == (3, SLOTS, FEATURES)
    assert (prediction.presence == 1).all()


@BOTH
def test_no_sets_give_no_sets(decoder):
    prediction = make(decoder)(torch.zeros(0, LATENT, dtype=torch.float64))
    assert prediction.elements.shape == (0, SLOTS, FEATURES)
    assert prediction.presence.shape == (0, SLOTS)


@BOTH
def test_rejects_a_vector_of_another_size(decoder):
    with pytest.raises(ValueError, match=r"vector must have shape \(B, L\) = \(any, 6\)"):
        make(decoder)(torch.zeros(3, 5, dtype=torch.float64))


@BOTH
def test_rejects_no_slots(decoder):
    with pytest.raises(ValueError, match="slots must be at least 1, got 0"):
        decoder(LATENT, HIDDEN, slots=0, features=FEATURES)


@BOTH
def test_rejects_whole_numbers(decoder):
    with pytest.raises(ValueError, match="vector must be floating point"):
        make(decoder)(torch.zeros(3, LATENT, dtype=torch.long))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.half, torch.float32])
@pytest.mark.parametrize("raw", [300.0, 3e4, -3e4])
def test_a_slot_that_is_surely_there_stays(dtype, raw):
    slots = torch.tensor([[[0.5, raw]]], dtype=dtype, requires_grad=True)
    presence = split_presence(slots, variable_size=True).presence
    assert presence.item() == float(raw > 0)
    presence.sum().backward()
    assert slots.grad[0, 0].tolist() == [0, 1]  # it can come back
