"""Orderings: from a set to a list."""

from torchsets.permutations.assignment import hard_permutation
from torchsets.permutations.cost import ordering_cost
from torchsets.permutations.gumbel import GumbelSinkhorn
from torchsets.permutations.linear import LinearAssignment
from torchsets.permutations.optimiser import PermutationOptimiser, optimise_permutation
from torchsets.permutations.ordered_sets import OrderedSets
from torchsets.permutations.pairwise import PairwiseCost
from torchsets.permutations.sinkhorn import sinkhorn
from torchsets.permutations.ties import rank_equal, tie_tags
from torchsets.sorting import neural_sort

__all__ = [
    "GumbelSinkhorn",
    "LinearAssignment",
    "OrderedSets",
    "PairwiseCost",
    "PermutationOptimiser",
    "hard_permutation",
    "neural_sort",
    "optimise_permutation",
    "ordering_cost",
    "rank_equal",
    "sinkhorn",
    "tie_tags",
]
