import pytest
import torch
from torch import nn

from torchsets.encoders import DeepSets
from torchsets.mlp import MLP
from torchsets.pooling import FSPool, MaxPool, MeanPool, MinPool, SumPool
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets

POOLS = [FSPool(8), SumPool(), MeanPool(), MaxPool(), MinPool()]


def encoder(pool):
    torch.manual_seed(0)
    return DeepSets(MLP(3, 8, 8), pool, MLP(8, 8, 4)).double()


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: type(pool).__name__)
@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_obeys_the_laws(pool, sizes, generator):
    assert_obeys_laws(encoder(pool), *random_sets(sizes, features=3, generator=generator))


def test_is_inner_then_pool_then_outer(generator):
    elements = torch.randn(2, 5, 3, generator=generator)
    inner, outer = nn.Linear(3, 8), nn.Linear(8, 4)
    expected = outer(inner(elements).sum(dim=1))
    torch.testing.assert_close(DeepSets(inner, SumPool(), outer)(elements), expected)
    torch.testing.assert_close(DeepSets(inner, SumPool())(elements), inner(elements).sum(dim=1))


def test_parameter_gradients_are_finite_under_nan_padding(generator):
    model = encoder(FSPool(8))
    model(*random_sets([0, 1, 4], features=3, generator=generator)).square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


def test_gradients_of_both_orders(generator):
    model = encoder(FSPool(8))
    elements = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, True, False, True], [False, False, True, False]])
    assert torch.autograd.gradcheck(lambda x: model(x, mask), elements)
    assert torch.autograd.gradgradcheck(lambda x: model(x, mask).pow(3), elements)


@pytest.mark.slow
@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: type(pool).__name__)
def test_compiles_exports_and_runs_under_autocast(pool, generator):
    elements, mask = random_sets([3, 1, 5], features=3, generator=generator)
    model = encoder(pool)
    expected = model(elements, mask)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), expected)
    exported = torch.export.export(model, (elements, mask)).module()
    torch.testing.assert_close(exported(elements, mask), expected)
    single = model.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = single(elements.float(), mask)
    torch.testing.assert_close(half.double(), expected, rtol=0.1, atol=0.3)


def test_rejects_a_float_mask():
    with pytest.raises(ValueError, match="mask must be bool"):
        encoder(SumPool())(torch.zeros(1, 2, 3), torch.ones(1, 2))


@pytest.mark.parametrize("mask", [None, torch.ones(1, 2, dtype=torch.bool)], ids=["bare", "mask"])
def test_rejects_integer_elements(mask):
    with pytest.raises(ValueError, match="elements must be floating point, got"):
        encoder(SumPool())(torch.zeros(1, 2, 3, dtype=torch.long), mask)


def test_is_finite_at_any_scale():
    torch.manual_seed(0)
    assert_handles_scales(encoder(SumPool()).float(), features=3)
