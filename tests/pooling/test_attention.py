import pytest
import torch
from torch import nn

from torchsets.encoders import DeepSets, RelationNetwork
from torchsets.mlp import MLP
from torchsets.pooling import AttentionPool
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets

DOUBLE = {"dtype": torch.float64}


def pool(**options):
    torch.manual_seed(0)
    return AttentionPool(3, **options).double()


def average(elements, query):
    """Of one set (n, D), plainly."""
    weights = (elements @ query / 3**0.5).exp()
    return (weights.unsqueeze(1) * elements).sum(dim=0) / weights.sum()


def ask(module):
    """A pooling with context as a function of sets: all have the same context."""

    def function(elements, mask):
        context = torch.tensor([0.3, -1.0], **DOUBLE).expand(len(elements), -1)
        return module(elements, mask, context)

    return function


@pytest.mark.parametrize("queries", [1, 2])
def test_matches_each_set_on_its_own(queries, generator):
    elements, mask = random_sets([3, 1, 5], features=3, generator=generator)
    module = pool(queries=queries)
    expected = [
        torch.cat([average(one[real], query) for query in module.queries])
        for one, real in zip(elements, mask, strict=True)
    ]
    torch.testing.assert_close(module(elements, mask), torch.stack(expected))
    torch.testing.assert_close(module(elements[2:]), expected[2].unsqueeze(0))


def test_a_context_moves_the_queries(generator):
    elements, mask = random_sets([3, 1, 5], features=3, generator=generator)
    context = torch.randn(3, 2, generator=generator, **DOUBLE)
    module = pool(queries=2, context=2)
    moves = module.from_context.weight.view(2, 3, 2)
    expected = [
        torch.cat([average(one[real], module.queries[i] + moves[i] @ c) for i in range(2)])
        for one, real, c in zip(elements, mask, context, strict=True)
    ]
    torch.testing.assert_close(module(elements, mask, context), torch.stack(expected))


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2], [0, 0]], ids=str)
@pytest.mark.parametrize(
    "module", [pool(), pool(queries=2), ask(pool(context=2))], ids=["one", "two", "context"]
)
def test_obeys_the_laws(module, sizes, generator):
    assert_obeys_laws(module, *random_sets(sizes, features=3, generator=generator))


def test_weights_obey_the_laws(generator):
    """They are one result per element: the elements' axis comes first for this."""
    module = pool(queries=2)

    def weights(elements, mask):
        return module.weights(elements, mask).transpose(1, 2)

    for sizes in ([3, 0, 2], [0, 0]):
        elements, mask = random_sets(sizes, features=3, generator=generator)
        assert_obeys_laws(weights, elements, mask, equivariant=True)


def test_weights_say_how_much_each_element_counts(generator):
    elements, mask = random_sets([3, 0, 5], features=3, generator=generator)
    module = pool(queries=2, context=4)
    context = torch.randn(3, 4, generator=generator, **DOUBLE)
    weights = module.weights(elements, mask, context)
    pooled = module(elements, mask, context)
    torch.testing.assert_close((weights @ elements.nan_to_num()).flatten(1), pooled)
    total = torch.tensor([1.0, 0.0, 1.0], **DOUBLE).unsqueeze(1).expand(3, 2)
    torch.testing.assert_close(weights.sum(dim=2), total)
    assert not weights.transpose(1, 2)[~mask].any()


def test_an_empty_set_gives_zeros():
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    assert not pool()(torch.full((1, 2, 3), torch.nan, **DOUBLE), nothing).any()
    assert pool()(torch.zeros(2, 0, 3, **DOUBLE)).tolist() == [[0.0] * 3] * 2


def test_gradients_of_both_orders(generator):
    elements = torch.randn(3, 3, 3, generator=generator, **DOUBLE).requires_grad_()
    context = torch.randn(3, 2, generator=generator, **DOUBLE).requires_grad_()
    mask = torch.tensor([[True, True, False], [False, False, False], [True, True, True]])
    module = pool(queries=2, context=2)
    assert torch.autograd.gradcheck(lambda x, c: module(x, mask, c), (elements, context))
    assert torch.autograd.gradgradcheck(lambda x, c: module(x, mask, c), (elements, context))


def test_is_finite_at_any_scale():
    assert_handles_scales(AttentionPool(3), features=3)


@pytest.mark.parametrize(
    "encoder",
    [
        DeepSets(MLP(3, 8, 8), AttentionPool(8, queries=2), nn.Linear(16, 4)),
        RelationNetwork(3, 8, nn.Linear(8, 6), AttentionPool(6)),
    ],
    ids=["deep-sets", "relation"],
)
def test_serves_the_other_encoders(encoder, generator):
    elements, mask = random_sets([3, 0, 2], features=3, generator=generator)
    assert_obeys_laws(encoder.double(), elements, mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_keeps_the_dtype_and_compiles_and_exports(dtype, generator):
    elements, mask = random_sets([3, 0, 5], features=3, generator=generator, dtype=dtype)
    module = AttentionPool(3)
    expected = module(elements, mask)
    assert expected.dtype == dtype
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), expected)
    exported = torch.export.export(module, (elements, mask)).module()
    torch.testing.assert_close(exported(elements, mask), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = module(elements, mask)
    torch.testing.assert_close(half.float(), expected.float(), rtol=0.05, atol=0.05)


def test_says_what_it_is():
    assert repr(AttentionPool(3, queries=2)) == "AttentionPool(features=3, queries=2)"


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, (torch.zeros(4, 3),), r"elements must have shape \(B, N, D\)"),
        ({}, (torch.zeros(1, 4, 2),), r"elements must have shape \(B, N, D\) = \(any, any, 3\)"),
        ({}, (torch.zeros(1, 4, 3), torch.ones(1, 4)), "mask must be bool"),
        ({}, (torch.zeros(1, 4, 3), None, torch.zeros(1, 2)), "context must be None"),
        ({"context": 2}, (torch.zeros(1, 4, 3),), "context must be given"),
        (
            {"context": 2},
            (torch.zeros(3, 4, 3), None, torch.zeros(1, 2)),
            r"context must have shape \(B, C\) = \(3, 2\), got \(1, 2\)",
        ),
    ],
)
def test_rejects_bad_input(options, arguments, message):
    with pytest.raises(ValueError, match=message):
        AttentionPool(3, **options)(*arguments)


def test_rejects_no_queries():
    with pytest.raises(ValueError, match="queries must be at least 1, got 0"):
        AttentionPool(3, queries=0)
