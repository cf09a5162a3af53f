"""What the experiments on predicted scenes are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import (
    Experiment,
    Table,
    check_at_least,
    check_names,
    check_some,
)

DECODERS = {
    "unrolled": "DSPN",
    "implicit": "Implicit DSPN",
    "lstm": "LSTM",
    "tspn": "TSPN",
    "mlp": "MLP",
}
DESCENTS = ("unrolled", "implicit")
POOLINGS = {"fspool": "FSPool", "sum": "sum", "max": "max"}
OBJECTS = {"3-10": (3, 10), "3-6": (3, 6)}
TABLES = {"3-10": "dspn-states", "3-6": "dspn-states/3-6"}
PACE = {"unrolled": 0.6, "implicit": 1.0, "lstm": 2.2, "tspn": 2.2, "mlp": 8.0}  # in the same time
THRESHOLDS = (float("inf"), 1.0, 0.5, 0.25, 0.125, 0.0625)


@dataclass(frozen=True)
class Scenes:
    """What the experiments share: scenes, a set encoder, and how long to train and to descend."""

    steps: int = 100_000
    batch_size: int = 32
    learning_rate: float = 3e-3
    decay_from: float = 0.5
    hidden: int = 128
    latent: int = 512
    decoder_hidden: int = 512
    inner_steps: int = 15
    test_steps: tuple[int, ...] = (15, 30, 60)
    momentum: float = 0.5
    step_size: float | None = None
    training_scenes: int = 200_000
    test_scenes: int = 10_000
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_some(self, "test_steps")
        check_at_least(1, self, "steps", "batch_size", "hidden", "latent", "decoder_hidden")
        check_at_least(1, self, "inner_steps", "test_steps", "training_scenes", "test_scenes")
        if not 0 <= self.decay_from <= 1:
            raise ValueError(f"decay_from must be between 0 and 1, got {self.decay_from:g}")


@dataclass(frozen=True)
class States(Scenes):
    """Auto-encode object states through one vector, without pictures. Not in the thesis.

    Attributes:
        steps: Updates of the implicit DSPN.
        batch_size: Scenes per update.
        learning_rate: Of Adam.
        decay_from: Share of the updates after which the learning rate decays linearly to 0.
        hidden: Width of the set encoder's hidden layer.
        latent: Size of the vector.
        decoder_hidden: Width of lstm, mlp and tspn.
        inner_steps: Gradient steps on a set in training.
        test_steps: Numbers of such steps to test with.
        momentum: Of these steps, for the implicit DSPN; unrolled has none.
        step_size: Of these steps. None: measured before training, see find_step_size.
        training_scenes: Scenes to train on.
        test_scenes: Scenes to measure on.
        seed: Seed of the weights, the scenes, the batches and the starts.
        device: auto, cpu or cuda.
        input: What the vector is made of: states. From pictures it is the experiment dspn-images.
        objects: Any of 3-10 and 3-6, the smallest and largest number of objects of a scene.
        models: Any of implicit and unrolled (DSPN), lstm, tspn, mlp.
        poolings: Any of fspool, sum, max: poolings of the set encoder. The implicit DSPN is
            trained with each, the other models with the first alone.
        equal_time: Whether the other models get as many updates as take about the same time on a
            CPU, or else the same number.
        supervise: What the unrolled DSPN is trained for: all sets on the way, or the last.
    """

    input: str = "states"
    objects: tuple[str, ...] = ("3-10", "3-6")
    models: tuple[str, ...] = ("implicit", "unrolled", "mlp", "lstm", "tspn")
    poolings: tuple[str, ...] = ("fspool", "sum", "max")
    equal_time: bool = True
    supervise: str = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input == "images":
            raise ValueError("from pictures it is another experiment: torchsets run dspn-images")
        check_names("input", (self.input,), ("states",))
        check_some(self, "objects", "models", "poolings")
        check_names("objects", self.objects, OBJECTS)
        check_names("models", self.models, DECODERS)
        check_names("poolings", self.poolings, POOLINGS)
        check_names("supervise", (self.supervise,), ("last", "all"))


def split_states(table: str, config: States) -> dict[str, States]:
    """One model with one pooling each."""
    return {
        f"{objects} {model}" + f" {pooling}" * (model == "implicit"): replace(
            config, objects=(objects,), models=(model,), poolings=(pooling,)
        )
        for objects in config.objects
        if TABLES[objects] == table
        for model in DECODERS
        if model in config.models
        for pooling in poolings_of(model, config)
    }


def poolings_of(model: str, config: States) -> tuple[str, ...]:
    """The poolings that a model is trained with."""
    return config.poolings if model == "implicit" else config.poolings[:1]


def updates_of(model: str, config: States) -> int:
    """How many updates a model gets."""
    return max(1, round(config.steps * PACE[model])) if config.equal_time else config.steps


SOLVERS = {  # ways to train an implicit DSPN
    "plain": "Implicit DSPN",
    "half-steps": "Half the steps at first",
    "transport": "Sinkhorn's loss",
    "mlp-start": "Start from an MLP",
}
SOLVER_TABLE = "dspn-solver"


@dataclass(frozen=True)
class Solvers(Scenes):
    """How an implicit DSPN is trained and descends in tests: what the thesis left to try.

    Attributes:
        steps: Updates.
        batch_size: Scenes per update.
        learning_rate: Of Adam.
        decay_from: Share of the updates after which the learning rate decays linearly to 0.
        hidden: Width of the set encoder's hidden layer.
        latent: Size of the vector.
        decoder_hidden: Width of the MLP that makes a start.
        inner_steps: Gradient steps on a set in training.
        test_steps: Numbers of such steps to test with; tolerances and starts have the most.
        momentum: Of these steps.
        step_size: Of these steps. None: measured before training, see find_step_size.
        training_scenes: Scenes to train on.
        test_scenes: Scenes to measure on.
        seed: Seed of the weights, the scenes, the batches and the starts.
        device: auto, cpu or cuda.
        objects: 3-10 or 3-6, the smallest and largest number of objects of a scene.
        pooling: Of the set encoder: fspool, sum or max.
        solvers: Any of plain; half-steps, half the gradient steps during the first half of the
            training; transport, Sinkhorn's loss in place of the best matching; mlp-start, a start
            that an MLP makes from the vector.
        adaptive_steps: Numbers of steps of Barzilai and Borwein to test with.
        tolerances: A set stops below such a share of the mean loss before the first step.
        starts: Numbers of random starts to test with, whose sets are averaged.
    """

    objects: str = "3-10"
    pooling: str = "fspool"
    solvers: tuple[str, ...] = tuple(SOLVERS)
    adaptive_steps: tuple[int, ...] = (8, 15, 30)
    tolerances: tuple[float, ...] = (0.1, 0.01, 0.001)
    starts: tuple[int, ...] = (2, 8)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_names("objects", (self.objects,), OBJECTS)
        check_names("pooling", (self.pooling,), POOLINGS)
        check_names("solvers", self.solvers, SOLVERS)
        check_at_least(1, self, "adaptive_steps", "starts")
        check_at_least(0, self, "tolerances")


def split_solvers(table: str, config: Solvers) -> dict[str, Solvers]:
    """One way to train each."""
    del table
    return {name: replace(config, solvers=(name,)) for name in SOLVERS if name in config.solvers}


_AXES = ("test_steps", "seed", "device")
_FIXED = tuple(name for name in Scenes.__dataclass_fields__ if name not in _AXES)

_SMOKE = {
    "steps": 4,
    "batch_size": 8,
    "hidden": 16,
    "latent": 32,
    "decoder_hidden": 16,
    "inner_steps": 3,
    "test_steps": (3, 5),
    "training_scenes": 32,
    "test_scenes": 16,
}
_CPU = {"steps": 6000, "training_scenes": 64_000, "test_scenes": 2000, "latent": 384}

STATES = Experiment(
    "dspn-states",
    "predict the objects of scenes from a vector: DSPN against MLP, LSTM and TSPN",
    config=States,
    scales={"smoke": {"poolings": ("fspool", "sum"), **_SMOKE}, "cpu": _CPU, "full": {}},
    run="torchsets.lab.experiments.scenes.states:run",
    split=split_states,
    tables=tuple(
        Table(
            key,
            takes={"smoke": "15 s", "cpu": "40 min", "full": "half a day"},
            fixed=(*_FIXED, "input", "equal_time", "supervise"),
            thesis=False,
        )
        for key in TABLES.values()
    ),
)
SOLVER = Experiment(
    "dspn-solver",
    "train and test an implicit DSPN in other ways: fewer, adaptive or more steps, other starts",
    config=Solvers,
    scales={
        "smoke": {**_SMOKE, "adaptive_steps": (2,), "tolerances": (0.5,), "starts": (2,)},
        "cpu": _CPU,
        "full": {},
    },
    run="torchsets.lab.experiments.scenes.solver:run",
    split=split_solvers,
    tables=(
        Table(
            SOLVER_TABLE,
            takes={"smoke": "10 s", "cpu": "20 min", "full": "half a day"},
            fixed=(*_FIXED, "objects", "pooling"),
            thesis=False,
        ),
    ),
)

EXPERIMENTS = (STATES, SOLVER)
