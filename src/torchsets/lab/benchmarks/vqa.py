"""Visual question answering: what the counting module and PO-U add to a training step.

Soft attention with and without the counting module, and BAN with and without a reader of the
proposals: forward and backward pass and the step of the optimiser. The thesis' layer sizes with 32
questions about 36 proposals, and the sizes of the experiments' scale cpu.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchsets.encoders import ProposalReader
from torchsets.lab.benchmarks.harness import Case
from torchsets.lab.experiments.vqa.configs import COUNT_VQA, ORDER_VQA, CountVQA, OrderVQA
from torchsets.lab.experiments.vqa.models import (
    BANNet,
    CounterFeatures,
    SoftAttentionNet,
    VQABatch,
    ban_loss,
    soft_answer_loss,
)

_SHORTEST = 3  # words of a question


class _Sizes(NamedTuple):
    """Of the data; those of the networks are in the configurations."""

    name: str
    scale: str
    batch: int | None  # None: that of the configuration
    proposals: tuple[int, int]
    features: int
    words: int
    longest: int  # words of a question
    answers: int


_THESIS = _Sizes("the thesis' layers, 36 proposals", "full", 32, (36, 36), 2048, 13_758, 14, 3000)
_CPU = _Sizes("scale cpu, 20 to 40 proposals", "cpu", None, (20, 40), 64, 26, 6, 19)


def cases() -> list[Case]:
    """Soft attention and BAN, at two sizes."""
    return [
        case
        for sizes in (_THESIS, _CPU)
        for case in (
            Case(
                f"soft attention with the counting module, {sizes.name}",
                {
                    "torchsets": partial(_prepare_count, sizes, counting=True),
                    "without counting": partial(_prepare_count, sizes, counting=False),
                },
            ),
            Case(
                f"BAN with PO-U, {sizes.name}",
                {
                    "torchsets": partial(_prepare_order, sizes, "po-u"),
                    "LSTM alone": partial(_prepare_order, sizes, "lstm"),
                    "BAN alone": partial(_prepare_order, sizes, "ban"),
                },
            ),
        )
    ]


def _prepare_count(sizes: _Sizes, *, counting: bool) -> Callable[[], object]:
    config: CountVQA = COUNT_VQA.config_at(sizes.scale)
    torch.manual_seed(0)
    model = SoftAttentionNet(
        sizes.words,
        sizes.answers,
        features=sizes.features,
        embedding=config.embedding,
        question=config.question,
        attention=config.attention,
        hidden=config.hidden,
        count=CounterFeatures(config.objects) if counting else None,
        dropout=config.dropout,
    )
    batch, counts = _draw(sizes, sizes.batch or config.batch_size)
    optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    return _step(model, optimiser, lambda: soft_answer_loss(model(batch), counts))


def _prepare_order(sizes: _Sizes, name: str) -> Callable[[], object]:
    config: OrderVQA = ORDER_VQA.config_at(sizes.scale)
    torch.manual_seed(0)
    reader = None
    if name != "ban":
        compared = config.compared if name == "po-u" else None
        reader = ProposalReader(
            sizes.features, outputs=config.read, compared=compared, steps=config.inner_steps
        )
    model = BANNet(
        sizes.words,
        sizes.answers,
        features=sizes.features,
        embedding=config.embedding,
        hidden=config.hidden,
        glimpses=config.glimpses,
        objects=config.objects,
        reader=reader,
        dropout=(config.dropout, config.late_dropout, config.late_dropout),
    )
    batch, counts = _draw(sizes, sizes.batch or config.batch_size)
    optimiser = torch.optim.Adamax(model.parameters(), lr=config.learning_rate)
    return _step(model, optimiser, lambda: ban_loss(model(batch), counts / 10), clip=config.clip)


def _step(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    compute: Callable[[], Tensor],
    *,
    clip: float | None = None,
) -> Callable[[], object]:
    def step() -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        loss = compute()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        return loss.detach()

    return step


def _draw(sizes: _Sizes, batch: int) -> tuple[VQABatch, Tensor]:
    """Random questions and proposals, and how many people gave each answer."""
    generator = torch.Generator().manual_seed(0)
    low, high = sizes.proposals
    count = torch.randint(low, high + 1, (batch, 1), generator=generator)
    mask = torch.arange(high) < count
    lengths = torch.randint(_SHORTEST, sizes.longest + 1, (batch,), generator=generator)
    tokens = torch.randint(1, sizes.words + 1, (batch, sizes.longest), generator=generator)
    features = torch.randn(batch, high, sizes.features, generator=generator)
    corner = 0.7 * torch.rand(batch, high, 2, generator=generator)
    side = 0.1 + 0.2 * torch.rand(batch, high, 2, generator=generator)
    boxes = torch.cat([corner, corner + side], dim=2)
    chosen = torch.randint(sizes.answers, (batch, 10), generator=generator)
    counts = torch.zeros(batch, sizes.answers).scatter_add_(1, chosen, torch.ones(batch, 10))
    return VQABatch(tokens, lengths, features, boxes, mask), counts
