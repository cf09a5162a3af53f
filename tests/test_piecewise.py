import pytest
import torch

from torchsets.piecewise import PiecewiseLinear, hat_basis, monotone_values, piecewise_linear


def hats(inputs, values):
    """The definition: a hat around each point, times the value there."""
    knots = torch.arange(len(values), dtype=values.dtype)
    position = inputs.unsqueeze(-1) * (len(values) - 1)
    return ((1 - (position - knots).abs()).clamp(min=0) * values).sum(dim=-1)


def test_equals_the_sum_of_hats(generator):
    inputs = torch.rand(4, 5, generator=generator, dtype=torch.float64)
    values = torch.randn(7, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(piecewise_linear(inputs, values), hats(inputs, values))


def test_inputs_outside_count_as_the_ends():
    inputs = torch.tensor([-0.5, 0.0, 1.0, 1.5], requires_grad=True)
    result = piecewise_linear(inputs, torch.tensor([3.0, 1.0, 2.0]))
    assert result.tolist() == [3.0, 3.0, 2.0, 2.0]
    result.sum().backward()
    assert inputs.grad.tolist() == [0.0, -4.0, 2.0, 0.0]


def test_gradients_of_both_orders(generator):
    inputs = torch.rand(6, generator=generator, dtype=torch.float64).requires_grad_()
    values = torch.randn(5, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(piecewise_linear, (inputs, values))
    assert torch.autograd.gradgradcheck(piecewise_linear, (inputs, values))


@pytest.mark.slow
def test_compiled_and_functional_gradients_equal_eager_ones(generator):
    inputs = torch.rand(6, generator=generator, dtype=torch.float64)
    values = torch.randn(5, generator=generator, dtype=torch.float64)

    def loss(inputs, values):
        return piecewise_linear(inputs, values).square().sum()

    leaves = inputs.clone().requires_grad_(), values.clone().requires_grad_()
    expected = torch.autograd.grad(loss(*leaves), leaves)
    torch.testing.assert_close(torch.func.grad(loss, argnums=(0, 1))(inputs, values), expected)
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(*leaves), leaves), expected)


def test_matches_the_counting_activations_of_the_author(golden):
    arrays = golden("count_plin")
    weight = arrays["w"][1:].requires_grad_()  # the author's first number is pinned at 0
    inputs = arrays["x"].requires_grad_()
    result = piecewise_linear(inputs, monotone_values(weight))
    gradients = torch.autograd.grad((result * arrays["cot"]).sum(), (inputs, weight))
    torch.testing.assert_close(result, arrays["out"], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(gradients[0], arrays["grad_x"], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(gradients[1], arrays["grad_w"][1:], rtol=1e-6, atol=1e-9)


def test_matches_the_pooling_weights_of_the_author(golden):
    arrays = golden("fspool_pwl")
    for feature, values in enumerate(arrays["weight"]):
        result = piecewise_linear(arrays["ratios"][0], values)
        torch.testing.assert_close(result, arrays["out"][0, feature], rtol=1e-6, atol=1e-9)
    sizes, slots = arrays["k2_n"], arrays["k2_ratios"].shape[1]
    basis = hat_basis(sizes, slots=slots, points=3, dtype=torch.float64)
    several = sizes > 1  # the author lets a padding slot take part below two elements
    expected = arrays["k2_out"] * arrays["k2_mask"].unsqueeze(1)
    result = arrays["k2_weight"] @ basis.transpose(1, 2)
    torch.testing.assert_close(result[several], expected[several], rtol=1e-6, atol=1e-9)


def test_basis_evaluates_at_evenly_spaced_ranks(generator):
    values = torch.randn(5, generator=generator, dtype=torch.float64)
    basis = hat_basis(torch.tensor([0, 1, 2, 7]), slots=8, points=5, dtype=torch.float64)
    result = basis @ values
    for row, size in zip(result, (0, 1, 2, 7), strict=True):
        ranks = torch.linspace(0, 1, size, dtype=torch.float64)
        torch.testing.assert_close(row[:size], piecewise_linear(ranks, values))
        assert row[size:].abs().sum() == 0


def test_basis_in_half_precision_is_rounded_once():
    sizes = torch.tensor([342])
    exact = hat_basis(sizes, slots=342, points=21, dtype=torch.float32)
    half = hat_basis(sizes, slots=342, points=21, dtype=torch.bfloat16)
    assert torch.equal(half, exact.bfloat16())


def test_module_starts_as_the_identity_and_stays_monotone(generator):
    module = PiecewiseLinear(16).double()
    inputs = torch.linspace(0, 1, 50, dtype=torch.float64)
    torch.testing.assert_close(module(inputs), inputs)
    with torch.no_grad():
        module.weight.copy_(torch.randn(16, generator=generator))
    result = module(inputs)
    assert (result.diff() >= 0).all()
    torch.testing.assert_close(result[[0, -1]], torch.tensor([0.0, 1.0]).double())


def test_rejects_bad_input():
    with pytest.raises(ValueError, match=r"values must have shape \(K,\) with K >= 2"):
        piecewise_linear(torch.zeros(3), torch.zeros(1))
    with pytest.raises(ValueError, match="pieces must be at least 1, got 0"):
        PiecewiseLinear(0)


def test_nan_stays_nan_and_disturbs_nothing_else():
    inputs = torch.tensor([torch.nan, 0.5], requires_grad=True)
    result = piecewise_linear(inputs, torch.tensor([0.0, 1.0, 3.0]))
    assert result[0].isnan()
    assert result[1].item() == 1.0
