"""The models that sort numbers."""

import torch
from torch import Tensor, nn

from torchsets.lab.experiments.sorting.configs import SortNumbers
from torchsets.permutations import (
    LinearAssignment,
    OrderedSets,
    PairwiseCost,
    PermutationOptimiser,
    optimise_permutation,
)


class TrueGradientOptimiser(nn.Module):
    """PO-U that follows the true gradient through Sinkhorn, for the comparison of entropies."""

    def __init__(self, cost: PairwiseCost, *, steps: int) -> None:
        super().__init__()
        self.cost = cost
        self.steps = steps
        self.step_size = nn.Parameter(torch.ones(()))

    def forward(self, elements: Tensor) -> OrderedSets:
        permutation = optimise_permutation(
            self.cost(elements), steps=self.steps, step_size=self.step_size, through_sinkhorn=True
        )
        real = torch.ones(elements.shape[:2], dtype=torch.bool, device=elements.device)
        return OrderedSets(permutation.mT @ elements, permutation, real)


Optimiser = PermutationOptimiser | TrueGradientOptimiser  # has a cost and a step size
Sorter = Optimiser | LinearAssignment


def build_model(config: SortNumbers, name: str, size: int) -> Sorter:
    """Return an untrained model of the table."""
    if name == "linear":
        return LinearAssignment(1, size)
    return PermutationOptimiser(build_cost(config), steps=config.inner_steps)


def build_rival(config: SortNumbers) -> TrueGradientOptimiser:
    """Return the untrained model that follows the true gradient."""
    return TrueGradientOptimiser(build_cost(config), steps=config.inner_steps)


def build_cost(config: SortNumbers) -> PairwiseCost:
    """Return an untrained comparison."""
    cost = PairwiseCost(1, config.hidden)
    cost.get_parameter("compare.0.bias").requires_grad_(config.hidden_bias)  # it starts at 0
    return cost


def learned_cost(model: Optimiser) -> PairwiseCost:
    """Return the comparison of a model, whose type allows for others."""
    if not isinstance(model.cost, PairwiseCost):
        raise TypeError(f"model must have a PairwiseCost, got {type(model.cost).__name__}")
    return model.cost


@torch.no_grad()
def permutations_by_step(
    model: Optimiser, numbers: Tensor, steps: int, *, through_sinkhorn: bool = False
) -> list[Tensor]:
    """The permutations of numbers (B, N, 1) before the first and after each inner step."""
    costs = learned_cost(model)(numbers)
    return [
        optimise_permutation(
            costs, steps=step, step_size=model.step_size, through_sinkhorn=through_sinkhorn
        ).cpu()
        for step in range(steps + 1)
    ]
