"""Count true objects from boxes and noisy weights: the counting module against plain sums.

Ten squares of side l lie in a unit image. Some are true objects; the weight of a box is its
largest overlap with a true one, mixed with a share q of noise. Sweeping l and q shows how robust
the module is to overlaps and to noise, and what its functions learn (thesis, lines 2463-2563).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torchsets.counting import Counter, count_by_nms, count_features
from torchsets.data import CountingSets, toy_counting_sets
from torchsets.lab.experiments.counting.figures import (
    draw_accuracies,
    draw_functions,
    draw_matrices,
    draw_samples,
)
from torchsets.lab.experiments.counting.frames import draw_sample
from torchsets.lab.records import Recorder
from torchsets.lab.training import Settings, pick_device, seed_everything, train

ROWS = {"counter": "Counting module", "sum": "Sum of weights", "nms": "Suppression, tuned"}
TEST_SEED, TUNING_SEED = 10_007, 20_011
TUNING_SETS = 2048
OVERLAPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Config:
    """The defaults are the thesis' settings (lines 2489-2507).

    Attributes:
        grid: Distance of the values of l (from ``grid`` to 1) and q (from 0 to 1) in a sweep.
        noises: Values of q at which l is swept.
        sides: Values of l at which q is swept.
        models: Any of counter, sum, nms.
        steps: Optimiser steps of each model.
        batch_size: Sets per step.
        learning_rate: Of Adam.
        boxes: Boxes per set; the largest count.
        test_sets: Sets that the models are measured on.
        seed: Seed of the weights and of the sets.
        device: auto, cpu or cuda.
    """

    grid: float = 0.01
    noises: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    sides: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    models: tuple[str, ...] = ("counter", "sum", "nms")
    steps: int = 1000
    batch_size: int = 1024
    learning_rate: float = 0.01
    boxes: int = 10
    test_sets: int = 8192
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        unknown = set(self.models) - set(ROWS)
        if unknown:
            raise ValueError(f"models must be among {', '.join(ROWS)}, got {', '.join(unknown)}")
        if not 0 < self.grid <= 1:
            raise ValueError(f"grid must be above 0 and at most 1, got {self.grid}")


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "grid": 0.5,
        "noises": (0.5,),
        "sides": (0.5,),
        "steps": 3,
        "batch_size": 64,
        "test_sets": 64,
    },
    "cpu": {"grid": 0.1, "noises": (0.0, 0.5), "sides": (0.2, 0.5)},
    "full": {},
}


class Place(NamedTuple):
    """One setting of the dataset: side length l and noise q."""

    side: float
    noise: float

    def __str__(self) -> str:
        return f"l={self.side:g} q={self.noise:g}"


class Sweep(NamedTuple):
    """A row of settings: one of l and q varies, the other is fixed.

    Attributes:
        varied: "l" or "q".
        fixed: The value of the other one.
        places: The settings, in rising order.
    """

    varied: str
    fixed: float
    places: list[Place]

    @property
    def values(self) -> list[float]:
        return [place.side if self.varied == "l" else place.noise for place in self.places]

    @property
    def title(self) -> str:
        return f"{'q' if self.varied == 'l' else 'l'} = {self.fixed:g}"


def run(config: Config, recorder: Recorder) -> None:
    """Train and measure every model at every setting, then draw what they learned."""
    sweeps = sweeps_of(config)
    counters: dict[Place, tuple[Counter, nn.Module]] = {}
    accuracies: dict[tuple[str, Place], float] = {}
    for place in sorted({place for sweep in sweeps for place in sweep.places}):
        for name in config.models:
            if name == "nms":
                accuracies[name, place] = _measure_nms(config, place)
                continue
            model = _train(config, recorder, name, place)
            accuracies[name, place] = _measure(config, model, place)
            if isinstance(model.features, Counter):
                counters[place] = (model.features, model.project)
        _record(recorder, sweeps, place, accuracies)
    draw_samples(recorder, boxes=config.boxes)
    panels = []
    for sweep in sweeps:
        lines = {
            ROWS[name]: [accuracies[name, place] for place in sweep.places]
            for name in config.models
        }
        about = {"title": sweep.title, "varied": sweep.varied, "values": sweep.values}
        panels.append({**about, "accuracies": lines})
    draw_accuracies(recorder, panels)
    if counters:
        _draw_counters(recorder, sweeps, counters, boxes=config.boxes)


def pieces(table: str, config: Config) -> list[Config]:
    """One sweep each; the few settings where two sweeps cross are trained in both."""
    del table
    over_noises = [replace(config, noises=(), sides=(side,)) for side in config.sides]
    over_sides = [replace(config, noises=(noise,), sides=()) for noise in config.noises]
    return over_noises + over_sides


def sweeps_of(config: Config) -> list[Sweep]:
    """The sweeps over l at each fixed q, then those over q at each fixed l."""
    parts = round(1 / config.grid)
    values = [part / parts for part in range(parts + 1)]
    over_sides = [
        Sweep("l", noise, [Place(side, noise) for side in values[1:]]) for noise in config.noises
    ]
    over_noises = [
        Sweep("q", side, [Place(side, noise) for noise in values]) for side in config.sides
    ]
    return over_sides + over_noises


class SumOfWeights(nn.Module):
    """The baseline: the sum of the weights as a vector, overlaps unseen."""

    def __init__(self, objects: int) -> None:
        super().__init__()
        self.objects = objects

    def forward(self, boxes: Tensor, weights: Tensor) -> Tensor:
        return count_features(weights.sum(dim=1), objects=self.objects)


class CountClassifier(nn.Module):
    """Count features, and a linear layer to the classes 0 .. ``objects``."""

    def __init__(self, features: Counter | SumOfWeights) -> None:
        super().__init__()
        self.features = features
        self.project = nn.Linear(features.objects + 1, features.objects + 1)

    def forward(self, boxes: Tensor, weights: Tensor) -> Tensor:
        logits: Tensor = self.project(self.features(boxes, weights))
        return logits


def _train(config: Config, recorder: Recorder, name: str, place: Place) -> CountClassifier:
    seed_everything(config.seed)
    features = Counter(config.boxes) if name == "counter" else SumOfWeights(config.boxes)
    model = CountClassifier(features).to(pick_device(config.device))

    def loss(batch: CountingSets) -> Tensor:
        return cross_entropy(model(batch.boxes, batch.weights), batch.counts)

    train(
        model,
        torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True),
        loss,
        lambda step, generator: _draw(config, place, config.batch_size, generator),
        recorder=recorder,
        task=f"{name}/{place}",
        settings=Settings(config.steps, seed=config.seed),
    )
    return model


def _draw(config: Config, place: Place, sets: int, generator: torch.Generator) -> CountingSets:
    side, noise = place
    return toy_counting_sets(sets, side=side, noise=noise, boxes=config.boxes, generator=generator)


@torch.no_grad()
def _measure(config: Config, model: CountClassifier, place: Place) -> float:
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    sets = _draw(config, place, config.test_sets, generator)
    logits = model(sets.boxes.to(device), sets.weights.to(device)).cpu()
    return _percentage(logits.argmax(dim=1), sets.counts)


def _measure_nms(config: Config, place: Place) -> float:
    """Accuracy of the suppression with the two thresholds that did best on other sets."""
    generator = torch.Generator().manual_seed(TUNING_SEED + config.seed)
    tuning = _draw(config, place, min(TUNING_SETS, config.test_sets), generator)
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    test = _draw(config, place, config.test_sets, generator)

    def accuracy(sets: CountingSets, overlap: float, score: float) -> float:
        counts = count_by_nms(sets.boxes, sets.weights, threshold=overlap, min_score=score)
        return _percentage(counts, sets.counts)

    choices = [(overlap, score) for overlap in OVERLAPS for score in SCORES]
    return accuracy(test, *max(choices, key=lambda choice: accuracy(tuning, *choice)))


def _percentage(predicted: Tensor, count: Tensor) -> float:
    return 100 * (predicted == count).double().mean().item()


def _record(
    recorder: Recorder,
    sweeps: Sequence[Sweep],
    place: Place,
    accuracies: dict[tuple[str, Place], float],
) -> None:
    for sweep in sweeps:
        if place not in sweep.places:
            continue
        key = f"count-toy/{sweep.title}"
        recorder.add_table(
            key, caption=f"Toy counting: accuracy, {sweep.title}", unit="%", better="higher"
        )
        value = sweep.values[sweep.places.index(place)]
        for (name, measured), accuracy in accuracies.items():
            if measured == place:
                column = f"{sweep.varied}={value:g}"
                recorder.add_result(key, model=ROWS[name], column=column, value=accuracy)


def _draw_counters(
    recorder: Recorder,
    sweeps: Sequence[Sweep],
    counters: dict[Place, tuple[Counter, nn.Module]],
    *,
    boxes: int,
) -> None:
    """Functions for the sweeps nearest to those of the thesis, q = 0.5 and l = 0.5; a sample."""
    for varied, shown_at in (("l", 0.0), ("q", 0.5)):
        chosen = [sweep for sweep in sweeps if sweep.varied == varied]
        if chosen:
            sweep = min(chosen, key=lambda sweep: abs(sweep.fixed - 0.5))
            learned = [counters[place][0] for place in sweep.places]
            draw_functions(recorder, varied, sweep.title, sweep.values, learned)
            sweep = min(chosen, key=lambda sweep: abs(sweep.fixed - shown_at))
            used = [counters[place] for place in sweep.places]
            draw_sample(recorder, varied, sweep.title, sweep.places, used)
    place = min(counters, key=lambda place: abs(place.side - 0.2) + abs(place.noise - 0.1))
    generator = torch.Generator().manual_seed(TEST_SEED)
    sets = toy_counting_sets(
        4, side=place.side, noise=place.noise, boxes=boxes, generator=generator
    )
    draw_matrices(recorder, counters[place][0].cpu(), sets, title=str(place))
