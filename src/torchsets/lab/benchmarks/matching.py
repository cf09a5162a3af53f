"""Linear assignment beside a loop over the batch with scipy.

The costs are drawn uniformly, or are squared distances between points, which are harder.
"""

from collections.abc import Callable

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from torchsets import matching
from torchsets.lab.benchmarks.harness import Case
from torchsets.losses.elements import cost_matrix

Step = Callable[[], object]
SHAPES = [(512, 10), (32, 100), (32, 342), (4, 1024)]


def cases() -> list[Case]:
    """Many small problems to a few large ones, each with both kinds of costs."""
    return [_case(sets, size, kind) for sets, size in SHAPES for kind in ("uniform", "distances")]


def _case(sets: int, size: int, kind: str) -> Case:
    return Case(
        f"({sets}, {size}, {size}), {kind}",
        {
            "torchsets": lambda: _assign(_costs(sets, size, kind), use_lapx=matching._USE_LAPX),
            "plain": lambda: _loop(_costs(sets, size, kind)),
            "torchsets, scipy only": lambda: _assign(_costs(sets, size, kind), use_lapx=False),
        },
    )


def _costs(sets: int, size: int, kind: str) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    if kind == "uniform":
        return torch.rand(sets, size, size, generator=generator)
    points, others = torch.rand(2, sets, size, 2, generator=generator)
    return cost_matrix("squared", points, others)


def _assign(cost: Tensor, *, use_lapx: bool) -> Step:
    def step() -> object:
        before = matching._USE_LAPX
        matching._USE_LAPX = use_lapx
        try:
            return matching.assign(cost)
        finally:
            matching._USE_LAPX = before

    return step


def _loop(cost: Tensor) -> Step:
    def step() -> object:
        columns = [torch.from_numpy(linear_sum_assignment(one)[1]) for one in cost.cpu().numpy()]
        return torch.stack(columns)

    return step
