"""Orderings at the edges: huge and tiny numbers, equal and single elements, no steps, no sets."""

import pytest
import torch

from torchsets.decoders import DSPN
from torchsets.encoders import OrderedEncoder
from torchsets.permutations import (
    GumbelSinkhorn,
    LinearAssignment,
    PairwiseCost,
    PermutationOptimiser,
    optimise_permutation,
    sinkhorn,
)
from torchsets.testing import (
    assert_empty_batches_connected,
    assert_handles_scales,
    assert_twice_differentiable,
    random_sets,
)

VALUES = torch.tensor([[0.3, 0.9, 0.1, 0.5]])
COSTS = VALUES.unsqueeze(2) - VALUES.unsqueeze(1)
GRID_COSTS = torch.stack([COSTS, COSTS.flip(0)], dim=1)


def scores_of(elements, mask):
    """Scores (B, N, N) of elements that have more features than there are slots."""
    return elements.masked_fill(~mask.unsqueeze(-1), 0)[..., : elements.shape[1]]


def differences(elements, mask):
    filled = elements.masked_fill(~mask.unsqueeze(-1), 0).cumsum(dim=2)
    products = filled @ elements.masked_fill(~mask.unsqueeze(-1), 0).mT
    return products - products.mT


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m: sinkhorn(scores_of(x, m), mask=m, temperature=0.5),
        lambda x, m: GumbelSinkhorn().eval()(scores_of(x, m), m),
        lambda x, m: optimise_permutation(differences(x, m), steps=3, step_size=1.0, mask=m),
        lambda x, m: optimise_permutation(
            differences(x, m), steps=3, step_size=1.0, mask=m, through_sinkhorn=True
        ),
    ],
    ids=["sinkhorn", "gumbel", "optimise", "through_sinkhorn"],
)
def test_soft_permutations_are_twice_differentiable_and_connected(function, generator):
    assert_twice_differentiable(function, *random_sets([3, 0, 5, 1], 6, generator))
    assert_empty_batches_connected(function, features=6)


def test_a_linear_assignment_is_twice_differentiable_and_connected(generator):
    torch.manual_seed(0)
    model = LinearAssignment(2, 5).double()
    elements, mask = random_sets([3, 0, 5, 1], 2, generator)
    assert_twice_differentiable(lambda x, m: model(x, m).elements, elements, mask)
    assert_empty_batches_connected(lambda x, m: model(x, m).elements, features=2)


@pytest.mark.parametrize("equal", [False, True])
def test_a_grid_is_twice_differentiable(equal, generator):
    torch.manual_seed(0)
    order = PermutationOptimiser(PairwiseCost(3, 4, outputs=2), grid=(2, 2)).double()
    elements = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    elements = elements[:, :1].expand(2, 4, 3) if equal else elements

    def ordered(x, mask):
        return order(x.nan_to_num()).elements  # a grid has no mask

    assert_twice_differentiable(ordered, elements, torch.ones(2, 4, dtype=torch.bool))


@pytest.mark.parametrize("scale", [1e-33, 1e-30, 1e-11, 1e30, 3e38])
@pytest.mark.parametrize("options", [{}, {"through_sinkhorn": True}], ids=["fast", "plain"])
def test_costs_of_any_size_are_scaled_to_norm_1(scale, options):
    results = []
    for factor in (1.0, scale):
        costs = (COSTS * factor).requires_grad_()
        soft = optimise_permutation(costs, steps=3, step_size=1.0, **options)
        (gradient,) = torch.autograd.grad(soft[:, 0, 0].sum(), costs)
        results.append((soft, gradient * factor))
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
    assert (results[0][1] != 0).any()


def test_half_costs_that_overflow_in_a_sum_of_squares_are_ordered():
    expected = optimise_permutation(COSTS, steps=3, step_size=1.0)
    soft = optimise_permutation((COSTS * 6e4).half(), steps=3, step_size=1.0)
    torch.testing.assert_close(soft.float(), expected, rtol=0, atol=2e-3)  # half precision


def test_an_ordering_is_finite_at_any_scale():
    torch.manual_seed(0)
    order = PermutationOptimiser(PairwiseCost(2, 4))
    assert_handles_scales(lambda x, mask: order(x, mask).elements, features=2)
    assert_handles_scales(OrderedEncoder(order, 2, 3), features=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_elements_cost_exactly_0(dtype):
    """A rounding error would be scaled to norm 1: an order, and huge gradients, out of nothing."""
    torch.manual_seed(0)
    equal = torch.randn(6, 1, 3, dtype=dtype).expand(6, 13, 3)
    mask = torch.arange(13) < torch.tensor([13, 12, 9, 5, 1, 0]).unsqueeze(1)
    cost = PairwiseCost(3, hidden=33).to(dtype)
    assert (cost(equal) == 0).all()
    padded = equal.masked_fill(~mask.unsqueeze(-1), torch.nan)
    assert (cost(padded, mask) == 0).all()
    soft = PermutationOptimiser(cost).to(dtype)(equal).permutation
    torch.testing.assert_close(soft, torch.full_like(soft, 1 / 13))


def test_the_cost_of_equal_elements_still_has_a_gradient():
    torch.manual_seed(0)
    cost = PairwiseCost(2, hidden=8).double()
    elements = torch.ones(1, 2, 2, dtype=torch.float64)
    assert torch.autograd.gradcheck(cost, elements.requires_grad_())


@pytest.mark.parametrize("slots", [1, 2])
def test_a_decoder_that_starts_from_equal_elements_can_be_trained(slots):
    torch.manual_seed(0)
    encoder = OrderedEncoder(PermutationOptimiser(PairwiseCost(3, hidden=4)), 3, 4)
    decoder = DSPN(encoder, slots=slots, features=2, steps=2, step_size=0.1)
    decoder.initial_elements.data.fill_(0.5)
    decoder(torch.ones(2, 4)).elements.sum().backward()
    gradients = [parameter.grad for parameter in decoder.parameters() if parameter.grad is not None]
    assert len(gradients) > 5
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(
    ("costs", "options"),
    [
        (COSTS, {}),
        (COSTS, {"through_sinkhorn": True}),
        (GRID_COSTS, {"grid": (2, 2)}),
        (COSTS, {"initial": COSTS}),
        (COSTS, {"initial": COSTS, "through_sinkhorn": True}),
    ],
    ids=["fast", "plain", "grid", "initial", "plain initial"],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_without_steps_the_costs_get_gradients_of_0(costs, options, create_graph):
    costs = costs.clone().requires_grad_()
    step_size = torch.ones((), requires_grad=True)
    soft = optimise_permutation(costs, steps=0, step_size=step_size, **options)
    gradients = torch.autograd.grad(soft.sum(), [costs, step_size], create_graph=create_graph)
    assert all((gradient == 0).all() for gradient in gradients)


HUGE = 3e38


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("size", "temperature"), [(HUGE, 1.0), (1e30, 1e-10), (HUGE, 1e-10), (1.0, 1e-30)]
)
def test_a_column_that_all_rows_avoid_by_far_is_shared(size, temperature, masked):
    scores = torch.tensor([[[size, -size], [size, -size]]])
    mask, expected = None, torch.full((1, 2, 2), 0.5)
    if masked:
        scores = torch.nn.functional.pad(scores, (0, 1, 0, 1), value=torch.nan)
        mask = torch.tensor([[True, True, False]])
        expected = torch.nn.functional.pad(expected, (0, 1, 0, 1))
    scores.requires_grad_()
    soft = sinkhorn(scores, temperature=temperature, mask=mask)
    torch.testing.assert_close(soft, expected)
    (gradient,) = torch.autograd.grad(soft.square().sum(), scores)
    assert gradient.isfinite().all()


def test_huge_scores_give_the_permutation_that_they_point_at():
    scores = torch.full((1, 3, 3), -HUGE)
    order = torch.tensor([2, 0, 1])
    scores[0, torch.arange(3), order] = HUGE
    expected = torch.nn.functional.one_hot(order).unsqueeze(0).float()
    torch.testing.assert_close(sinkhorn(scores), expected)
    torch.testing.assert_close(sinkhorn(scores / 1e8, temperature=1e-10), expected)


def test_forbidden_pairs_stay_forbidden():
    scores = torch.zeros(1, 3, 3)
    scores[0, 0, 1] = -torch.inf
    soft = sinkhorn(scores, steps=50, temperature=0.5)
    assert soft[0, 0, 1] == 0
    torch.testing.assert_close(soft.sum(dim=1), torch.ones(1, 3))
