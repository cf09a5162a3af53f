"""FSPool, exact and relaxed, forward and backward, beside torch.sort and max pooling."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from torchsets.decoders import FSPoolAutoEncoder
from torchsets.lab.benchmarks.harness import Case, Step
from torchsets.pooling import fspool, max_pool

POINTS = 21


def cases() -> list[Case]:
    """Ragged batches of three shapes, and a step of the relaxed auto-encoder."""
    pooling = [
        Case(
            f"FSPool {shape}, ragged, forward + backward",
            {
                "torchsets": partial(_prepare, fspool, shape),
                "plain: sort, gather, multiply, sum": partial(_prepare, plain_fspool, shape),
                "limit: one torch.sort, forward": partial(_prepare_sort, shape),
                "limit: masked max pooling": partial(_prepare, _max, shape),
            },
        )
        for shape in ((32, 342, 64), (32, 342, 256), (8, 10000, 64))
    ]
    relaxed = Case(
        "relaxed auto-encoder step, batch 8, 342 points, 32 features",
        {
            "torchsets": partial(_prepare_auto_encoder, FSPoolAutoEncoder),
            "plain: n x n differences, matmul": partial(_prepare_auto_encoder, _PlainAutoEncoder),
        },
    )
    return [*pooling, relaxed]


def _inputs(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    batch, slots, features = shape
    elements = torch.randn(shape, generator=generator)
    sizes = torch.randint(slots // 2, slots + 1, (batch, 1), generator=generator)
    weight = torch.randn(features, POINTS, generator=generator)
    return elements, weight, torch.arange(slots) < sizes


def _prepare(
    function: Callable[[Tensor, Tensor, Tensor], Tensor], shape: tuple[int, int, int]
) -> Step:
    elements, weight, mask = _inputs(shape)
    elements.requires_grad_()
    weight.requires_grad_()

    def step() -> None:
        pooled = function(elements, weight, mask)
        torch.autograd.grad(pooled.sum(), (elements, weight), allow_unused=True)

    return step


def _prepare_sort(shape: tuple[int, int, int]) -> Step:
    elements, _, _ = _inputs(shape)
    return lambda: elements.sort(dim=1, descending=True)


def _max(elements: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    return max_pool(elements, mask)


def plain_fspool(elements: Tensor, weight: Tensor, mask: Tensor) -> Tensor:
    """FSPool as one writes it first."""
    filled = elements.masked_fill(~mask.unsqueeze(-1), -99999)
    ranked, _ = filled.sort(dim=1, descending=True)
    size = mask.sum(dim=1, keepdim=True)
    rank = torch.arange(mask.shape[1])
    position = (rank / (size - 1)).clamp(max=1) * (weight.shape[1] - 1)  # (B, N)
    left = position.long()
    right = (left + 1).clamp(max=weight.shape[1] - 1)
    along = (position - left).unsqueeze(-1)
    weights = (1 - along) * weight.t()[left] + along * weight.t()[right]  # (B, N, D)
    return (ranked * weights * (rank < size).unsqueeze(-1)).sum(dim=1)


def _prepare_auto_encoder(make: Callable[..., nn.Module]) -> Step:
    torch.manual_seed(0)
    model = make(features=2, hidden=32, latent=16)
    points = torch.rand(8, 342, 2)

    def step() -> None:
        loss = (model(points) - points).square().mean()
        torch.autograd.grad(loss, list(model.parameters()))

    return step


class _PlainAutoEncoder(FSPoolAutoEncoder):
    """The same model, with the relaxed sort and the weights written straightforwardly."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = self.element_encoder(elements).transpose(1, 2)  # (B, D, N)
        slots = rows.shape[-1]
        distances = (rows.unsqueeze(-1) - rows.unsqueeze(-2)).abs()
        sums = distances @ torch.ones(slots, slots)  # each column holds the sums over k
        slope = slots + 1 - 2 * torch.arange(1, slots + 1, dtype=rows.dtype)
        logits = rows.unsqueeze(-2) * slope.unsqueeze(-1) - sums.transpose(-1, -2)
        order = logits.softmax(dim=-1)
        ranked = (order @ rows.unsqueeze(-1)).squeeze(-1)
        latent = self.vector_encoder((ranked * _plain_weights(self.pool.weight, slots)).sum(-1))
        vector = self.vector_decoder(latent).unsqueeze(-1)
        spread = vector * _plain_weights(self.unpool.weight, slots)
        restored = (order.transpose(-1, -2) @ spread.unsqueeze(-1)).squeeze(-1)
        result: Tensor = self.element_decoder(restored.transpose(1, 2))
        return result


def _plain_weights(weight: Tensor, slots: int) -> Tensor:
    position = torch.linspace(0, 1, slots) * (weight.shape[1] - 1)
    left = position.long()
    right = (left + 1).clamp(max=weight.shape[1] - 1)
    along = position - left
    return (1 - along) * weight[:, left] + along * weight[:, right]  # (D, N)
