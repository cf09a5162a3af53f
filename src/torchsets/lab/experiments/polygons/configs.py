"""What the experiments on polygons are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

AUTO_ENCODERS = {  # row names of the thesis' tables
    "fspool": "FSPool",
    "mlp-chamfer": "MLP + Chamfer",
    "mlp-hungarian": "MLP + Hungarian",
    "random": "Random",
}
DECODERS = {
    "implicit": "DSPN, implicit",
    "unrolled": "DSPN, unrolled",
    "mlp": "MLP",
    "lstm": "LSTM",
}
TASKS = {"predict": "from the angle", "auto-encode": "from the polygon"}


@dataclass(frozen=True)
class AutoEncode:
    """The defaults are the thesis' settings (section 5.6.1 and appendix A.3.1).

    Attributes:
        sizes: Numbers of corners.
        models: Any of fspool, mlp-chamfer, mlp-hungarian, random.
        zeroed_sizes: Numbers of corners for two controls: FSPool with its latent vector set to 0,
            as in the thesis, and set to 1. At 0 and with zero biases every ReLU of the decoder is
            at its kink and almost nothing gets a gradient; at 1 it can learn all but the latent.
        enlarged_sizes: Numbers of corners for the enlarged baselines: MLP decoders with large
            layers after FSPool, sum, mean and max encoders, with both losses.
        enlarged_hidden: Width and latent size of the enlarged baselines.
        steps: Optimiser steps of each model.
        batch_size: Polygons per step.
        learning_rate: Of Adam.
        hidden: Width of the layers.
        latent: Size of the latent vector: one number can hold the rotation.
        test_sets: Polygons that the models are measured on.
        seed: Seed of the weights and of the polygons.
        device: auto, cpu or cuda.
    """

    sizes: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)
    models: tuple[str, ...] = ("fspool", "mlp-chamfer", "mlp-hungarian", "random")
    zeroed_sizes: tuple[int, ...] = (4,)
    enlarged_sizes: tuple[int, ...] = (16,)
    enlarged_hidden: int = 128
    steps: int = 10240
    batch_size: int = 16
    learning_rate: float = 1e-3
    hidden: int = 16
    latent: int = 1
    test_sets: int = 1024
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("models", self.models, AUTO_ENCODERS)
        check_at_least(1, self, "steps", "batch_size", "hidden", "latent", "test_sets")
        check_at_least(1, self, "enlarged_hidden")
        check_at_least(2, self, "sizes", "zeroed_sizes", "enlarged_sizes")


def split_auto_encode(table: str, config: AutoEncode) -> dict[str, AutoEncode]:
    """One size with all its models each, so that figures still compare them; no controls."""
    del table  # one run fills all three
    return {
        f"n={size}": replace(config, sizes=(size,), zeroed_sizes=(), enlarged_sizes=())
        for size in sorted(config.sizes, reverse=True)
    }


AUTO_ENCODE = Experiment(
    "polygons",
    "auto-encode rotating polygons: FSPool + FSUnpool against MLP decoders",
    config=AutoEncode,
    scales={
        "smoke": {"sizes": (4,), "enlarged_sizes": (), "steps": 50, "test_sets": 64},
        "demo": {
            "sizes": (4, 8),
            "models": ("fspool", "mlp-hungarian", "random"),
            "zeroed_sizes": (),
            "enlarged_sizes": (),
            "steps": 3000,
        },
        "cpu": {"sizes": (2, 4, 8, 16, 32)},
        "full": {},
    },
    run="torchsets.lab.experiments.polygons.auto_encode:run",
    split=split_auto_encode,
    tables=tuple(
        Table(
            f"fspool/polygons-{metric}",
            takes={"smoke": "10 s", "cpu": "7 min", "full": "30 min"},
            fixed=("steps", "batch_size", "learning_rate", "hidden", "latent", "test_sets"),
        )
        for metric in ("direct", "chamfer", "hungarian")
    ),
)


@dataclass(frozen=True)
class Decode:
    """Polygons with all models trained alike: the same batches, loss, optimiser and updates.

    Attributes:
        sizes: Numbers of corners.
        models: Any of implicit, unrolled, mlp, lstm.
        tasks: Any of predict, auto-encode.
        steps: Updates of each model.
        batch_size: Polygons per update.
        learning_rate: Of Adam; it decays linearly to 0.
        hidden: Width of the layers.
        latent: Size of the vector that is decoded.
        inner_steps: Steps of gradient descent on the set in training, from a random start.
        test_steps: The same in the test.
        test_starts: How often at most to start in the test; see ``PolygonModel.predict``.
        momentum: Of these steps.
        angles: Angles of the test, evenly spaced until the polygon is the first one again.
        seed: Seed of the weights, of the start of the descent and of the angles.
        device: auto, cpu or cuda.
    """

    sizes: tuple[int, ...] = (4, 8, 16)
    models: tuple[str, ...] = ("implicit", "unrolled", "mlp", "lstm")
    tasks: tuple[str, ...] = ("predict", "auto-encode")
    steps: int = 2000
    batch_size: int = 32
    learning_rate: float = 1e-3
    hidden: int = 64
    latent: int = 256
    inner_steps: int = 10
    test_steps: int = 40
    test_starts: int = 5
    momentum: float = 0.5
    angles: int = 4001
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("models", self.models, DECODERS)
        check_names("tasks", self.tasks, TASKS)
        check_at_least(1, self, "steps", "batch_size", "inner_steps", "test_steps", "test_starts")
        check_at_least(1, self, "hidden", "latent")
        check_at_least(2, self, "sizes", "angles")


def split_decode(table: str, config: Decode) -> dict[str, Decode]:
    """One size of one task with all its models each."""
    del table
    return {
        f"{task},n={size}": replace(config, sizes=(size,), tasks=(task,))
        for size in sorted(config.sizes, reverse=True)
        for task in config.tasks
    }


DECODE = Experiment(
    "dspn-polygons",
    "predict the corners of polygons from their angle: DSPN against MLP and LSTM decoders",
    config=Decode,
    scales={
        "smoke": {
            "sizes": (4,),
            "steps": 10,
            "angles": 41,
            "latent": 32,
            "test_steps": 10,
            "test_starts": 2,
        },
        "cpu": {"steps": 1500},
        "full": {"sizes": (4, 8, 16, 32), "steps": 10_000},
    },
    run="torchsets.lab.experiments.polygons.decode:run",
    split=split_decode,
    tables=(
        Table(
            "dspn-polygons",
            takes={"smoke": "10 s", "cpu": "15 min", "full": "2 h"},
            thesis=False,
        ),
    ),
)

EXPERIMENTS = (AUTO_ENCODE, DECODE)
