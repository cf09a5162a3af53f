"""Training steps of the small MNIST classifier: FSPool beside the plain poolings.

A step draws and pads 16 sets of points with noise, as an epoch of ``mnist-classify`` does. The sets
are made up, with about the sizes of MNIST's (mean 133, 32 to 342), so that no download is needed.
"""

from collections.abc import Callable
from functools import partial
from itertools import count

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torchsets.data import add_noise
from torchsets.encoders import DeepSets
from torchsets.lab.benchmarks.fspool import POINTS, plain_fspool
from torchsets.lab.benchmarks.harness import Case, Step
from torchsets.mlp import MLP, glorot_
from torchsets.pooling import FSPool, MaxPool, MeanPool, SumPool
from torchsets.sets import Sets

_SETS, _BATCH, _STEPS = 512, 16, 8


class _PlainFSPool(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, POINTS))

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        return plain_fspool(elements, self.weight, mask)


def cases() -> list[Case]:
    """Eight training steps with each pooling."""
    return [
        Case(
            f"{_STEPS} training steps of the MNIST classifier, batch {_BATCH}, hidden 32",
            {
                "torchsets": partial(_prepare, lambda: FSPool(32)),
                "plain: FSPool with sort, gather, multiply, sum": partial(_prepare, _PlainFSPool),
                "limit: sum pooling": partial(_prepare, SumPool),
                "limit: mean pooling": partial(_prepare, MeanPool),
                "limit: max pooling": partial(_prepare, MaxPool),
            },
        )
    ]


def _prepare(pool: Callable[[], nn.Module]) -> Step:
    generator = torch.Generator().manual_seed(0)
    sizes = (133 + 42 * torch.randn(_SETS, generator=generator)).round().long().clamp(32, 342)
    values = torch.rand(int(sizes.sum()), 2, generator=generator)
    sets, labels = Sets(values, sizes), torch.randint(10, (_SETS,), generator=generator)
    torch.manual_seed(0)
    encoder = DeepSets(MLP(2, 32, 32), pool(), MLP(32, 32, 16))
    classifier = MLP(16, 16, 10)
    model = glorot_(nn.ModuleList([encoder, classifier]))
    optimiser = torch.optim.Adam(model.parameters(), fused=True)
    numbers = count()

    def step() -> None:
        for _ in range(_STEPS):
            start = next(numbers) * _BATCH % _SETS
            chosen = torch.arange(start, start + _BATCH)
            batch = add_noise(sets.batch(chosen), 0.05, generator=generator)
            scores = classifier(encoder(*batch))
            loss = cross_entropy(scores, labels[chosen])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
            optimiser.step()

    return step
