import math

import pytest
import torch

from torchsets.decoders import DSPN
from torchsets.encoders import ISAB, PMA, SAB, SetTransformer
from torchsets.testing import assert_obeys_laws, random_sets

ENCODERS = {
    "full": {},
    "inducing": {"inducing": 3},
    "seeds": {"seeds": 2, "norm": True},
}
EACH = pytest.mark.parametrize("name", ENCODERS)


def encoder(name, **options):
    torch.manual_seed(0)
    return SetTransformer(3, 5, hidden=8, heads=2, **ENCODERS[name], **options).double()


def published_block(block, queries, keys):
    """MAB as its authors released it: one set, one head after the other, no mask."""
    query, key, value = block.query(queries), block.key(keys), block.value(keys)
    width = query.shape[-1]
    heads = []
    parts = [x.split(width // block.heads, dim=-1) for x in (query, key, value)]
    for q, k, v in zip(*parts, strict=True):
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width), dim=-1)
        heads.append(q + weights @ v)
    attended = block.norm_attended(torch.cat(heads, dim=-1))
    return block.norm_out(attended + torch.relu(block.out(attended)))


def published(model, elements):
    """The forward pass of the paper on one set (N, D)."""
    for layer in model.layers:
        if isinstance(layer, SAB):
            elements = published_block(layer.block, elements, elements)
        else:
            points = published_block(layer.collect, layer.points, elements)
            elements = published_block(layer.spread, elements, points)
    pooled = published_block(model.pool.block, model.pool.seeds, elements)
    if len(pooled) > 1:
        pooled = published_block(model.among.block, pooled, pooled)
    return model.out(pooled.flatten())


@EACH
def test_equals_the_published_forward_pass(name, generator):
    model = encoder(name)
    sets = torch.randn(4, 6, 3, generator=generator, dtype=torch.float64)
    expected = torch.stack([published(model, one) for one in sets])
    torch.testing.assert_close(model(sets), expected)


@EACH
def test_each_set_is_as_if_alone_without_a_mask(name, generator):
    model = encoder(name)
    elements, mask = random_sets([3, 1, 6], features=3, generator=generator)
    expected = [published(model, one[real]) for one, real in zip(elements, mask, strict=True)]
    torch.testing.assert_close(model(elements, mask), torch.stack(expected))


@EACH
@pytest.mark.parametrize("sizes", [[3, 0, 2], [0, 0]], ids=str)
def test_obeys_the_laws(name, sizes, generator):
    assert_obeys_laws(encoder(name), *random_sets(sizes, features=3, generator=generator))


@pytest.mark.parametrize("sizes", [[3, 0, 2], [0, 0]], ids=str)
@pytest.mark.parametrize("block", [SAB(3, 8), ISAB(3, 8, inducing=2)], ids=["SAB", "ISAB"])
def test_blocks_obey_the_laws_and_leave_zeros_at_padding(block, sizes, generator):
    elements, mask = random_sets(sizes, features=3, generator=generator)
    assert_obeys_laws(block.double(), elements, mask, equivariant=True)
    assert not block(elements, mask)[~mask].any()


def test_pooling_obeys_the_laws(generator):
    pool = PMA(4, seeds=2, heads=2).double()
    assert_obeys_laws(pool, *random_sets([3, 0, 2], features=4, generator=generator))


@EACH
def test_an_empty_set_gives_what_the_seeds_give(name):
    """Attention adds nothing to the seeds: what is left is their projection."""
    model = encoder(name)
    block = model.pool.block
    attended = block.norm_attended(block.query(model.pool.seeds))
    pooled = block.norm_out(attended + block.out(attended).relu())
    expected = model.out(model.among(pooled.unsqueeze(0)).flatten(1)).expand(2, -1)
    nothing = torch.full((2, 3, 3), torch.nan, dtype=torch.float64)
    torch.testing.assert_close(model(nothing, torch.zeros(2, 3, dtype=torch.bool)), expected)
    torch.testing.assert_close(model(nothing[:, :0]), expected)


@EACH
@pytest.mark.parametrize("sizes", [[0, 1, 4], [0, 0]], ids=str)
def test_parameter_gradients_are_finite_under_nan_padding(name, sizes, generator):
    model = encoder(name)
    model(*random_sets(sizes, features=3, generator=generator)).square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


@pytest.mark.parametrize("name", ["full", "inducing"])
def test_gradients_of_both_orders(name, generator):
    model = encoder(name, layers=1)
    elements = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert torch.autograd.gradcheck(lambda x: model(x, mask), elements)
    assert torch.autograd.gradgradcheck(lambda x: model(x, mask), elements)


def test_is_an_encoder_of_a_dspn(generator):
    decoder = DSPN(encoder("full", layers=1), slots=2, features=2, steps=2).double()
    vector = torch.randn(1, 5, generator=generator, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: decoder(v).elements, vector)


@pytest.mark.slow
def test_a_dspn_around_it_compiles(generator):
    decoder = DSPN(encoder("full", layers=1), slots=4, features=2, steps=2).double()
    vector = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    expected = decoder(vector).elements
    actual = torch.compile(decoder, backend="aot_eager")(vector).elements
    torch.testing.assert_close(actual, expected)
    inputs = tuple(decoder.encoder.pool.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(actual.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
    )


@pytest.mark.slow
def test_compiles(generator):
    elements, mask = random_sets([3, 0, 5], features=3, generator=generator)
    model = encoder("inducing", layers=1)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), model(elements, mask))


@EACH
def test_runs_under_autocast(name, generator):
    elements, mask = random_sets([3, 0, 5], features=3, generator=generator)
    model = encoder(name)
    expected = model(elements, mask)
    single = model.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = single(elements.float(), mask)
    half.float().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in single.parameters())
    torch.testing.assert_close(half.double(), expected, rtol=0.1, atol=0.1)


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_inductor_gives_equal_values_and_gradients(generator):
    elements, mask = random_sets([3, 0, 5], features=3, generator=generator)
    model = encoder("inducing", layers=1)
    expected = model(elements, mask)
    actual = torch.compile(model, fullgraph=True)(elements, mask)
    torch.testing.assert_close(actual, expected)
    inputs = tuple(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(actual.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, "heads must divide the 64 features, got 3"),
        ({"layers": 0}, "layers must be at least 1, got 0"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"inducing": 0}, "inducing must be at least 1, got 0"),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        SetTransformer(3, 5, **options)


def test_rejects_bad_input():
    model = SetTransformer(3, 5)
    with pytest.raises(ValueError, match="mask must be bool"):
        model(torch.zeros(1, 2, 3), torch.ones(1, 2))
    with pytest.raises(ValueError, match="elements must be floating point, got"):
        model(torch.zeros(1, 2, 3, dtype=torch.long))
