"""FSPool over the nodes of graphs: flat, padded, by size, and with two stable sorts of torch."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.lab.benchmarks.harness import Case, Step
from torchsets.padded import SetBatch
from torchsets.pooling import by_size, fspool, fspool_flat

POINTS = 6
Function = Callable[[Tensor, Tensor, Tensor], Tensor]


def cases() -> list[Case]:
    """A batch like one of REDDIT-BINARY, one like PROTEINS, and one with equal sizes."""
    batches = {
        "REDDIT-like, 32 graphs, 14000 nodes, 64 features": (reddit_sizes(), 64),
        "PROTEINS-like, 32 graphs, one of 620 nodes, 32 features": (proteins_sizes(), 32),
        "equal, 32 graphs of 342 nodes, 64 features": (torch.full((32,), 342), 64),
    }
    return [
        Case(
            f"FSPool {name}, forward + backward",
            {
                "torchsets": partial(_prepare, fspool_flat, sizes, features),
                "torchsets, padded": partial(_prepare, padded_fspool, sizes, features),
                "torchsets, by size": partial(_prepare, grouped_fspool, sizes, features),
                "plain: two stable sorts": partial(_prepare, plain_fspool, sizes, features),
            },
        )
        for name, (sizes, features) in batches.items()
    ]


def reddit_sizes() -> Tensor:
    """32 sizes with a long tail that add up to 14000."""
    spread = torch.randn(32, generator=torch.Generator().manual_seed(0)).exp()
    sizes = (spread * (14000 / spread.sum())).long()
    sizes[0] += 14000 - sizes.sum()
    return sizes


def proteins_sizes() -> Tensor:
    """31 sizes around 39, and one of 620."""
    sizes = torch.randint(10, 69, (32,), generator=torch.Generator().manual_seed(0))
    sizes[7] = 620
    return sizes


def padded_fspool(values: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """Pad all sets to the largest."""
    elements, mask = SetBatch.from_flat(values, sizes)
    return fspool(elements, weight, mask)


def grouped_fspool(values: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """Pad sets of similar size together."""
    return by_size(_Pool(weight))(values, sizes)


def plain_fspool(values: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """Sort by value, then stably by set, and weight the ranks, as one writes it first."""
    numbers = torch.arange(len(sizes)).repeat_interleave(sizes)
    order = values.argsort(dim=0, descending=True, stable=True)
    order = order.gather(0, numbers[order].argsort(dim=0, stable=True))
    ranked = values.gather(0, order)
    rank = torch.arange(len(values)) - (sizes.cumsum(0) - sizes)[numbers]
    position = rank / (sizes[numbers] - 1).clamp(min=1) * (weight.shape[1] - 1)
    left = position.long().clamp(max=weight.shape[1] - 2)
    along = (position - left).unsqueeze(1)
    weights = (1 - along) * weight.t()[left] + along * weight.t()[left + 1]
    pooled = values.new_zeros(len(sizes), values.shape[1])
    return pooled.index_add(0, numbers, ranked * weights)


def _prepare(function: Function, sizes: Tensor, features: int) -> Step:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(int(sizes.sum()), features, generator=generator, requires_grad=True)
    weight = torch.randn(features, POINTS, generator=generator, requires_grad=True)

    def step() -> None:
        torch.autograd.grad(function(values, sizes, weight).sum(), (values, weight))

    return step


class _Pool(nn.Module):
    """FSPool with weights that come from outside."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        return fspool(elements, self.weight, mask)
