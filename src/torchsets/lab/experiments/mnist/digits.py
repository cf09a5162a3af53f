"""Classify handwritten digits given as point sets, with FSPool and with plain poolings.

Not in the thesis, which uses MNIST (lines 4247-4280): these 1797 small images come with
scikit-learn, so it needs no download and trains in a minute.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torchsets.data import digit_point_sets
from torchsets.encoders import DeepSets
from torchsets.lab.experiments.poolings import POOLINGS
from torchsets.lab.records import Recorder
from torchsets.lab.training import Minibatches, Settings, pick_device, seed_everything, train
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetBatch

ROWS = {"fspool": "FSPool", "sum": "Sum", "mean": "Mean", "max": "Max"}


@dataclass(frozen=True)
class Config:
    """A small Deep Sets classifier.

    Attributes:
        poolings: Any of fspool, sum, mean, max.
        steps: Optimiser steps of each model.
        batch_size: Digits per step.
        learning_rate: Of Adam.
        hidden: Width of the layers.
        test_share: Share of the digits, drawn once, that the models are measured on.
        seed: Seed of the weights and of the batches.
        device: auto, cpu or cuda.
    """

    poolings: tuple[str, ...] = ("fspool", "sum", "mean", "max")
    steps: int = 10_000
    batch_size: int = 32
    learning_rate: float = 1e-3
    hidden: int = 64
    test_share: float = 0.25
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        unknown = set(self.poolings) - set(ROWS)
        if unknown:
            raise ValueError(f"poolings must be among {', '.join(ROWS)}, got {', '.join(unknown)}")


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {"steps": 20},
    "cpu": {"steps": 3000},
    "full": {},
}


def run(config: Config, recorder: Recorder) -> None:
    """Train one classifier for each pooling and measure its accuracy."""
    sets, labels = digit_point_sets()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    split = round(config.test_share * len(labels))
    held_out, used = order[:split], order[split:]
    recorder.add_table(
        "digits/accuracy",
        caption=f"8x8 digits as point sets: accuracy on {split} held-out digits",
        unit="%",
        better="higher",
    )
    for pooling in config.poolings:
        seed_everything(config.seed)
        device = pick_device(config.device)
        model = build_model(pooling, config.hidden).to(device)
        minibatches = Minibatches(len(used), config.batch_size, seed=config.seed)
        evaluate = partial(_accuracy, model, sets.select(held_out), labels[held_out], device)
        train(
            model,
            torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True),
            partial(_loss, model),
            partial(_draw, sets.select(used), labels[used], minibatches),
            recorder=recorder,
            task=pooling,
            settings=Settings(config.steps, seed=config.seed, evaluate_every=200),
            evaluate=evaluate,
        )
        with torch.no_grad():
            value = evaluate()["accuracy"]
        recorder.add_result("digits/accuracy", model=ROWS[pooling], column="accuracy", value=value)
    _draw_digits(recorder, sets, labels)


def build_model(pooling: str, hidden: int) -> nn.Module:
    """Return an untrained classifier of sets of (x, y, ink)."""
    return glorot_(
        DeepSets(MLP(3, hidden, hidden), POOLINGS[pooling](hidden), MLP(hidden, hidden, 10))
    )


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    elements, mask, labels = batch
    return cross_entropy(model(elements, mask), labels)


def _draw(
    sets: SetBatch, labels: Tensor, minibatches: Minibatches, step: int, _: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    chosen = minibatches(step)
    return sets.elements[chosen], sets.mask[chosen], labels[chosen]


def _accuracy(
    model: nn.Module, sets: SetBatch, labels: Tensor, device: torch.device
) -> Mapping[str, float]:
    scores = model(*sets.to(device)).cpu()
    return {"accuracy": 100 * (scores.argmax(dim=1) == labels).double().mean().item()}


def _draw_digits(recorder: Recorder, sets: SetBatch, labels: Tensor) -> None:
    panels = [
        {"title": str(label), "points": points[:, :2].tolist(), "values": points[:, 2].tolist()}
        for points, label in zip(sets.select(slice(10)).to_list(), labels.tolist(), strict=False)
    ]
    recorder.add_figure(
        "digits",
        kind="points",
        title="Digits as sets of points",
        caption="The first ten digits. Each point is a pixel with ink; darker is more.",
        alt="Ten scatter plots in which handwritten digits can be recognised.",
        data={"panels": panels, "columns": 5, "limit": 1.2},
    )
