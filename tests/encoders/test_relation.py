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


class Calls(nn.Module):
    """Passes on what it gets and keeps its shape."""

    def forward(self, pairs):
        self.shape = pairs.shape
        return pairs


@pytest.mark.parametrize("pool", [FSPool(8), SumPool(), MaxPool()], ids=lambda p: type(p).__name__)
def test_computes_real_pairs_alone(pool, generator):
    model = RelationNetwork(3, 8, Calls(), pool).double()
    elements, mask = random_sets([3, 0, 2], features=3, generator=generator)
    order = torch.tensor([2, 0, 1])  # real elements need not come first
    elements, mask = elements[:, order], mask[:, order]
    expected = torch.cat(
        [model(x[real].unsqueeze(0)) for x, real in zip(elements, mask, strict=True)]
    )
    torch.testing.assert_close(model(elements, mask), expected)
    assert model.inner.shape == (9 + 4, 8)


def test_a_pooling_without_flat_form_gets_padded_pairs(generator):
    class Padded(nn.Module):
        def forward(self, elements, mask=None):
            return SumPool()(elements, mask)

    elements, mask = random_sets([3, 0, 2], features=3, generator=generator)
    torch.testing.assert_close(
        encoder(Padded())(elements, mask), encoder(SumPool())(elements, mask)
    )


@pytest.mark.parametrize("masked", [False, True])
def test_context_is_seen_by_every_pair(masked, generator):
    torch.manual_seed(0)
    model = RelationNetwork(3, 8, nn.Linear(8, 5), SumPool(), context=2).double()
    elements = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64)
    context = torch.randn(2, 2, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[True, False, True], [True, True, True]])
    found = model(elements, mask if masked else None, context)
    for row, (one, seen) in enumerate(zip(elements, context, strict=True)):
        real = one[mask[row]] if masked else one
        pairs = [torch.cat([a, b, seen]) @ model.first.weight.T for a in real for b in real]
        expected = sum(model.inner((pair + model.first.bias).relu()) for pair in pairs)
        torch.testing.assert_close(found[row], expected)


def test_context_must_be_given_where_it_is_declared():
    with pytest.raises(ValueError, match=r"context must be \(B, 2\), got None"):
        RelationNetwork(3, 8, nn.Linear(8, 5), SumPool(), context=2)(torch.zeros(1, 2, 3))
    with pytest.raises(ValueError, match="made without context takes none"):
        encoder(SumPool())(torch.zeros(1, 2, 3).double(), None, torch.zeros(1, 2).double())


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


@pytest.mark.slow
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
