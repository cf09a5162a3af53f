"""What the small benchmarks of set prediction are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import (
    Experiment,
    Table,
    check_at_least,
    check_names,
    check_some,
)

NUMBERERS = {  # row names of the published table; the longest to train first
    "dspn": "DSPN",
    "idspn": "iDSPN",
    "fs-unpool": "FSPool-FSUnpool",
    "transformer": "Transformer",
    "transformer-position": "Transformer, position code",
    "transformer-random": "Transformer, random code",
    "bilstm": "BiLSTM",
    "deep-sets": "DeepSets",
}
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


@dataclass(frozen=True)
class Numbering:
    """The defaults are the published settings, but the last weights are tested, not the best.

    Published (Zhang et al. 2022): of the weights during training those with the best validation
    score. Here the curve of that score is recorded and nothing is chosen by it.

    Attributes:
        elements: Elements of a set, and as many numbers to choose from.
        classes: Classes that each element is drawn from.
        models: Any of dspn, idspn, fs-unpool, transformer, transformer-position,
            transformer-random, bilstm, deep-sets.
        data: Training sets, as multiples of 640.
        steps: Optimiser steps of each model.
        batch_size: Sets per step.
        learning_rate: Of Adam.
        decay_from: Share of the steps after which the learning rate decays linearly to 0. None:
            it stays, as published.
        hidden: Width of the encoders of DSPN and iDSPN, of FSPool-FSUnpool and of DeepSets.
        width: Width of the Transformer and, in each direction, of the BiLSTM.
        inner_steps: Gradient steps on a set.
        step_size: Of these steps.
        momentum: Of these steps; DSPN has none.
        clip: Largest norm of a set's gradient in them; DSPN has no limit.
        validation_sets: Sets that the learning curve is measured on.
        test_sets: Sets that the trained models are measured on.
        seed: Seed of the weights, of the sets and of the starts.
        device: auto, cpu or cuda.
    """

    elements: int = 64
    classes: int = 4
    models: tuple[str, ...] = tuple(NUMBERERS)
    data: tuple[int, ...] = (1, 10, 100)
    steps: int = 50_000
    batch_size: int = 128
    learning_rate: float = 1e-3
    decay_from: float | None = None
    hidden: int = 256
    width: int = 64
    inner_steps: int = 20
    step_size: float = 1.0
    momentum: float = 0.9
    clip: float = 40.0
    validation_sets: int = 6400
    test_sets: int = 64_000
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("models", self.models, NUMBERERS)
        check_at_least(1, self, "classes", "data", "steps", "batch_size", "hidden", "inner_steps")
        check_at_least(1, self, "width", "validation_sets", "test_sets")
        check_at_least(2, self, "elements")
        if self.width % 8:  # the heads of the Transformer
            raise ValueError(f"width must be a multiple of 8, got {self.width}")
        if self.decay_from is not None and not 0 <= self.decay_from < 1:
            raise ValueError(f"decay_from must be from 0 to below 1, got {self.decay_from:g}")


def split_numbering(table: str, config: Numbering) -> dict[str, Numbering]:
    """One model on one amount of data each."""
    del table
    return {
        f"{model} {amount}x": replace(config, models=(model,), data=(amount,))
        for model in NUMBERERS
        if model in config.models
        for amount in config.data
    }


NUMBERING = Experiment(
    "numbering",
    "number the elements of each class, which look alike: DSPN against networks on elements",
    config=Numbering,
    scales={
        "smoke": {
            "elements": 6,
            "classes": 2,
            "data": (1,),
            "steps": 8,
            "batch_size": 16,
            "decay_from": 0.5,
            "hidden": 16,
            "width": 16,
            "inner_steps": 4,
            "validation_sets": 32,
            "test_sets": 64,
        },
        "cpu": {
            "elements": 16,
            "steps": 5000,
            "batch_size": 64,
            "decay_from": 0.5,
            "hidden": 128,
            "validation_sets": 500,
            "test_sets": 4000,
        },
        "full": {},
    },
    run="torchsets.lab.experiments.numbering.numbering:run",
    split=split_numbering,
    tables=(
        Table(
            "numbering",
            takes={"smoke": "10 s", "cpu": "1 h 30 min", "full": "two weeks"},
            seeds={"full": 6},
            fixed=(
                "elements",
                "classes",
                "steps",
                "batch_size",
                "learning_rate",
                "decay_from",
                "hidden",
                "width",
                "inner_steps",
                "step_size",
                "momentum",
                "clip",
                "test_sets",
            ),
        ),
    ),
)


@dataclass(frozen=True)
class RandomSets:
    """The defaults are the settings of Zhang et al. (2022), section 5.2, for its models.

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
        check_some(self, "cells", "models")
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
    tables=(
        Table("random-sets", takes=_TAKES, fixed=_FIXED),
        Table("random-sets/order", takes=_TAKES, fixed=_FIXED, thesis=False),
        Table("random-sets/seconds", takes=_TAKES, fixed=_FIXED, thesis=False),
    ),
)

EXPERIMENTS = (NUMBERING, RANDOM_SETS)
