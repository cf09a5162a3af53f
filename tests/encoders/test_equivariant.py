import pytest
import torch

from torchsets.encoders import EquivariantLinear
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets

CENTRES = pytest.mark.parametrize("centre", ["mean", "max"])


def layer(centre):
    torch.manual_seed(0)
    return EquivariantLinear(3, 4, centre=centre).double()


@CENTRES
@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_obeys_the_laws(centre, sizes, generator):
    sets = random_sets(sizes, features=3, generator=generator)
    assert_obeys_laws(layer(centre), *sets, equivariant=True)


@CENTRES
def test_matches_a_plain_loop(centre, generator):
    model = layer(centre)
    elements, mask = random_sets([3, 1, 0], features=3, generator=generator)
    for one, real, got in zip(elements, mask, model(elements, mask), strict=True):
        assert (got[~real] == 0).all()
        if not real.any():
            continue
        inside = one[real]
        middle = inside.mean(dim=0) if centre == "mean" else inside.amax(dim=0)
        expected = [
            model.each.weight @ x + model.each.bias - model.centred.weight @ middle for x in inside
        ]
        torch.testing.assert_close(got[real], torch.stack(expected))


def test_equal_weights_see_only_the_differences(generator):
    model = layer("mean")
    model.centred.weight.data.copy_(model.each.weight)
    elements, mask = random_sets([3, 5], features=3, generator=generator)
    torch.testing.assert_close(model(elements + 7, mask), model(elements, mask))


@CENTRES
def test_gradients_of_both_orders(centre, generator):
    model = layer(centre)
    elements = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert torch.autograd.gradcheck(lambda x: model(x, mask).pow(3), elements)
    assert torch.autograd.gradgradcheck(lambda x: model(x, mask).pow(3), elements)


@CENTRES
def test_parameter_gradients_are_finite_under_nan_padding(centre, generator):
    model = layer(centre)
    model(*random_sets([0, 1, 4], features=3, generator=generator)).square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


@pytest.mark.slow
@CENTRES
def test_compiles_and_runs_under_autocast(centre, generator):
    elements, mask = random_sets([3, 1, 5], features=3, generator=generator)
    model = layer(centre)
    expected = model(elements, mask)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model.float()(elements.float(), mask)
    torch.testing.assert_close(half.double(), expected, rtol=0.1, atol=0.1)
    assert_handles_scales(model, features=3)


def test_rejects_bad_arguments():
    with pytest.raises(ValueError, match='centre must be "mean" or "max", got \'sum\''):
        EquivariantLinear(3, 4, centre="sum")
    with pytest.raises(ValueError, match="elements must be floating point, got"):
        layer("max")(torch.zeros(1, 2, 3).long())
    with pytest.raises(ValueError, match="mask must be bool"):
        layer("max")(torch.zeros(1, 2, 3).double(), torch.ones(1, 2))
