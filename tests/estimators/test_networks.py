import pytest
import torch

from torchsets.estimators.networks import POOLINGS, SetNetwork
from torchsets.testing import (
    assert_ignores_padding,
    assert_permutation_invariant,
    assert_sets_independent,
    random_sets,
)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize(
    "law", [assert_permutation_invariant, assert_ignores_padding, assert_sets_independent]
)
def test_obeys_law(law, pooling, generator):
    network = SetNetwork(3, 2, pooling=pooling, hidden=8).double()
    law(network, *random_sets([3, 0, 5, 1], features=3, generator=generator))


def test_the_size_of_a_set_counts(generator):
    torch.manual_seed(0)
    network = SetNetwork(2, 1, pooling="mean", hidden=8).double()
    elements, mask = random_sets([1], features=2, generator=generator)
    twice = elements.repeat(1, 2, 1), mask.repeat(1, 2)  # the same mean
    assert (network(elements, mask) - network(*twice)).abs().max() > 1e-3


def test_an_unknown_pooling_is_named():
    with pytest.raises(ValueError, match=r"pooling must be one of fspool, .* got 'median'"):
        SetNetwork(3, 2, pooling="median")
