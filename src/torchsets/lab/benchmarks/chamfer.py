"""Chamfer loss beside the dense way: all differences, all costs, two minima."""

from collections.abc import Callable

import torch
from torch import Tensor

from torchsets.lab.benchmarks.harness import Case
from torchsets.losses import chamfer_loss

Step = Callable[[], object]
Loss = Callable[[Tensor, Tensor], Tensor]


def cases() -> list[Case]:
    """A batch as in the MNIST experiments, all steps of DSPN at once, and two point clouds."""
    clouds = Case(
        "2 clouds of 100000 points, 3 features (dense: 120 GB, not run)",
        {"torchsets": lambda: _step(chamfer_loss, (1, 1, 100_000, 3))},
    )
    return [
        _case("(32, 342, 2)", (1, 32, 342, 2)),
        _case("11 steps of (32, 342, 2)", (11, 32, 342, 2)),
        clouds,
    ]


def _case(name: str, shape: tuple[int, int, int, int]) -> Case:
    return Case(
        name,
        {
            "torchsets": lambda: _step(chamfer_loss, shape),
            "plain": lambda: _step(_dense_chamfer, shape),
        },
    )


def _step(loss: Loss, shape: tuple[int, int, int, int]) -> Step:
    generator = torch.Generator().manual_seed(0)
    prediction = torch.rand(shape, generator=generator).requires_grad_()
    target = torch.rand(shape[1:], generator=generator)

    def step() -> object:
        return torch.autograd.grad(loss(prediction, target).sum(), prediction)

    return step


def _dense_chamfer(prediction: Tensor, target: Tensor) -> Tensor:
    difference = prediction.unsqueeze(-2) - target.unsqueeze(-3)  # (S, B, N, M, D)
    cost = difference.square().sum(dim=-1)
    return cost.amin(dim=-1).sum(dim=-1) + cost.amin(dim=-2).sum(dim=-1)
