"""Questions about sets of objects, the thesis' sizes, batch 640: one training step.

The straightforward implementation has 10 slots for every set, concatenates the question to each
object, for the relation network to each of the 100 pairs, and masks at the end. It reads the
questions, of 7 to 31 words, up to the longest one. The network that reads the questions is part of
the step; "objects alone" has their vectors given.
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
from torchsets.text import QuestionEncoder

_BATCH, _SLOTS, _FEATURES, _WORDS = 640, 10, 7, 82
_CONFIG = AskScenes()


def cases() -> list[Case]:
    """Relation network and FSPool beside the plain way, and FSPool beside sum pooling."""
    return [
        Case(
            f"{_BATCH} questions, 3 to 10 objects, {label}{', objects alone' * alone}",
            {
                f"{way}{suffix}": partial(_prepare, name, encode, alone, way == "torchsets")
                for name, suffix, plain in models
                for way, encode in (("torchsets", _ours), ("plain", plain))
            },
        )
        for alone in (False, True)
        for label, models in (
            ("relation network", [("rn", "", _plain_relations)]),
            ("FSPool", [("fspool", "", _plain_objects), ("sum", ", sum", _plain_objects)]),
        )
    ]


Encode = Callable[[Answerer, Tensor, Tensor, Tensor], Tensor]


def _prepare(name: str, encode: Encode, alone: bool, grouped: bool) -> Callable[[], object]:
    torch.manual_seed(0)
    model = Answerer(_CONFIG, name, features=_FEATURES, words=_WORDS, answers=28)
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(_BATCH, _SLOTS, _FEATURES, generator=generator)
    mask = lengths_to_mask(torch.randint(3, 11, (_BATCH,), generator=generator), size=_SLOTS)
    given = torch.randn(_BATCH, _CONFIG.question, generator=generator)
    lengths = torch.randint(7, 32, (_BATCH,), generator=generator)
    words = torch.randint(1, _WORDS + 1, (_BATCH, int(lengths.max())), generator=generator)

    def step() -> Tensor:
        model.zero_grad()
        question = given
        if not alone:
            read = model.question if grouped else partial(_plain_question, model.question)
            question = read(words, lengths)
        loss = -model.answer(encode(model, states, mask, question))[:, 0].mean()
        loss.backward()
        return loss.detach()

    return step


def _plain_question(encoder: QuestionEncoder, words: Tensor, lengths: Tensor) -> Tensor:
    places = lengths.unsqueeze(1) - 1 - torch.arange(words.shape[1])
    states: Tensor = encoder.recurrent(encoder.embedding(words.gather(1, places.clamp(min=0))))[0]
    return states[torch.arange(len(words)), lengths - 1]


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
