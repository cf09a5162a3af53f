"""The counting module beside a straightforward implementation.

That one expands knots, gathers neighbours and forms all pairs of rows.

The gradient goes to the attention weights and the eight functions; boxes are data.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchsets.counting import Counter, box_iou
from torchsets.lab.benchmarks.harness import Case

Step = Callable[[], object]


def cases() -> list[Case]:
    """Many small sets, and a few large ones."""
    return [
        _case("1024 sets of 10 boxes", batch=1024, objects=10),
        _case("4 sets of 100 boxes", batch=4, objects=100),
    ]


def _case(name: str, *, batch: int, objects: int) -> Case:
    return Case(
        name,
        {
            "torchsets": lambda: _step(Counter(objects), batch, objects),
            "plain": lambda: _step(PlainCounter(objects), batch, objects),
        },
    )


def _step(counter: nn.Module, batch: int, objects: int) -> Step:
    generator = torch.Generator().manual_seed(0)
    corner = torch.rand(batch, objects, 2, generator=generator)
    boxes = torch.cat([corner, corner + 0.3], dim=-1)
    attention = torch.rand(batch, objects, generator=generator).requires_grad_()

    def step() -> object:
        attention.grad = None
        counter.zero_grad()
        counter(boxes, attention).square().sum().backward()
        return attention.grad

    return step


class PlainCounter(nn.Module):
    """The counting module as its formulas read: every pair of rows, every factor, kept."""

    def __init__(self, objects: int, pieces: int = 16) -> None:
        super().__init__()
        self.objects = objects
        self.weight = nn.Parameter(torch.ones(8, pieces))

    def forward(self, boxes: Tensor, attention: Tensor) -> Tensor:
        f1, f2, f3, f4, f5, f6, f7, f8 = (_PlainFunction(weight) for weight in self.weight)
        weights = attention.unsqueeze(2) * attention.unsqueeze(1)
        distances = 1 - box_iou(boxes)
        rows = f4(weights) * f5(distances)
        alike = f3(1 - (rows.unsqueeze(1) - rows.unsqueeze(2)).abs()).prod(dim=3)
        alike = alike * f3(1 - (attention.unsqueeze(1) - attention.unsqueeze(2)).abs())
        scale = 1 / alike.sum(dim=2)
        edges = f1(weights) * f2(distances) * scale.unsqueeze(1) * scale.unsqueeze(2)
        total = edges.sum(dim=(1, 2)) + (f1(attention.square()) * scale).sum(dim=1)
        count = (total + 1e-20).sqrt().clamp(0, self.objects).unsqueeze(1)
        number = torch.arange(self.objects + 1)
        features = (1 - (count - number).abs()).clamp(min=0)
        by_weight = (f6(attention) - 0.5).abs().mean(dim=1)
        by_distance = (f7(distances) - 0.5).abs().mean(dim=(1, 2))
        return f8(by_weight + by_distance).unsqueeze(1) * features


class _PlainFunction:
    """A monotone function with its knots expanded to every input and gathered there."""

    def __init__(self, weight: Tensor) -> None:
        rises = torch.cat([weight.new_zeros(1), weight.abs()])
        self.rises = rises / rises.sum()
        self.knots = self.rises.cumsum(0)

    def __call__(self, inputs: Tensor) -> Tensor:
        last = len(self.knots) - 1
        position = last * inputs.unsqueeze(-1)
        piece = position.detach().long()
        shape = (*inputs.shape, last + 1)
        left = self.knots.expand(shape).gather(-1, piece.clamp(max=last))
        rise = self.rises.expand(shape).gather(-1, (piece + 1).clamp(max=last))
        return (left + (position - piece) * rise).squeeze(-1)
