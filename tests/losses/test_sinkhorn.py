from functools import partial

import numpy as np
import ot
import pytest
import torch

from torchsets.losses import sinkhorn_divergence, sinkhorn_loss
from torchsets.losses.elements import cost_matrix
from torchsets.testing import random_sets


def transport_by_pot(one, other, epsilon, element):
    """The least sum P C + epsilon KL(P | a b), from POT's plan."""
    cost = cost_matrix(element, one, other).numpy()
    a, b = (np.full(len(x), 1 / len(x)) for x in (one, other))
    plan = ot.sinkhorn(a, b, cost, epsilon, method="sinkhorn_log", stopThr=1e-10, numItermax=20000)
    return (plan * cost).sum() + epsilon * (plan * np.log(plan / np.outer(a, b))).sum()


@pytest.mark.parametrize("element", ["squared", "huber"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_matches_pot_with_the_same_epsilon(element, epsilon, generator):
    one, one_mask = random_sets([3, 6], 2, generator)
    other, other_mask = random_sets([5, 4], 2, generator)
    one, other = one / 2, other / 2
    expected = []
    for x, y, x_mask, y_mask in zip(one, other, one_mask, other_mask, strict=True):
        x, y = x[x_mask], y[y_mask]
        both, own, theirs = (
            transport_by_pot(*pair, epsilon, element) for pair in ((x, y), (x, x), (y, y))
        )
        expected.append(both - own / 2 - theirs / 2)
    result = sinkhorn_loss(
        one,
        other,
        other_mask,
        prediction_mask=one_mask,
        element=element,
        epsilon=epsilon,
        iterations=3000,
        tolerance=1e-9,
    )
    torch.testing.assert_close(result, torch.tensor(expected, dtype=torch.float64))


def test_approaches_the_exact_transport_cost(generator):
    one, other = torch.rand(2, 1, 12, 2, dtype=torch.float64, generator=generator)
    exact = ot.emd2([], [], cost_matrix("squared", one[0], other[0]).numpy())
    errors = [
        abs(sinkhorn_loss(one, other, epsilon=epsilon, iterations=3000).item() - exact)
        for epsilon in (0.1, 0.01, 0.001)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 2e-3 * exact


def test_tells_how_far_it_converged(generator):
    one, other = torch.rand(2, 3, 12, 2, dtype=torch.float64, generator=generator)
    hasty = sinkhorn_divergence(one, other, epsilon=0.01, iterations=12, tolerance=1e-6)
    assert (hasty.iterations == 12).all()
    assert (hasty.marginal_error > 1e-6).all()
    patient = sinkhorn_divergence(one, other, epsilon=0.01, iterations=5000, tolerance=1e-6)
    assert (patient.iterations < 5000).all()
    assert (patient.marginal_error < 1e-6).all()


def test_a_converged_set_waits_without_moving(generator):
    one, other = torch.rand(2, 2, 8, 2, dtype=torch.float64, generator=generator)
    one[1], other[1] = one[1] * 10, other[1] * 10  # takes longer
    together = sinkhorn_divergence(one, other, epsilon=0.1, iterations=2000)
    alone = sinkhorn_divergence(one[:1], other[:1], epsilon=0.1, iterations=2000)
    assert together.iterations[0] < together.iterations[1]
    assert together.iterations[0] == alone.iterations[0]
    assert together.loss[0] == alone.loss[0]


def test_float32_far_from_the_origin_has_the_right_gradient(generator):
    one, other = torch.rand(2, 2, 20, 2, generator=generator)
    gradients = []
    for shift, dtype in ((0.0, torch.float64), (1000.0, torch.float32)):
        x = (one + 1000 - 1000 + shift).to(dtype).requires_grad_()
        y = (other + 1000 - 1000 + shift).to(dtype)
        (gradient,) = torch.autograd.grad(sinkhorn_loss(x, y, epsilon=0.1).sum(), x)
        gradients.append(gradient.double())
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-2, atol=1e-4)  # tolerance 1e-3


def pixels(scale, generator, *, sets=6):
    return scale * torch.rand(2, sets, 20, 2, generator=generator)


def gradient_of(one, other, dtype, **options):
    x = one.to(dtype).requires_grad_()
    result = sinkhorn_divergence(x, other.to(dtype), **options)
    assert result.loss.isfinite().all()
    (gradient,) = torch.autograd.grad(result.loss.sum(), x)
    return gradient.double(), result


@pytest.mark.parametrize("element", ["squared", "huber", partial(cost_matrix, "squared")])
@pytest.mark.parametrize("scale", [1.0, 10.0, 640.0, 1920.0, 1e4, 1e5])
def test_float32_has_the_gradient_of_float64_at_any_scale(scale, element, generator):
    one, other = pixels(scale, generator)
    found, result = gradient_of(one, other, torch.float32, element=element)
    exact, precise = gradient_of(one, other, torch.float64, element=element)
    error = (found - exact).flatten(1).norm(dim=1) / exact.flatten(1).norm(dim=1)
    assert error.max() < 0.01
    if scale > 10:  # up to there it is computed in float32
        claimed, true = result.marginal_error < 1e-3, precise.marginal_error < 1e-3
        assert torch.equal(claimed, true)


@pytest.mark.parametrize("scale", [1e10, 1e30])
def test_no_convergence_is_claimed_where_rounding_decides(scale, generator):
    one, other = pixels(scale, generator)
    x = one.requires_grad_()
    result = sinkhorn_divergence(x, other)
    assert (result.marginal_error > 1e-3).all()
    assert (result.marginal_error <= 2).all()
    assert not result.loss.isnan().any()  # beyond 3e38 it is inf
    assert torch.autograd.grad(result.loss.sum(), x)[0].isfinite().all()


def test_each_set_has_its_own_precision(generator):
    small, large = pixels(1.0, generator, sets=2), pixels(1000.0, generator, sets=2)
    one, other = torch.cat([small, large], dim=1)[:, [0, 2, 1, 3]]
    gradient, together = gradient_of(one, other, torch.float32)
    for index in range(4):
        alone_gradient, alone = gradient_of(one[[index]], other[[index]], torch.float32)
        assert alone.iterations == together.iterations[index]
        torch.testing.assert_close(alone.loss[0], together.loss[index])
        torch.testing.assert_close(alone_gradient[0], gradient[index])


def test_a_large_set_does_not_change_the_precision_of_a_small_one():
    one, other = torch.zeros(2, 1, 1), torch.tensor([[[1.0]], [[1e4]]])
    alone, together = sinkhorn_divergence(one[:1], other[:1]), sinkhorn_divergence(one, other)
    assert alone.marginal_error > 1e-7  # what rounding to float32 leaves open
    assert alone.marginal_error == together.marginal_error[0]


def test_padding_has_no_say_in_the_blur_to_begin_with(generator):
    one, other = torch.rand(2, 1, 7, 2, dtype=torch.float64, generator=generator) + 100
    padded, mask = torch.full((1, 9, 2), float("nan"), dtype=torch.float64), torch.arange(9) < 7
    padded[:, :7] = other
    alone = sinkhorn_divergence(one, other)
    masked = sinkhorn_divergence(one, padded, mask.unsqueeze(0))
    assert alone.iterations == masked.iterations  # filled with 0, padding is 140 away
    torch.testing.assert_close(masked.loss, alone.loss)


def test_padding_has_no_say_in_the_precision():
    one = torch.full((1, 1, 2), 1000.0)
    padded, mask = one.repeat(1, 2, 1), torch.tensor([[True, False]])
    result = sinkhorn_divergence(one, padded, mask)
    assert result.marginal_error == 0  # equal elements cost exactly 0


@pytest.mark.parametrize("option", ["epsilon", "iterations", "tolerance"])
def test_rejects_options_that_are_not_positive(option):
    with pytest.raises(ValueError, match=f"{option} must be positive, got 0"):
        sinkhorn_loss(torch.zeros(1, 1, 1), torch.zeros(1, 1, 1), **{option: 0})


def second_by_backward(loss, x):
    x = x.requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
    gradient.square().sum().backward()


@pytest.mark.parametrize(
    "second",
    [
        second_by_backward,
        lambda loss, x: torch.func.hessian(loss)(x),
        lambda loss, x: torch.func.jacrev(torch.func.grad(loss))(x),
    ],
)
def test_second_derivatives_are_refused(second, generator):
    """The gradient takes the plan as constant: differentiated again it would be wrong."""
    one, other = torch.randn(2, 1, 3, 2, generator=generator, dtype=torch.float64)

    def loss(x):
        return sinkhorn_loss(x, other).sum()

    with pytest.raises(RuntimeError, match="sinkhorn_loss has no second derivatives"):
        second(loss, one)


def test_first_derivatives_come_from_each_of_torchs_ways(generator):
    one, other = torch.randn(2, 1, 3, 2, generator=generator, dtype=torch.float64)

    def loss(x):
        return sinkhorn_loss(x, other).sum()

    given = one.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(given), given)
    torch.testing.assert_close(torch.func.grad(loss)(one), expected)
    torch.testing.assert_close(torch.func.jacfwd(loss)(one), expected)
