"""What the experiments on predicted digits are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import (
    Experiment,
    Table,
    check_at_least,
    check_names,
    check_some,
)

DECODERS = {  # rows of the thesis' table, and one more; the longest to train first
    "unrolled": "DSPN",
    "implicit": "Implicit DSPN",
    "lstm": "RNN baseline",
    "mlp": "MLP baseline",
}
DESCENTS = ("unrolled", "implicit")
PACE = {"unrolled": 1.0, "implicit": 2.1, "lstm": 1.6, "mlp": 16.0}  # updates in the same time
LOSSES = ("thesis", "size-aware")


@dataclass(frozen=True)
class Digits:
    """The defaults are the thesis' settings (section 6.5.1 and appendix A.4).

    Attributes:
        dataset: mnist, or digits (8x8, embedded).
        models: Any of unrolled and implicit (DSPN), mlp and lstm.
        loss: thesis: Chamfer with presence as a feature of padded sets, which does not see how
            many points are predicted. size-aware: the same, and the error of their number.
        size_weight: Factor of the number of points in the size-aware loss.
        steps: Updates of each model.
        equal_time: Whether the other models get as many updates as take about the same time on a
            CPU as those of the unrolled DSPN, or else the same number.
        batch_size: Sets per update.
        learning_rate: Of Adam.
        decay_from: Share of the updates after which the learning rate decays linearly to 0. The
            thesis has 1: it stays.
        clip: Largest norm of the gradient of a DSPN: now and then it is huge. None: no limit.
        hidden: Width of the set encoder.
        latent: Size of the vector.
        decoder_hidden: Width of mlp and lstm.
        inner_steps: Gradient steps on a set in training.
        test_steps: Numbers of such steps to test with.
        momentum: Of these steps, for the implicit DSPN; unrolled has none.
        step_size: Of these steps. None: measured before training, see find_step_size.
        slots: Number of points that are predicted, and to which sets are padded.
        training_sets: How many sets to train on. None: all.
        test_sets: How many sets to measure on. None: all.
        matched_sets: How many of these to match one to one.
        seed: Seed of the weights and the batches.
        device: auto, cpu or cuda.
    """

    dataset: str = "mnist"
    models: tuple[str, ...] = ("unrolled", "implicit", "mlp", "lstm")
    loss: str = "thesis"
    size_weight: float = 1.0
    steps: int = 187_500
    equal_time: bool = False
    batch_size: int = 32
    learning_rate: float = 0.01
    decay_from: float = 1.0
    clip: float | None = None
    hidden: int = 256
    latent: int = 64
    decoder_hidden: int = 256
    inner_steps: int = 10
    test_steps: tuple[int, ...] = (10, 20, 40)
    momentum: float = 0.5
    step_size: float | None = 25.0
    slots: int = 342
    training_sets: int | None = None
    test_sets: int | None = None
    matched_sets: int = 200
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("dataset", (self.dataset,), ("mnist", "digits"))
        check_some(self, "models", "test_steps")
        check_names("models", self.models, DECODERS)
        check_names("loss", (self.loss,), LOSSES)
        check_at_least(0, self, "size_weight", "clip")
        check_at_least(1, self, "steps", "batch_size", "hidden", "latent", "decoder_hidden")
        check_at_least(1, self, "inner_steps", "test_steps", "slots", "matched_sets")
        check_at_least(1, self, "training_sets", "test_sets")
        if not 0 <= self.decay_from <= 1:
            raise ValueError(f"decay_from must be between 0 and 1, got {self.decay_from:g}")


def split_digits(table: str, config: Digits) -> dict[str, Digits]:
    """One model each."""
    del table
    return {model: replace(config, models=(model,)) for model in DECODERS if model in config.models}


def updates_of(model: str, config: Digits) -> int:
    """How many updates a model gets."""
    return max(1, round(config.steps * PACE[model])) if config.equal_time else config.steps


DIGITS = Experiment(
    "dspn-mnist",
    "auto-encode MNIST as sets of points: DSPN against MLP and LSTM decoders",
    config=Digits,
    scales={
        "smoke": {
            "dataset": "digits",
            "steps": 3,
            "batch_size": 8,
            "learning_rate": 3e-3,
            "hidden": 16,
            "latent": 16,
            "decoder_hidden": 16,
            "inner_steps": 3,
            "test_steps": (3, 5),
            "step_size": None,
            "slots": 48,
            "training_sets": 64,
            "test_sets": 16,
            "matched_sets": 8,
        },
        "cpu": {
            "steps": 2400,
            "equal_time": True,
            "learning_rate": 3e-3,
            "decay_from": 0.5,
            "clip": 0.05,
            "hidden": 64,
            "step_size": None,
            "test_sets": 1000,
        },
        "full": {},
    },
    run="torchsets.lab.experiments.digits.auto_encode:run",
    split=split_digits,
    data=("mnist",),
    tables=(
        Table(
            "dspn/mnist",
            takes={"smoke": "10 s", "cpu": "1 h", "full": "a week"},
            seeds={"full": 6},
            fixed=(
                "dataset",
                "loss",
                "size_weight",
                "steps",
                "equal_time",
                "batch_size",
                "learning_rate",
                "decay_from",
                "clip",
                "hidden",
                "latent",
                "decoder_hidden",
                "inner_steps",
                "momentum",
                "step_size",
                "slots",
                "training_sets",
                "test_sets",
            ),
        ),
    ),
)

EXPERIMENTS = (DIGITS,)
