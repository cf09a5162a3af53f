"""Permutation-optimisation of random numbers, T = 6, 16 hidden units: one training step.

The straightforward implementation concatenates all pairs, evaluates f on them and on the swapped
ones, rewrites the N x N matrix in each normalisation, and multiplies P and X elementwise before
summing.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.lab.benchmarks.harness import Case
from torchsets.permutations import PairwiseCost, PermutationOptimiser

_STEPS, _HIDDEN = 6, 16
_SIZES = {10: 512, 100: 32, 512: 4, 1024: 1}  # elements: sets in the batch


def cases() -> list[Case]:
    """One case for each set size."""
    return [
        Case(
            f"{sets} sets of {size}",
            {
                "torchsets": partial(_prepare, _torchsets, sets, size),
                "plain": partial(_prepare, _Plain, sets, size),
            },
        )
        for size, sets in _SIZES.items()
    ]


def _prepare(build: Callable[[], nn.Module], sets: int, size: int) -> Callable[[], object]:
    model = build()
    generator = torch.Generator().manual_seed(0)
    elements = torch.rand(sets, size, 1, generator=generator)
    target = elements.sort(dim=1).values

    def step() -> Tensor:
        model.zero_grad()
        output = model(elements)
        ordered: Tensor = output if isinstance(output, Tensor) else output.elements
        loss = (ordered - target).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        return loss.detach()

    return step


def _torchsets() -> nn.Module:
    torch.manual_seed(0)
    return PermutationOptimiser(PairwiseCost(1, _HIDDEN), steps=_STEPS)


class _Plain(nn.Module):
    """PO-U as one writes it down from the paper."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.compare = PairwiseCost(1, _HIDDEN).compare
        self.step_size = nn.Parameter(torch.ones(()))

    def forward(self, elements: Tensor) -> Tensor:
        size = elements.shape[1]
        first = elements.unsqueeze(2).expand(-1, -1, size, -1)
        second = elements.unsqueeze(1).expand(-1, size, -1, -1)
        costs = self.compare(torch.cat([first, second], dim=3)).squeeze(3)
        costs = costs - self.compare(torch.cat([second, first], dim=3)).squeeze(3)
        costs = costs / costs.norm(dim=(1, 2), keepdim=True)
        scores = torch.zeros_like(costs)
        for _ in range(_STEPS):
            scores = scores - self.step_size.abs() * _plain_gradient(_plain_sinkhorn(scores), costs)
        permutation = _plain_sinkhorn(scores)
        return (permutation.unsqueeze(3) * elements.unsqueeze(2)).sum(dim=1)


def _plain_sinkhorn(scores: Tensor) -> Tensor:
    soft = scores.softmax(dim=2)
    for _ in range(4):
        soft = soft / soft.sum(dim=2, keepdim=True)
        soft = soft / soft.sum(dim=1, keepdim=True)
    return soft


def _plain_gradient(soft: Tensor, costs: Tensor) -> Tensor:
    until = soft.cumsum(dim=2)
    later = soft.sum(dim=2, keepdim=True) - until
    earlier = until - soft
    return 2 * costs @ (later - earlier)
