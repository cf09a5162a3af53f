import pytest
import torch
from torch import nn

from torchsets.lab.experiments.sorting.configs import SortNumbers
from torchsets.lab.experiments.sorting.models import (
    TrueGradientOptimiser,
    build_model,
    learned_cost,
    permutations_by_step,
)
from torchsets.lab.experiments.sorting.numbers import draw_sets
from torchsets.permutations import PairwiseCost, PermutationOptimiser


@pytest.mark.parametrize("bias", [True, False])
def test_without_bias_wider_intervals_are_sorted_in_the_same_way(bias):
    torch.manual_seed(0)
    model = build_model(SortNumbers(hidden_bias=bias), "po-u", 5).double()
    for parameter in model.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter)
    sets = draw_sets(7, 5, (0, 1), seed=0)
    same = torch.allclose(model(sets).permutation, model(1000 * sets).permutation)
    assert same == (not bias)


def test_the_true_gradient_model_matches_the_function():
    torch.manual_seed(0)
    cost = PairwiseCost(1, 4)
    sets = torch.rand(2, 5, 1)
    usual = PermutationOptimiser(cost, steps=0)(sets)
    true = TrueGradientOptimiser(cost, steps=0)(sets)
    torch.testing.assert_close(true, usual)
    assert not torch.allclose(
        TrueGradientOptimiser(cost, steps=3)(sets).elements,
        PermutationOptimiser(cost, steps=3)(sets).elements,
    )


@pytest.mark.parametrize(
    ("kind", "through"), [(PermutationOptimiser, False), (TrueGradientOptimiser, True)]
)
def test_the_last_step_is_what_the_model_returns(kind, through):
    torch.manual_seed(0)
    model = kind(PairwiseCost(1, 4), steps=3)
    sets = torch.rand(2, 5, 1)
    softs = permutations_by_step(model, sets, 3, through_sinkhorn=through)
    assert len(softs) == 4
    torch.testing.assert_close(softs[0], torch.full((2, 5, 5), 0.2))
    torch.testing.assert_close(softs[-1], model(sets).permutation.detach())


def test_a_cost_that_is_no_comparison_is_refused():
    model = PermutationOptimiser(lambda elements, mask: elements @ elements.mT)
    with pytest.raises(TypeError, match="model must have a PairwiseCost, got function"):
        learned_cost(model)
