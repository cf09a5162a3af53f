"""What the small benchmarks of set prediction are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

SIDES = (2, 4, 8, 16, 32)
CELLS = {f"{size}x{features}": (size, features) for size in SIDES for features in SIDES}
DESCENTS = {  # gradient and momentum of the models that descend
    "dspn": ("unrolled", 0.0),
    "dspn-momentum": ("unrolled", 0.9),
    "idspn": ("implicit", 0.0),
    "idspn-momentum": ("implicit", 0.9),
}
DIRECT = {
    "mlp": "MLP",
    "lstm": "LSTM",
    "query": "Queries (DETR)",
    "slot": "Slot attention",
    "tspn": "TSPN",
}
ORDERED = {"fspool": "FSPool-FSUnpool"}
RANDOM_SET_MODELS = (*DESCENTS, *DIRECT, *ORDERED)
PUBLISHED_CELL = "8x8"
PUBLISHED = {  # times 1000, read off the bars of the poster of Zhang et al. (2021)
    "DSPN, 10 steps": 28.0,
    "DSPN, 20 steps": 11.0,
    "iDSPN, 20 steps": 9.0,
    "iDSPN, 40 steps": 5.0,
    "iDSPN, momentum 0.9, 20 steps": 3.3,
    "iDSPN, momentum 0.9, 40 steps": 2.0,
}


@dataclass(frozen=True)
class RandomSets:
    """The defaults are the settings of Zhang et al. (2021), section 5.2, for its models.

    Attributes:
        cells: Sizes and features of the sets, such as 8x2 for 8 elements of 2 features; both any
            of 2, 4, 8, 16, 32.
        models: Any of dspn, dspn-momentum, idspn, idspn-momentum, mlp, lstm, query, slot, tspn,
            and fspool, which gets the order of the elements beside the latent vector.
        steps: Updates of each model.
        batch_size: Sets per update.
        learning_rate: Of Adam.
        decay_from: Share of the updates after which the learning rate decays linearly to 0.
        hidden: Width of the layers.
        latent: Size of the latent vector, a multiple of 8: query and slot get it as 8 tokens.
        unrolled_steps: Numbers of inner steps to train dspn with.
        implicit_steps: The same for idspn.
        inner_rate: Size of an inner step.
        pull: Weight of the inner loss's second term, towards the learned start.
        layers: Layers of query and tspn, rounds of slot.
        training_sets: How many sets to train on.
        validation_sets: How many sets to measure on.
        seed: Seed of the weights, the sets and the batches.
        device: auto, cpu or cuda.
    """

    cells: tuple[str, ...] = tuple(CELLS)
    models: tuple[str, ...] = RANDOM_SET_MODELS
    steps: int = 20_000
    batch_size: int = 128
    learning_rate: float = 1e-3
    decay_from: float = 1.0
    hidden: int = 512
    latent: int = 512
    unrolled_steps: tuple[int, ...] = (10, 20)
    implicit_steps: tuple[int, ...] = (20, 40)
    inner_rate: float = 1.0
    pull: float = 0.1
    layers: int = 3
    training_sets: int = 64_000
    validation_sets: int = 6400
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("cells", self.cells, CELLS)
        check_names("models", self.models, RANDOM_SET_MODELS)
        check_at_least(1, self, "steps", "batch_size", "hidden", "layers")
        check_at_least(1, self, "unrolled_steps", "implicit_steps", "training_sets")
        check_at_least(1, self, "validation_sets")
        if self.latent < 8 or self.latent % 8:
            raise ValueError(f"latent must be a multiple of 8, got {self.latent}")
        if not 0 <= self.decay_from <= 1:
            raise ValueError(f"decay_from must be between 0 and 1, got {self.decay_from}")


def split_random_sets(table: str, config: RandomSets) -> dict[str, RandomSets]:
    """One kind of set with all its models each, so that figures still compare them."""
    del table
    largest = sorted(config.cells, key=lambda cell: CELLS[cell], reverse=True)
    return {cell: replace(config, cells=(cell,)) for cell in largest}


_KEYS = ("random-sets", "random-sets/order")
_TAKES = {"smoke": "20 s", "cpu": "30 min", "full": "weeks on a CPU"}
_FIXED = (
    "steps",
    "batch_size",
    "learning_rate",
    "decay_from",
    "hidden",
    "latent",
    "inner_rate",
    "pull",
    "layers",
    "training_sets",
    "validation_sets",
)

RANDOM_SETS = Experiment(
    "random-sets",
    "auto-encode sets of random points: which decoder for which set",
    config=RandomSets,
    scales={
        "smoke": {
            "cells": ("4x2",),
            "steps": 10,
            "batch_size": 16,
            "hidden": 16,
            "latent": 32,
            "unrolled_steps": (2,),
            "implicit_steps": (3,),
            "training_sets": 64,
            "validation_sets": 32,
        },
        "cpu": {
            "cells": ("2x2", "4x4", "8x8", "8x2"),
            "steps": 2000,
            "batch_size": 32,
            "decay_from": 0.5,
            "hidden": 64,
            "latent": 256,
            "unrolled_steps": (10,),
            "implicit_steps": (20,),
            "inner_rate": 10.0,
        },
        "full": {},
    },
    run="torchsets.lab.experiments.numbering.random_sets:run",
    split=split_random_sets,
    tables=tuple(Table(key, takes=_TAKES, fixed=_FIXED, thesis=False) for key in _KEYS),
)

EXPERIMENTS = (RANDOM_SETS,)
