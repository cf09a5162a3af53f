"""DSPN, unrolled and implicit: decoding and a training step, beside straightforward code."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from torchsets.decoders import DSPN
from torchsets.encoders import mlp_encoder, relation_encoder
from torchsets.lab.benchmarks.harness import Case, Step
from torchsets.losses import SetPredictionLoss, chamfer_loss, hungarian_loss

BATCH, STEPS, STEP_SIZE = 32, 10, 25.0
PLAIN = "plain: autograd.grad in a loop, torch.sort"


def cases() -> list[Case]:
    """Sets of 342 points as for MNIST, and of 10 objects as for CLEVR."""
    return [
        Case(
            f"{setting}, {gradient}: {what}",
            {
                "torchsets": partial(_prepare, setting, gradient, full),
                PLAIN: partial(_prepare_plain, setting, full),
            },
        )
        for setting in ("MNIST", "CLEVR")
        for gradient in ("unrolled", "implicit")
        for full, what in ((False, "decode, forward + backward"), (True, "training step"))
    ]


def _prepare(setting: str, gradient: str, full: bool) -> Step:
    """MNIST: auto-encode, Chamfer. CLEVR: from a given vector, Hungarian and representation."""
    target, mask, vector = _inputs(setting)
    slots, features = target.shape[1:]
    make: Callable[..., nn.Module]
    sizes: tuple[int, ...]
    make, sizes = (mlp_encoder, (256, 64)) if setting == "MNIST" else (relation_encoder, (512, 512))
    encoder = make(features + 1, *sizes, slots=slots)
    decoder = DSPN(
        encoder,
        slots=slots,
        features=features,
        steps=STEPS,
        step_size=STEP_SIZE,
        gradient=gradient,
    )
    weights = [weight for weight in decoder.parameters() if weight.requires_grad]
    all_steps = setting == "MNIST" and gradient == "unrolled"
    set_loss = partial(
        chamfer_loss if setting == "MNIST" else hungarian_loss, element="huber", reduction="mean"
    )
    criterion = SetPredictionLoss(set_loss, supervise="all" if all_steps else "last")

    def decode() -> None:
        prediction = decoder(vector)
        loss = prediction.elements.sum() + prediction.presence.sum()
        torch.autograd.grad(loss, [vector, *weights])

    def train() -> None:
        if setting == "MNIST":
            prediction = decoder(decoder.encode(target, mask))
            representation = None
        else:
            prediction = decoder(vector)
            representation = decoder.representation_loss(vector, target, mask)
        loss = criterion(prediction, target, mask, representation).mean()
        torch.autograd.grad(loss, weights)

    return train if full else decode


def _inputs(setting: str) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    slots, features, latent = (342, 2, 64) if setting == "MNIST" else (10, 18, 512)
    sizes = torch.randint(slots // 3, slots + 1, (BATCH, 1))
    vector = torch.randn(BATCH, latent, requires_grad=True)
    return torch.rand(BATCH, slots, features), torch.arange(slots) < sizes, vector


def _prepare_plain(setting: str, full: bool) -> Step:
    target, mask, vector = _inputs(setting)
    filled = target.masked_fill(~mask.unsqueeze(-1), 0)
    truth = torch.cat([filled, mask.unsqueeze(-1).float()], dim=-1)
    encoder = (_PlainPoints if setting == "MNIST" else PlainPairs)(truth.shape[-1])
    slots, features = target.shape[1:]
    start = torch.rand(1, slots, features, requires_grad=True)
    presence = torch.full((1, slots, 1), 0.5, requires_grad=True)
    weights = [*encoder.parameters(), start, presence]

    def decode() -> None:
        sets = plain_decode(encoder, vector, start, presence)
        torch.autograd.grad(sets[-1].sum(), [vector, *weights])

    def train() -> None:
        if setting == "MNIST":
            sets = plain_decode(encoder, encoder(truth), start, presence)
            loss = _plain_chamfer(torch.stack(sets), truth)
        else:
            sets = plain_decode(encoder, vector, start, presence)
            loss = plain_hungarian(sets[-1], truth)
            loss = loss + 0.1 * smooth_l1_loss(encoder(truth), vector)
        torch.autograd.grad(loss, weights)

    return train if full else decode


def plain_decode(
    encoder: nn.Module, vector: Tensor, start: Tensor, presence: Tensor
) -> list[Tensor]:
    """The sets after each step, (B, N, D + 1) with their presences, by autograd through all."""
    elements = start.expand(BATCH, -1, -1)
    mask = presence.expand(BATCH, -1, -1)
    sets = [torch.cat([elements, mask.clamp(0, 1)], dim=-1)]
    for _ in range(STEPS):
        loss = smooth_l1_loss(encoder(sets[-1]), vector) * BATCH
        (gradient,) = torch.autograd.grad(loss, sets[-1], create_graph=True)
        moved = sets[-1] - STEP_SIZE * gradient
        sets.append(torch.cat([moved[..., :-1], moved[..., -1:].clamp(0, 1)], dim=-1))
    return sets


def _plain_fspool(elements: Tensor, weight: Tensor) -> Tensor:
    ranked, _ = elements.sort(dim=1, descending=True)
    position = torch.linspace(0, 1, elements.shape[1]) * (weight.shape[1] - 1)
    position = position.expand(len(elements), weight.shape[0], -1)  # (B, D, N)
    left = position.long()
    right = (left + 1).clamp(max=weight.shape[1] - 1)
    each = weight.expand(len(elements), -1, -1)
    along = position - left
    weights = (1 - along) * each.gather(2, left) + along * each.gather(2, right)
    return (ranked * weights.transpose(1, 2)).sum(dim=1)


class _PlainPoints(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        layers = nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()
        self.mlp = nn.Sequential(*layers, nn.Linear(256, 64))
        self.weight = nn.Parameter(torch.randn(64, 21))

    def forward(self, sets: Tensor) -> Tensor:
        return _plain_fspool(self.mlp(sets) / sets.shape[1], self.weight)


class PlainPairs(nn.Module):
    """The thesis' relation network: every pair is concatenated, 512 units, FSPool by a sort."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * inputs, 512), nn.ReLU(), nn.Linear(512, 512))
        self.weight = nn.Parameter(torch.randn(512, 21))

    def forward(self, sets: Tensor) -> Tensor:
        slots = sets.shape[1]
        left = sets.unsqueeze(2).expand(-1, -1, slots, -1)
        right = sets.unsqueeze(1).expand(-1, slots, -1, -1)
        pairs = torch.cat([left, right], dim=-1).flatten(1, 2)
        return _plain_fspool(self.mlp(pairs) / slots**2, self.weight)


def _plain_costs(sets: Tensor, truth: Tensor) -> Tensor:
    shape = (*sets.shape[:-1], *truth.shape[-2:])
    left, right = sets.unsqueeze(-2).expand(shape), truth.unsqueeze(-3).expand(shape)
    return smooth_l1_loss(left, right, reduction="none").mean(dim=-1)


def _plain_chamfer(sets: Tensor, truth: Tensor) -> Tensor:
    costs = _plain_costs(sets, truth)  # (T + 1, B, N, N)
    return costs.amin(dim=-1).mean() + costs.amin(dim=-2).mean()


def plain_hungarian(sets: Tensor, truth: Tensor) -> Tensor:
    """The Huber loss of the best matching, set by set."""
    from scipy.optimize import linear_sum_assignment

    costs = _plain_costs(sets, truth)
    total = costs.new_zeros(())
    for one in costs:
        total = total + one[linear_sum_assignment(one.detach().numpy())].mean()
    return total / len(costs)
