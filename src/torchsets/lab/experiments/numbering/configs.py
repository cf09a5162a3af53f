"""What the small benchmarks of set prediction are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

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
        check_at_least(1, self, "validation_sets", "test_sets")
        check_at_least(2, self, "elements")
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

EXPERIMENTS = (NUMBERING,)
