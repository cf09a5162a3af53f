"""The networks that answer questions about sets of objects."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchsets.encoders import JanossyPooling, RelationNetwork
from torchsets.lab.experiments.clevr.configs import QUESTION_ONLY, AskScenes
from torchsets.mlp import ContextLinear
from torchsets.pooling import FSPool, MaxPool, MeanPool, SumPool
from torchsets.text import QuestionEncoder

Pooling = FSPool | SumPool | MeanPool | MaxPool
SLOTS = 12
"""The thesis' sets have so many slots: mean and max are scaled by it to be as large as sums."""


class Batch(NamedTuple):
    """Questions, each with the objects of its scene.

    Attributes:
        states: The objects, (B, N, D), padded.
        mask: Which of them are real, (B, N).
        words: The words of the questions, (B, T), padded.
        lengths: How many there are, (B,).
        answers: The number of the right answer, (B,).
    """

    states: Tensor
    mask: Tensor
    words: Tensor
    lengths: Tensor
    answers: Tensor


class Answerer(nn.Module):
    """Encode the question, then the set of objects in its light, then answer.

    Args:
        config: Sizes of the layers.
        model: A name of ``ROWS``.
        features: Of an object.
        words: Number of different words.
        answers: Number of different answers.
    """

    def __init__(
        self, config: AskScenes, model: str, *, features: int, words: int, answers: int
    ) -> None:
        super().__init__()
        hidden, size = config.hidden, config.question
        self.orders = config.orders
        self.question = QuestionEncoder(
            words, embedding=config.embedding, hidden=size, reverse=True
        )
        later = [layer for _ in range(3) for layer in (nn.Linear(hidden, hidden), nn.ReLU())]
        self.objects: nn.Module
        if model == QUESTION_ONLY:
            self.objects = NoObjects(size, hidden)
        elif model == "rn":
            inner = nn.Sequential(*later)
            self.objects = RelationNetwork(features, hidden, inner, SumPool(), context=size)
        elif model == "janossy":
            self.objects = OrderedObjects(ContextLinear(features, size, hidden), *later)
        else:
            pool, scale = _POOLINGS[model]
            first = ContextLinear(features, size, hidden)
            self.objects = PooledObjects(first, nn.Sequential(*later), pool(hidden), scale=scale)
        self.answer = nn.Sequential(
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 2 * hidden),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(2 * hidden, answers),
            nn.LogSoftmax(dim=-1),
        )

    def forward(self, batch: Batch) -> Tensor:
        """The logarithm of the probability of each answer, (B, answers).

        Janossy pooling averages it over several orders of the objects in evaluation mode.
        """
        question = self.question(batch.words, batch.lengths)
        if isinstance(self.objects, OrderedObjects):
            orders = 1 if self.training else self.orders
            by_order = self.objects(batch.states, batch.mask, question, orders=orders)
            return torch.stack([self.answer(vector) for vector in by_order]).mean(dim=0)
        result: Tensor = self.answer(self.objects(batch.states, batch.mask, question))
        return result


class PooledObjects(nn.Module):
    """Layers on each object together with the question, and a pooling. Only real ones are read."""

    def __init__(
        self,
        first: ContextLinear,
        inner: nn.Module,
        pool: Pooling,
        *,
        scale: float,
    ) -> None:
        super().__init__()
        self.first, self.inner, self.pool, self.scale = first, inner, pool, scale

    def forward(self, states: Tensor, mask: Tensor, question: Tensor) -> Tensor:
        states = states.masked_fill(~mask.unsqueeze(-1), 0)
        real = self.first(states, question)[mask].relu_()  # (total, H)
        return self.scale * self.pool.pool_flat(self.inner(real), mask.sum(dim=1))


class NoObjects(nn.Module):
    """A layer on the question: what can be answered without looking."""

    def __init__(self, question: int, hidden: int) -> None:
        super().__init__()
        self.layer = nn.Linear(question, hidden)

    def forward(self, states: Tensor, mask: Tensor, question: Tensor) -> Tensor:
        vector: Tensor = self.layer(question).relu()
        return vector


class OrderedObjects(nn.Module):
    """The same layers, and an LSTM that reads the objects in random orders."""

    def __init__(self, first: ContextLinear, *later: nn.Module) -> None:
        super().__init__()
        hidden = first.weight.shape[0]
        self.first, self.inner = first, nn.Sequential(*later)
        self.pool = JanossyPooling(nn.LSTM(hidden, hidden, batch_first=True), state="cell")

    def forward(self, states: Tensor, mask: Tensor, question: Tensor, *, orders: int) -> Tensor:
        """One vector for each order and set, (orders, B, H)."""
        states = states.masked_fill(~mask.unsqueeze(-1), 0)
        features = self.inner(self.first(states, question).relu_())
        return self.pool.vectors_by_order(features, mask, orders=orders)


def function_shapes(weight: Tensor, *, size: int = 10) -> dict[str, int]:
    """Count FSPool's weight functions (D, pieces + 1) by what they do with ``size`` elements.

    unused: all weights below 0.01. sum: they differ by at most a fifth of their mean. max and min:
    at least 0.8 of all weight is on the first or last rank.
    """
    positions = torch.linspace(0, weight.shape[1] - 1, size)
    low = positions.floor().long().clamp(max=weight.shape[1] - 2)
    share = positions - low
    functions = weight.detach().cpu()
    values = functions[:, low] * (1 - share) + functions[:, low + 1] * share  # (D, size)
    total, mean = values.abs().sum(dim=1), values.mean(dim=1)
    unused = values.abs().amax(dim=1) < 0.01
    sums = ((values - mean.unsqueeze(1)).abs().amax(dim=1) <= 0.2 * mean.abs()) & ~unused
    largest = (values[:, 0].abs() >= 0.8 * total) & ~unused
    smallest = (values[:, -1].abs() >= 0.8 * total) & ~unused
    counts = {"unused": unused, "sum": sums, "max": largest, "min": smallest}
    found = {name: int(which.sum()) for name, which in counts.items()}
    return {**found, "other": len(values) - sum(found.values())}


_POOLINGS: dict[str, tuple[Callable[[int], Pooling], float]] = {
    "fspool": (partial(FSPool, pieces=20, init="ones"), 1.0),
    "sum": (lambda features: SumPool(), 1.0),
    "mean": (lambda features: MeanPool(), float(SLOTS)),
    "max": (lambda features: MaxPool(), float(SLOTS)),
}
