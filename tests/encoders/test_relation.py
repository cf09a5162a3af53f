import pytest
import torch
from torch import nn

from torchsets.encoders import RelationNetwork
from torchsets.pooling import FSPool, MaxPool, SumPool
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets

POOLS = [FSPool(5), SumPool(), MaxPool()]


def encoder(pool):
    torch.manual_seed(0)
    return RelationNetwork(3, 8, nn.Linear(8, 5), pool, nn.Linear(5, 4)).double()


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: type(pool).__name__)
@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_obeys_the_laws(pool, sizes, generator):
    assert_obeys_laws(encoder(pool), *random_sets(sizes, features=3, generator=generator))


def test_sums_over_all_ordered_pairs(generator):
    model = encoder(SumPool())
    (elements,) = torch.randn(1, 4, 3, generator=generator, dtype=torch.float64)
    first = nn.functional.linear
    pairs = [
        model.inner(first(torch.cat([left, right]), model.first.weight, model.first.bias).relu())
        for left in elements
        for right in elements
    ]
    expected = model.outer(sum(pairs))
    torch.testing.assert_close(model(elements.unsqueeze(0))[0], expected)


def test_gradients_of_both_orders(generator):
    model = encoder(FSPool(5))
    elements = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, True, False], [False, False, True]])
    assert torch.autograd.gradcheck(lambda x: model(x, mask), elements)
    assert torch.autograd.gradgradcheck(lambda x: model(x, mask).pow(3), elements)


def test_parameter_gradients_are_finite_under_nan_padding(generator):
    model = encoder(FSPool(5))
    model(*random_sets([0, 1, 4], features=3, generator=generator)).square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


@pytest.mark.parametrize("pool", POOLS, ids=lambda pool: type(pool).__name__)
def test_compiles_and_exports(pool, generator):
    elements, mask = random_sets([3, 1, 5], features=3, generator=generator)
    model = encoder(pool)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), model(elements, mask))
    exported = torch.export.export(model, (elements, mask)).module()
    torch.testing.assert_close(exported(elements, mask), model(elements, mask))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.isfinite(model.float()(elements.float(), mask)).all()


@pytest.mark.parametrize("mask", [None, torch.ones(1, 2, dtype=torch.bool)], ids=["bare", "mask"])
def test_rejects_integer_elements(mask):
    with pytest.raises(ValueError, match="elements must be floating point, got"):
        encoder(SumPool())(torch.zeros(1, 2, 3, dtype=torch.long), mask)


def test_is_finite_at_any_scale():
    torch.manual_seed(0)
    assert_handles_scales(encoder(SumPool()).float(), features=3)
