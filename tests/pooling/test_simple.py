"""Sum, mean, max and min pooling share their tests: what differs is the oracle."""

import pytest
import torch

from torchsets.pooling import (
    MaxPool,
    MeanPool,
    MinPool,
    SumPool,
    max_pool,
    mean_pool,
    min_pool,
    sum_pool,
)
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets

POOLS = [
    pytest.param(sum_pool, SumPool(), lambda one: one.sum(dim=0), id="sum"),
    pytest.param(mean_pool, MeanPool(), lambda one: one.mean(dim=0), id="mean"),
    pytest.param(max_pool, MaxPool(), lambda one: one.amax(dim=0), id="max"),
    pytest.param(min_pool, MinPool(), lambda one: one.amin(dim=0), id="min"),
]


@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_obeys_the_laws(function, module, oracle, sizes, generator):
    assert_obeys_laws(function, *random_sets(sizes, features=3, generator=generator))


@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
def test_is_finite_at_any_scale(function, module, oracle):
    assert_handles_scales(function, features=3)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
def test_half_precision_is_summed_in_float32(function, module, oracle, dtype, generator):
    """The sum of some feature is beyond float16, its mean is not."""
    elements = 100 + torch.rand(2, 1000, 3, generator=generator)
    elements[..., 1:] /= 10
    elements = elements.to(dtype)
    expected = function(elements.float()).to(dtype)
    assert expected.isinf().any() == (function is sum_pool and dtype == torch.float16)
    torch.testing.assert_close(function(elements), expected)


@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
def test_matches_each_set_on_its_own(function, module, oracle, generator):
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator)
    expected = torch.stack([oracle(one[real]) for one, real in zip(elements, mask, strict=True)])
    torch.testing.assert_close(function(elements, mask), expected)
    torch.testing.assert_close(module(elements, mask), expected)
    whole = elements[2:]
    torch.testing.assert_close(function(whole), expected[2:])


@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
def test_an_empty_set_gives_zeros(function, module, oracle):
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    assert function(torch.full((1, 2, 3), torch.nan), nothing).tolist() == [[0.0, 0.0, 0.0]]
    assert function(torch.zeros(2, 0, 3)).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
def test_gradients_of_both_orders(function, module, oracle, generator):
    elements = torch.randn(2, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert torch.autograd.gradcheck(lambda x: function(x, mask).pow(3), elements)
    assert torch.autograd.gradgradcheck(lambda x: function(x, mask).pow(3), elements)


@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keeps_the_dtype_and_compiles_and_exports(function, module, oracle, dtype, generator):
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator, dtype=dtype)
    expected = function(elements, mask)
    assert expected.dtype == dtype
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), expected)
    exported = torch.export.export(module, (elements, mask)).module()
    torch.testing.assert_close(exported(elements, mask), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.isfinite(function(elements, mask)).all()


@pytest.mark.parametrize(("function", "module", "oracle"), POOLS)
def test_rejects_bad_input(function, module, oracle):
    with pytest.raises(ValueError, match=r"elements must have shape \(B, N, D\), got \(4, 2\)"):
        function(torch.zeros(4, 2))
    with pytest.raises(ValueError, match="elements must be floating point, got"):
        function(torch.zeros(1, 4, 2).long())
    with pytest.raises(ValueError, match="mask must be bool with True for real elements"):
        function(torch.zeros(1, 4, 2), torch.ones(1, 4))
    with pytest.raises(ValueError, match=r"mask must have shape \(2, 4\) to match elements"):
        function(torch.zeros(2, 4, 2), torch.ones(2, 1).bool())
