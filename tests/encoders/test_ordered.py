import torch

from torchsets.encoders import OrderedEncoder
from torchsets.permutations import PairwiseCost, PermutationOptimiser
from torchsets.testing import assert_obeys_laws, random_sets


def make():
    torch.manual_seed(0)
    order = PermutationOptimiser(PairwiseCost(2, 8), steps=3)
    encoder = OrderedEncoder(order, features=2, hidden=5).double()
    encoder.order.step_size.data.fill_(2.0)
    return encoder


def test_obeys_the_laws(generator):
    elements, mask = random_sets([3, 0, 5, 1], 2, generator)
    assert_obeys_laws(make(), elements, mask)


def test_is_the_last_state_of_the_lstm_over_the_ordered_set(generator):
    encoder = make()
    elements, mask = random_sets([3, 5], 2, generator)
    ordered = encoder.order(elements[:1, :3]).elements
    _, (state, _) = encoder.lstm(ordered)
    torch.testing.assert_close(encoder(elements, mask)[:1], state[0])


def test_the_order_matters(generator):
    """An LSTM over sets in another order gives something else: the encoder is not a plain sum."""
    encoder = make()
    elements, _ = random_sets([4], 2, generator)
    _, (state, _) = encoder.lstm(encoder.order(elements).elements.flip(1))
    assert not torch.allclose(encoder(elements), state[0])


def test_empty_sets_give_zeros():
    encoder = make()
    mask = torch.zeros(2, 3, dtype=torch.bool)
    assert (encoder(torch.full((2, 3, 2), float("nan")).double(), mask) == 0).all()
    assert encoder(torch.zeros(2, 0, 2).double()).tolist() == [[0.0] * 5] * 2


def test_parameters_get_finite_gradients_under_nan_padding(generator):
    encoder = make()
    elements, mask = random_sets([3, 0, 5, 1], 2, generator)
    encoder(elements, mask).square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in encoder.parameters())


def test_can_be_differentiated_twice_as_dspn_does(generator):
    encoder = make()
    elements = torch.randn(1, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradgradcheck(encoder, elements)
