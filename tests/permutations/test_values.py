"""Orderings of other values than those that were compared."""

import pytest
import torch
from torch.nn.functional import pad

from torchsets.permutations import LinearAssignment, PairwiseCost, PermutationOptimiser
from torchsets.testing import (
    assert_handles_small_sets,
    assert_ignores_padding,
    assert_no_gradient_to_padding,
    assert_permutation_equivariant,
    assert_permutation_invariant,
    assert_sets_independent,
    random_sets,
)

SIZES = [3, 1, 5, 0]
WIDTH = 12  # more positions than any padding of the laws makes, so that results compare


def make(name):
    torch.manual_seed(0)
    linear = LinearAssignment(2, 5)
    if name == "LinAssign":
        return linear.double()
    start = linear if name == "PO-LA" else None
    model = PermutationOptimiser(PairwiseCost(2, 8), steps=3, initial=start).double()
    model.step_size.data.fill_(2.0)
    return model


MODELS = pytest.mark.parametrize("name", ["LinAssign", "PO-U", "PO-LA"])


@MODELS
def test_the_permutation_alone_is_that_of_the_ordered_set(name, generator):
    model = make(name)
    elements, mask = random_sets(SIZES, 2, generator)
    assert torch.equal(model.permute(elements, mask), model(elements, mask).permutation)
    whole = torch.randn(2, 4, 2, generator=generator, dtype=torch.float64)
    assert torch.equal(model.permute(whole), model(whole).permutation)


@MODELS
def test_values_move_with_the_elements_that_they_belong_to(name, generator):
    model = make(name)
    elements, mask = random_sets(SIZES, 2, generator)
    values = torch.randn(4, 5, 3, 1, 2, generator=generator, dtype=torch.float64)
    values[~mask] = float("nan")
    ordered = model(elements, mask, values=values)
    plain = model(elements, mask)
    assert torch.equal(ordered.permutation, plain.permutation)
    assert torch.equal(ordered.mask, plain.mask)
    expected = torch.einsum("bnk,bnxyz->bkxyz", plain.permutation, values.nan_to_num())
    torch.testing.assert_close(ordered.elements, expected)
    same = model(elements, mask, values=elements)
    assert torch.equal(same.elements, plain.elements)


@MODELS
def test_ordered_values_obey_the_laws(name, generator):
    model = make(name)

    def ordered(both, mask):  # features 0 and 1 are compared, feature 2 is ordered
        result = model(both[..., :2], mask, values=both[..., 2:])
        extra = WIDTH - both.shape[1]
        return pad(result.elements, (0, 0, 0, extra)), pad(result.mask, (0, extra))

    elements, mask = random_sets(SIZES, 3, generator)
    assert_permutation_invariant(ordered, elements, mask)
    assert_ignores_padding(ordered, elements, mask)
    assert_no_gradient_to_padding(ordered, elements, mask)
    assert_sets_independent(ordered, elements, mask)
    assert_handles_small_sets(ordered, 3)


@MODELS
def test_the_permutation_obeys_the_equivariant_laws(name, generator):
    model = make(name)

    def permutation(elements, mask):
        return pad(model.permute(elements, mask), (0, WIDTH - elements.shape[1]))

    elements, mask = random_sets(SIZES, 2, generator)
    assert_permutation_equivariant(permutation, elements, mask)
    assert_ignores_padding(permutation, elements, mask, equivariant=True)
    assert_no_gradient_to_padding(permutation, elements, mask)
    assert_sets_independent(permutation, elements, mask)


@MODELS
def test_gradients_reach_values_and_weights_under_nan_padding(name, generator):
    model = make(name)
    elements, mask = random_sets(SIZES, 2, generator)
    values = elements.detach().clone().requires_grad_()
    model(elements, mask, values=values).elements.square().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    assert torch.isfinite(values.grad).all()
    assert (values.grad[~mask] == 0).all()


def test_pictures_are_ordered_on_a_grid(generator):
    torch.manual_seed(0)
    model = PermutationOptimiser(PairwiseCost(7, 8, outputs=2), grid=(2, 3)).double()
    features = torch.randn(4, 6, 7, generator=generator, dtype=torch.float64)
    tiles = torch.randn(4, 6, 3, 5, 5, generator=generator, dtype=torch.float64)
    ordered = model(features, values=tiles)
    assert ordered.elements.shape == tiles.shape
    position = ordered.permutation[1, :, 4]
    torch.testing.assert_close(
        ordered.elements[1, 4], (position.view(6, 1, 1, 1) * tiles[1]).sum(dim=0)
    )


@MODELS
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (torch.zeros(2, 4, 3).long(), "values must be floating point"),
        (torch.zeros(2, 3, 3), r"values must have shape \(2, 4, \.\.\.\) to match elements"),
        (torch.zeros(2, 4), r"values must have shape \(2, 4, \.\.\.\) .* got \(2, 4\)"),
    ],
)
def test_rejects_bad_values(name, values, message):
    with pytest.raises(ValueError, match=message):
        make(name)(torch.zeros(2, 4, 2, dtype=torch.float64), values=values)
