import math

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from torchsets.attention import Attention, attend
from torchsets.testing import assert_obeys_laws, random_sets

MASK = torch.tensor([[True, False, True, True], [False] * 4, [False, False, True, False]])
DOUBLE = {"dtype": torch.float64}


def vectors(generator, *, values=6):
    """Queries, keys and values of three sets; finite at padding."""
    shapes = (3, 2, 6), (3, 4, 6), (3, 4, values)
    return [torch.randn(shape, generator=generator, **DOUBLE).requires_grad_() for shape in shapes]


def loop(queries, keys, values, mask, heads, scale):
    """One number after the other."""
    result = torch.zeros(*queries.shape[:2], values.shape[-1], **DOUBLE)
    width, depth = queries.shape[-1] // heads, values.shape[-1] // heads
    for b, m, h in torch.cartesian_prod(*map(torch.arange, (*queries.shape[:2], heads))):
        real = mask[b].nonzero().flatten().tolist()
        part = slice(h * width, (h + 1) * width)
        scores = [math.exp(scale * float(queries[b, m, part] @ keys[b, n, part])) for n in real]
        for n, score in zip(real, scores, strict=True):
            part = slice(h * depth, (h + 1) * depth)
            result[b, m, part] += score / sum(scores) * values[b, n, part]
    return result


@pytest.mark.parametrize(("heads", "width"), [(1, 6), (2, 6), (2, 4)])
def test_matches_a_plain_loop(heads, width, generator):
    queries, keys, values = (x.detach() for x in vectors(generator, values=width))
    expected = loop(queries, keys, values, MASK, heads, 0.3)
    got = attend(queries, keys, values, MASK, heads=heads, scale=0.3)
    torch.testing.assert_close(got, expected)
    usual = attend(queries, keys, values, MASK, heads=heads)
    expected = loop(queries, keys, values, MASK, heads, (6 / heads) ** -0.5)
    torch.testing.assert_close(usual, expected)
    full = attend(queries, keys, values, torch.ones(3, 4, dtype=torch.bool), heads=heads)
    torch.testing.assert_close(attend(queries, keys, values, heads=heads), full)


@pytest.mark.parametrize("mask", [MASK, MASK & False, None], ids=["mixed", "all-empty", "full"])
def test_gradients_of_both_orders(mask, generator):
    inputs = vectors(generator)
    assert torch.autograd.gradcheck(lambda *x: attend(*x, mask, heads=2), inputs)
    assert torch.autograd.gradgradcheck(lambda *x: attend(*x, mask, heads=2), inputs)


@pytest.mark.parametrize("variable", [0, 1, 2])
def test_gradient_of_one_input_alone(variable, generator):
    inputs = vectors(generator)
    for index, one in enumerate(inputs):
        one.requires_grad_(index == variable)
    assert torch.autograd.gradcheck(lambda *x: attend(*x, MASK), inputs)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("sets", [(3, 0), (0, 4), (0, 0)], ids=str)
def test_empty_batches_give_zeros_and_zero_gradients(sets, masked):
    queries = torch.ones(sets[0], 2, 6, requires_grad=True)
    keys = torch.ones(*sets, 6, requires_grad=True)
    got = attend(queries, keys, keys, torch.zeros(sets, dtype=torch.bool) if masked else None)
    assert torch.equal(got, torch.zeros(sets[0], 2, 6))
    for gradient in torch.autograd.grad(got.sum(), (queries, keys)):
        assert not gradient.any()


def test_an_empty_set_gives_zeros_and_zero_gradients(generator):
    inputs = vectors(generator)
    got = attend(*inputs, MASK)[1]
    assert torch.equal(got, torch.zeros_like(got))
    assert not any(gradient.any() for gradient in torch.autograd.grad(got.sum(), inputs))


def test_a_graph_serves_as_often_as_it_is_kept(generator):
    inputs = vectors(generator)
    total = attend(*inputs, MASK).square().sum()
    first = torch.autograd.grad(total, inputs, retain_graph=True)
    again = torch.autograd.grad(total, inputs, retain_graph=True, create_graph=True)
    torch.testing.assert_close(again, first)
    torch.testing.assert_close(torch.autograd.grad(total, inputs), first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(total, inputs)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_changes_no_gradient(reentrant, generator):
    inputs = vectors(generator)
    expected = torch.autograd.grad(attend(*inputs, MASK).square().sum(), inputs)
    kept = checkpoint(lambda *x: attend(*x, MASK), *inputs, use_reentrant=reentrant)
    kept.square().sum().backward()
    torch.testing.assert_close(tuple(x.grad for x in inputs), expected)


def test_transforms_of_torch_func_differentiate_twice(generator):
    queries, keys, values = (x.detach() for x in vectors(generator))

    def total(queries):
        return attend(queries, keys, values, MASK, heads=2).pow(3).sum()

    expected = torch.autograd.functional.hessian(total, queries)
    torch.testing.assert_close(torch.func.hessian(total)(queries), expected)


def test_nothing_of_the_size_of_all_pairs_is_kept(generator):
    elements = torch.randn(1, 256, 8, generator=generator, requires_grad=True)
    largest = 0

    def look(tensor):
        nonlocal largest
        largest = max(largest, tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(look, lambda tensor: tensor):
        attend(elements, elements, elements, torch.ones(1, 256, dtype=torch.bool), heads=2)
    assert 0 < largest <= 256 * 8


def test_dropout_drops_weights_and_keeps_the_mean(generator):
    queries, values = torch.zeros(1, 2000, 4), torch.ones(1, 8, 4)
    torch.manual_seed(0)
    got = attend(queries, values, values, torch.ones(1, 8, dtype=torch.bool), dropout=0.5)
    eighths = got * 4  # each kept element gives 1/8, doubled
    torch.testing.assert_close(eighths, eighths.round())
    assert got.std() > 0.2
    torch.testing.assert_close(got.mean(), torch.tensor(1.0), rtol=0, atol=0.05)


def test_attention_equals_torch_on_the_same_weights(generator):
    torch.manual_seed(0)
    ours = Attention(6, 2, keys=4).double()
    theirs = nn.MultiheadAttention(6, 2, kdim=4, vdim=4, batch_first=True).double()
    with torch.no_grad():
        theirs.q_proj_weight.copy_(ours.query.weight)
        theirs.k_proj_weight.copy_(ours.key.weight)
        theirs.v_proj_weight.copy_(ours.value.weight)
        theirs.in_proj_bias.copy_(torch.cat([x.bias for x in (ours.query, ours.key, ours.value)]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    queries, keys, _ = vectors(generator)
    keys, others = keys[..., :4], keys[..., 2:]
    mask = MASK | torch.eye(3, 4, dtype=torch.bool)  # theirs has no empty sets
    expected, _ = theirs(queries, keys, keys, key_padding_mask=~mask)
    torch.testing.assert_close(ours(queries, keys, mask), expected)
    expected, _ = theirs(queries, keys, others, key_padding_mask=~mask)
    torch.testing.assert_close(ours(queries, keys, mask, values=others), expected)


def test_attention_obeys_the_laws_in_its_keys(generator):
    torch.manual_seed(0)
    attention = Attention(6, 2, keys=4).double()

    def look(elements, mask):
        return attention(torch.ones(len(elements), 3, 6, **DOUBLE), elements, mask)

    for sizes in ([3, 0, 2], [0, 0]):
        assert_obeys_laws(look, *random_sets(sizes, features=4, generator=generator))


def test_values_of_padding_may_be_nan_too(generator):
    attention = Attention(6, 2, keys=4).double()
    queries, keys, values = vectors(generator, values=4)
    keys = keys[..., :4]
    padding = ~MASK.unsqueeze(-1)
    spoilt = [x.masked_fill(padding, torch.nan) for x in (keys, values)]
    expected = attention(queries, keys, MASK, values=values)
    got = attention(queries, spoilt[0], MASK, values=spoilt[1])
    torch.testing.assert_close(got, expected)
    got.sum().backward()
    assert all(weight.grad.isfinite().all() for weight in attention.parameters())


def test_an_empty_set_gives_the_bias(generator):
    attention = Attention(6, 2)
    got = attention(torch.rand(2, 3, 6), torch.rand(2, 0, 6))
    torch.testing.assert_close(got, attention.out.bias.expand(2, 3, 6))


def test_dropout_is_for_training_only(generator):
    attention = Attention(6, 2, dropout=0.5)
    queries, keys = torch.rand(1, 50, 6), torch.rand(1, 9, 6)
    assert not torch.equal(attention(queries, keys), attention(queries, keys))
    attention.eval()
    assert torch.equal(attention(queries, keys), attention(queries, keys))
    assert "heads=2, dropout=0.5" in repr(attention)


def test_compiles_and_exports_and_runs_under_autocast(generator):
    torch.manual_seed(0)
    attention = Attention(6, 2)
    queries, keys, _ = (x.detach().float() for x in vectors(generator))
    keys = keys.masked_fill(~MASK.unsqueeze(-1), torch.nan)
    expected = attention(queries, keys, MASK)
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(queries, keys, MASK), expected)
    exported = torch.export.export(attention, (queries, keys, MASK)).module()
    torch.testing.assert_close(exported(queries, keys, MASK), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = attention(queries, keys, MASK)
    half.float().sum().backward()
    assert half.dtype == torch.bfloat16
    assert all(weight.grad.isfinite().all() for weight in attention.parameters())
    torch.testing.assert_close(half.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("heads", [0, 4])
def test_rejects_heads_that_do_not_divide_the_features(heads):
    with pytest.raises(ValueError, match=f"heads must divide the 6 features, got {heads}"):
        Attention(6, heads)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"queries": torch.zeros(2, 6)}, r"queries must have shape \(B, N, D\)"),
        ({"keys": torch.zeros(2, 5, 6).long()}, "keys must be floating point"),
        ({"mask": torch.ones(2, 5)}, "mask must be bool"),
        ({"mask": torch.ones(2, 3, dtype=torch.bool)}, r"mask must have shape \(2, 5\) to match k"),
        ({"values": torch.zeros(2, 4, 6)}, r"values must have shape \(B, N, K\) = \(2, 5, 6\)"),
    ],
)
def test_rejects_bad_input(changes, message):
    arguments = {"queries": torch.zeros(2, 3, 6), "keys": torch.zeros(2, 5, 6), **changes}
    with pytest.raises(ValueError, match=message):
        Attention(6, 2)(**arguments)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((1, 2, 4), (5, 3, 4), (5, 3, 4), (5, 3)), r"queries must have shape \(B, M, D\)"),
        (((5, 2, 4), (3, 4), (5, 3, 4), (5, 3)), r"keys must have shape \(B, N, D\)"),
        (((5, 2, 4), (5, 3, 4), (1, 3, 4), (5, 3)), r"values must have shape \(B, N, E\)"),
        (((5, 2, 4), (5, 3, 4), (5, 3, 4), (5, 1)), r"mask must have shape \(5, 3\)"),
        (((5, 2, 4), (5, 3, 4), (5, 3, 5), (5, 3)), "heads must divide the 5 features, got 2"),
    ],
)
def test_shapes_are_not_broadcast(shapes, message):
    *tensors, mask = shapes
    with pytest.raises(ValueError, match=message):
        attend(*map(torch.zeros, tensors), torch.ones(mask, dtype=torch.bool), heads=2)
    attention = Attention(4, 2)
    with pytest.raises(ValueError, match="queries must have shape"):
        attention(torch.zeros(5, 3, 4), torch.zeros(1, 4, 4))
