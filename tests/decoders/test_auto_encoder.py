import pytest
import torch

from torchsets.decoders import FSPoolAutoEncoder
from torchsets.padded import lengths_to_mask
from torchsets.testing import (
    assert_empty_batches_connected,
    assert_handles_scales,
    assert_obeys_laws,
    assert_twice_differentiable,
    random_sets,
)

PARTS = {
    "encoder.conv": "element_encoder",
    "encoder.pool": "pool",
    "encoder.lin": "vector_encoder",
    "decoder.lin": "vector_decoder",
    "decoder.unpool": "unpool",
    "decoder.conv": "element_decoder",
}


def renamed(name):
    part, _, rest = name.rpartition(".")
    for theirs, ours in PARTS.items():
        part = part.replace(theirs, ours)
    return f"{part}.{rest}"


def test_matches_the_author(golden):
    arrays = golden("fspool_autoencoder")
    model = FSPoolAutoEncoder(features=2, hidden=8, latent=1).double()
    stored = {
        renamed(key.removeprefix("param.")): value.squeeze(-1) if value.ndim == 3 else value
        for key, value in arrays.items()
        if key.startswith("param.")
    }
    model.load_state_dict(stored)
    elements = arrays["x"].transpose(1, 2).requires_grad_()
    mask = lengths_to_mask(arrays["n"], size=6)
    latent, order = model.encode(elements, mask)
    restored = model.decode(latent, order, mask)
    close = {"rtol": 1e-6, "atol": 1e-7}  # his padding value leaves 1e-8 of itself
    torch.testing.assert_close(latent, arrays["latent"], **close)
    torch.testing.assert_close(restored, arrays["out"].transpose(1, 2), **close)
    target = elements.detach().masked_fill(~mask.unsqueeze(-1), 0)
    loss = (restored - target).square().mean()
    torch.testing.assert_close(loss, arrays["loss"], **close)
    loss.backward()
    assert torch.equal(elements.grad[~mask], torch.zeros_like(elements.grad[~mask]))
    expected = arrays["grad_x"].transpose(1, 2)
    torch.testing.assert_close(elements.grad[mask], expected[mask], **close)
    gradients = dict(model.named_parameters())
    for key, value in arrays.items():
        if key.startswith("grad.") and key != "grad_x":
            actual = gradients[renamed(key.removeprefix("grad."))].grad
            torch.testing.assert_close(actual, value.view(actual.shape), **close)


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_obeys_the_laws_of_equivariant_functions(sizes, generator):
    torch.manual_seed(0)
    model = FSPoolAutoEncoder(features=2, hidden=4).double()
    sets = random_sets(sizes, features=2, generator=generator)
    assert_obeys_laws(model, *sets, equivariant=True)


def test_padding_is_restored_as_zeros(generator):
    model = FSPoolAutoEncoder(features=2, hidden=4).double()
    elements, mask = random_sets([3, 0, 5], features=2, generator=generator)
    restored = model(elements, mask)
    assert (restored[~mask] == 0).all()
    assert (restored[mask] != 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [None, 1.0])
def test_compiles_and_exports(temperature, generator):
    torch.manual_seed(0)
    model = FSPoolAutoEncoder(features=2, hidden=4, temperature=temperature).double()
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator)
    expected = model(elements, mask)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), expected)
    exported = torch.export.export(model, (elements, mask)).module()
    torch.testing.assert_close(exported(elements, mask), expected)


def test_runs_under_autocast(generator):
    model = FSPoolAutoEncoder(features=2, hidden=4)
    elements, mask = random_sets([3, 0, 5], features=2, generator=generator, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(elements, mask).square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


@pytest.mark.parametrize("mask", [None, torch.ones(1, 2, dtype=torch.bool)], ids=["bare", "mask"])
def test_rejects_integer_elements(mask):
    with pytest.raises(ValueError, match="elements must be floating point, got"):
        FSPoolAutoEncoder(features=3)(torch.zeros(1, 2, 3, dtype=torch.long), mask)


def test_is_finite_at_any_scale():
    torch.manual_seed(0)
    assert_handles_scales(FSPoolAutoEncoder(features=3).float(), features=3)


def test_an_exact_order_is_twice_differentiable_and_connected(generator):
    torch.manual_seed(0)
    model = FSPoolAutoEncoder(features=2, hidden=4, temperature=None).double()
    assert_twice_differentiable(model, *random_sets([3, 0, 5, 1], features=2, generator=generator))
    assert_empty_batches_connected(model, features=2)
