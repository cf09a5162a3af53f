"""What the experiment on counting is. Needs no torch."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

MODELS = {"counter": "Counting module", "sum": "Sum of weights", "nms": "Suppression, tuned"}


@dataclass(frozen=True)
class CountToy:
    """The defaults are the thesis' settings (section 3.5.1).

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
        check_names("models", self.models, MODELS)
        check_at_least(1, self, "steps", "batch_size", "boxes", "test_sets")
        if not 0 < self.grid <= 1:
            raise ValueError(f"grid must be above 0 and at most 1, got {self.grid}")


class Setting(NamedTuple):
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
        settings: In rising order.
    """

    varied: str
    fixed: float
    settings: list[Setting]

    @property
    def values(self) -> list[float]:
        """The values of what varies."""
        return [one.side if self.varied == "l" else one.noise for one in self.settings]

    @property
    def title(self) -> str:
        """What is fixed."""
        return f"{'q' if self.varied == 'l' else 'l'} = {self.fixed:g}"

    @property
    def axis(self) -> str:
        """What varies, in words."""
        return "side length l" if self.varied == "l" else "noise q"


def sweeps_of(config: CountToy) -> list[Sweep]:
    """The sweeps over l at each fixed q, then those over q at each fixed l."""
    parts = round(1 / config.grid)
    values = [part / parts for part in range(parts + 1)]
    over_sides = [
        Sweep("l", noise, [Setting(side, noise) for side in values[1:]]) for noise in config.noises
    ]
    over_noises = [
        Sweep("q", side, [Setting(side, noise) for noise in values]) for side in config.sides
    ]
    return over_sides + over_noises


def split_count_toy(table: str, config: CountToy) -> dict[str, CountToy]:
    """One sweep each; the few settings where two sweeps cross are trained in both."""
    del table
    over_noises = {
        f"l={side:g}": replace(config, noises=(), sides=(side,)) for side in config.sides
    }
    over_sides = {
        f"q={noise:g}": replace(config, noises=(noise,), sides=()) for noise in config.noises
    }
    return over_noises | over_sides


COUNT_TOY = Experiment(
    "count-toy",
    "count true boxes from noisy weights: the counting module against sums, suppression",
    config=CountToy,
    scales={
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
    },
    run="torchsets.lab.experiments.counting.toy:run",
    split=split_count_toy,
    tables=(
        Table(
            "count-toy",
            takes={"smoke": "10 s", "cpu": "30 min", "full": "a day"},
            thesis=False,
        ),
    ),
)

EXPERIMENTS = (COUNT_TOY,)
