"""Questions about sets of objects, the thesis' sizes, batch 640: one training step.

The straightforward implementation has 10 slots for every set, concatenates the question to each
object, for the relation network to each of the 100 pairs, and masks at the end. The question's own
network is the same in all variants and takes no part here: its vector is given.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from torchsets.encoders import RelationNetwork
from torchsets.lab.benchmarks.harness import Case
from torchsets.lab.experiments.clevr.configs import AskScenes
from torchsets.lab.experiments.clevr.models import Answerer, PooledObjects
from torchsets.padded import lengths_to_mask

_BATCH, _SLOTS, _FEATURES = 640, 10, 7
_CONFIG = AskScenes()


def cases() -> list[Case]:
    """Relation network and FSPool beside the plain way, and FSPool beside sum pooling."""
    return [
        Case(
            f"{_BATCH} questions, 3 to 10 objects, relation network",
            {
                "torchsets": partial(_prepare, "rn", _ours),
                "plain": partial(_prepare, "rn", _plain_relations),
            },
        ),
        Case(
            f"{_BATCH} questions, 3 to 10 objects, FSPool",
            {
                "torchsets": partial(_prepare, "fspool", _ours),
                "plain": partial(_prepare, "fspool", _plain_objects),
                "torchsets, sum": partial(_prepare, "sum", _ours),
                "plain, sum": partial(_prepare, "sum", _plain_objects),
            },
        ),
    ]


Encode = Callable[[Answerer, Tensor, Tensor, Tensor], Tensor]


def _prepare(name: str, encode: Encode) -> Callable[[], object]:
    torch.manual_seed(0)
    model = Answerer(_CONFIG, name, features=_FEATURES, words=82, answers=28)
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(_BATCH, _SLOTS, _FEATURES, generator=generator)
    mask = lengths_to_mask(torch.randint(3, 11, (_BATCH,), generator=generator), size=_SLOTS)
    question = torch.randn(_BATCH, _CONFIG.question, generator=generator)

    def step() -> Tensor:
        model.zero_grad()
        loss = -model.answer(encode(model, states, mask, question))[:, 0].mean()
        loss.backward()
        return loss.detach()

    return step


def _ours(model: Answerer, states: Tensor, mask: Tensor, question: Tensor) -> Tensor:
    encoded: Tensor = model.objects(states, mask, question)
    return encoded


def _plain_objects(model: Answerer, states: Tensor, mask: Tensor, question: Tensor) -> Tensor:
    objects = cast(PooledObjects, model.objects)
    joint = torch.cat([states, question.unsqueeze(1).expand(-1, _SLOTS, -1)], dim=2)
    hidden = nn.functional.linear(joint, objects.first.weight, objects.first.bias).relu()
    pooled: Tensor = objects.pool(objects.inner(hidden), mask)
    return pooled


def _plain_relations(model: Answerer, states: Tensor, mask: Tensor, question: Tensor) -> Tensor:
    objects = cast(RelationNetwork, model.objects)
    first = states.unsqueeze(2).expand(-1, -1, _SLOTS, -1)
    second = states.unsqueeze(1).expand(-1, _SLOTS, -1, -1)
    asked = question[:, None, None, :].expand(-1, _SLOTS, _SLOTS, -1)
    joint = torch.cat([first, second, asked], dim=3)
    hidden = nn.functional.linear(joint, objects.first.weight, objects.first.bias).relu()
    pairs = objects.inner(hidden)
    real = mask.unsqueeze(2) & mask.unsqueeze(1)
    pooled: Tensor = (pairs * real.unsqueeze(3)).sum(dim=(1, 2))
    return pooled
