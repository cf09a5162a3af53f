import pytest
import torch
from torch import nn
from torch.nn.utils import prune  # noqa: F401  # torch does not import it by itself
from torch.nn.utils.rnn import pack_padded_sequence

from torchsets.encoders import OrderedEncoder
from torchsets.encoders.last_state import last_states
from torchsets.permutations import PairwiseCost, PermutationOptimiser
from torchsets.testing import assert_obeys_laws, random_sets


def make(state="hidden"):
    torch.manual_seed(0)
    order = PermutationOptimiser(PairwiseCost(2, 8), steps=3)
    encoder = OrderedEncoder(order, features=2, hidden=5, state=state).double()
    encoder.order.step_size.data.fill_(2.0)
    return encoder


@pytest.mark.parametrize("state", ["hidden", "cell"])
def test_obeys_the_laws(generator, state):
    elements, mask = random_sets([3, 0, 5, 1], 2, generator)
    assert_obeys_laws(make(state), elements, mask)


def test_obeys_the_laws_with_weights(generator):
    encoder = make("cell")
    elements, mask = random_sets([3, 0, 4], 2, generator)

    def function(elements, mask):
        weights = elements[..., 0].masked_fill(~mask, 0).sigmoid()
        return encoder(elements, mask, weights=weights.masked_fill(~mask, float("nan")))

    assert_obeys_laws(function, elements, mask)


def test_weights_stand_between_ordering_and_reading(generator):
    encoder = make("cell")
    elements, _ = random_sets([4], 2, generator)
    weights = torch.rand(1, 4, generator=generator).double()
    permutation = encoder.order.permute(elements)  # of the elements without weights
    lists = permutation.mT @ (elements * weights.unsqueeze(-1))
    _, (_, cell) = encoder.lstm(lists)
    torch.testing.assert_close(encoder(elements, weights=weights), cell[0])
    with pytest.raises(ValueError, match=r"weights must have shape \(B, N\) = \(1, 4\)"):
        encoder(elements, weights=weights[:, :3])


def test_without_an_order_real_elements_are_read_as_they_come(generator):
    encoder = make("cell")
    encoder.order = None
    elements, _ = random_sets([5], 2, generator)
    mask = torch.tensor([[True, False, True, True, False]])
    torch.testing.assert_close(encoder(elements, mask), encoder(elements[:, [0, 2, 3]]))
    _, (_, cell) = encoder.lstm(elements[:, [0, 2, 3]])
    torch.testing.assert_close(encoder(elements, mask), cell[0])
    assert not torch.allclose(encoder(elements), encoder(elements.flip(1)))


@pytest.mark.parametrize("bias", [True, False])
def test_the_last_cells_are_those_of_packed_lists(bias, generator):
    """With weights so large that gates saturate by themselves, and their gradients."""
    lstm = nn.LSTM(2, 5, bias=bias, batch_first=True).double()
    with torch.no_grad():
        lstm.weight_hh_l0.mul_(50)
    lists, mask = random_sets([3, 1, 6, 4], 2, generator)
    lists = lists.masked_fill(~mask.unsqueeze(-1), 0).requires_grad_()
    packed = pack_padded_sequence(lists, mask.sum(dim=1), batch_first=True, enforce_sorted=False)
    wanted = lstm(packed)[1][1][0]
    found = last_states(lstm, lists, mask.sum(dim=1), "cell", caller="test")
    torch.testing.assert_close(found, wanted)
    cotangent = torch.randn(wanted.shape, generator=generator, dtype=wanted.dtype)
    inputs = [lists, *lstm.parameters()]
    for one, other in zip(
        torch.autograd.grad(found, inputs, cotangent),
        torch.autograd.grad(wanted, inputs, cotangent),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_cell_stays_behind_a_list_in_low_precision(dtype):
    lstm = nn.LSTM(2, 5, batch_first=True).to(dtype)
    lists = torch.randn(1, 3, 2).to(dtype)
    longer = torch.cat([lists, torch.zeros(1, 4, 2, dtype=dtype)], dim=1)
    sizes = torch.tensor([3])
    torch.testing.assert_close(
        last_states(lstm, longer, sizes, "cell", caller="test"),
        last_states(lstm, lists, sizes, "cell", caller="test"),
    )


def test_rejects_another_state():
    with pytest.raises(ValueError, match='state must be "hidden" or "cell", got \'both\''):
        make("both")


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


def cell_reader():
    torch.manual_seed(0)
    return OrderedEncoder(None, features=2, hidden=3, state="cell").double()


def test_cells_follow_weights_that_stand_in_for_the_own(generator):
    encoder, (sets, _) = cell_reader(), random_sets([4, 4], 2, generator)
    expected = encoder(sets)
    zeros = {
        name: torch.zeros_like(weight).requires_grad_()
        for name, weight in encoder.named_parameters()
    }
    result = torch.func.functional_call(encoder, zeros, (sets,))
    assert (result == 0).all()
    gradients = torch.autograd.grad(result.sum(), list(zeros.values()), allow_unused=True)
    assert all(gradient is not None for gradient in gradients)
    torch.testing.assert_close(encoder(sets), expected)


@pytest.mark.parametrize("way", ["parametrised", "pruned"])
def test_cells_of_changed_weights_have_their_gradients(way, generator):
    encoder, (sets, _) = cell_reader(), random_sets([4], 2, generator)
    if way == "parametrised":
        nn.utils.parametrizations.weight_norm(encoder.lstm, "weight_hh_l0")
    else:
        nn.utils.prune.l1_unstructured(encoder.lstm, "weight_hh_l0", amount=0.5)
    for _ in range(2):
        encoder.zero_grad()
        encoder(sets).sum().backward()
        assert all(weight.grad is not None for weight in encoder.parameters())
    _, (_, cell) = encoder.lstm(sets)
    torch.testing.assert_close(encoder(sets), cell[0])
