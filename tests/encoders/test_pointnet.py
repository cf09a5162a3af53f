from functools import partial

import pytest
import torch
from torch.nn.functional import linear

from torchsets.encoders import PointNet
from torchsets.pooling import FSPool, MaxPool, SortPool, SumPool
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets

POOLINGS = {"max": MaxPool, "sum": SumPool, "fspool": FSPool}


def encoder(pooling=MaxPool, *, transforms=True, move=True):
    torch.manual_seed(0)
    model = PointNet(3, 4, hidden=6, pooling=pooling, transforms=transforms).double()
    for transform in model.transforms if move else ():  # away from the identity
        torch.nn.init.normal_(transform.last.weight, std=0.3)
    return model


@pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
@pytest.mark.parametrize("transforms", [False, True])
def test_obeys_the_laws(pooling, transforms, generator):
    model = encoder(pooling, transforms=transforms)
    sets = random_sets([3, 1, 0, 5], features=3, generator=generator)
    assert_obeys_laws(model, *sets)
    assert_obeys_laws(model.describe_elements, *sets, equivariant=True)


def plain_matrix(transform, elements):
    inside = torch.stack([transform.inner(one).relu() for one in elements])
    pooled = inside.amax(dim=0)
    return transform.last(transform.outer(pooled).relu()).view(elements.shape[1], -1)


@pytest.mark.parametrize("transforms", [False, True])
def test_matches_a_plain_loop_over_the_elements(transforms, generator):
    model = encoder(transforms=transforms)
    sets, mask = random_sets([4, 2], features=3, generator=generator)
    for number, size in enumerate([4, 2]):
        elements = sets[number, :size]
        if transforms:
            elements = elements @ plain_matrix(model.transforms[0], elements)
        inside = model.first(elements).relu()
        if transforms:
            inside = inside @ plain_matrix(model.transforms[1], inside)
        context = model.context(inside.amax(dim=0))
        each = [
            model.second(
                linear(torch.cat([one, context]), model.joint.weight, model.joint.bias).relu()
            ).relu()
            for one in inside
        ]
        expected = model.outer(torch.stack(each).amax(dim=0))
        torch.testing.assert_close(model(sets, mask)[number], expected)
        described = model.describe_elements(sets, mask)[number]
        torch.testing.assert_close(described[:size], torch.stack(each))
        assert (described[size:] == 0).all()


def test_transforms_start_as_the_identity(generator):
    with_transforms, without = encoder(move=False), encoder(transforms=False)
    without.load_state_dict(with_transforms.state_dict(), strict=False)
    sets = random_sets([3, 0, 5], features=3, generator=generator)
    torch.testing.assert_close(with_transforms(*sets), without(*sets))
    torch.testing.assert_close(
        with_transforms.orthogonality_loss(*sets), torch.zeros(3, dtype=torch.float64)
    )


def test_orthogonality_loss_is_that_of_the_second_matrix(generator):
    model = encoder()
    elements = torch.randn(1, 4, 3, generator=generator, dtype=torch.float64)
    (one,) = elements
    inside = model.first(one @ plain_matrix(model.transforms[0], one)).relu()
    matrix = plain_matrix(model.transforms[1], inside)
    expected = (torch.eye(6) - matrix @ matrix.t()).norm().square()
    torch.testing.assert_close(model.orthogonality_loss(elements)[0], expected)
    assert_obeys_laws(
        model.orthogonality_loss, *random_sets([3, 0, 2], features=3, generator=generator)
    )


def test_orthogonality_loss_needs_transforms():
    with pytest.raises(ValueError, match="transforms must be True for this loss, got False"):
        encoder(transforms=False).orthogonality_loss(torch.zeros(1, 2, 3).double())


def test_parameter_gradients_are_finite_under_nan_padding(generator):
    model = encoder()
    model(*random_sets([0, 1, 4], features=3, generator=generator)).square().sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in model.parameters())


def test_a_pooling_may_change_the_number_of_features(generator):
    model = encoder(partial(SortPool, 2))
    assert model.context[0].in_features == model.outer[0].in_features == 2 * 6
    sets = random_sets([3, 0, 5], features=3, generator=generator)
    torch.testing.assert_close(model(*sets)[2], model(sets[0][2:])[0])


def test_gradient(generator):
    model = encoder(FSPool)
    elements = torch.randn(2, 3, 3, generator=generator, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[True, False, True], [False, True, False]])
    assert torch.autograd.gradcheck(lambda x: model(x, mask), elements)


@pytest.mark.slow
def test_compiles_and_runs_under_autocast(generator):
    elements, mask = random_sets([3, 1, 5], features=3, generator=generator)
    model = encoder(FSPool)
    expected = model(elements, mask)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(elements, mask), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model.float()(elements.float(), mask)
    torch.testing.assert_close(half.double(), expected, rtol=0.1, atol=0.3)


def test_is_finite_at_any_scale():
    assert_handles_scales(encoder(transforms=False).float(), features=3)


def test_rejects_bad_input():
    with pytest.raises(ValueError, match="elements must be floating point, got"):
        encoder()(torch.zeros(1, 2, 3).long())
    with pytest.raises(ValueError, match="mask must be bool"):
        encoder()(torch.zeros(1, 2, 3).double(), torch.ones(1, 2))
