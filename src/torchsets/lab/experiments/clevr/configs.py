"""What the experiment on questions about scenes is. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

ROWS = {
    "fspool": "FSPool",
    "rn": "RN",
    "janossy": "Janossy",
    "sum": "Sum",
    "mean": "Mean",
    "max": "Max",
}
QUESTION_ONLY = "question-only"
OTHER_ROWS = {**ROWS, QUESTION_ONLY: "the question alone"}
GROUPS = (
    "zero-hop",
    "one-hop",
    "two-hop",
    "three-hop",
    "same-relate",
    "comparison",
    "compare-integer",
    "single-and",
    "single-or",
)
SCHEDULES = ("thesis", "warm")
MILESTONES = (60, 80, 90, 95, 98, 98.5, 99)  # the last three are the thesis'


@dataclass(frozen=True)
class AskScenes:
    """The defaults are the thesis' settings (its subsections on CLEVR).

    Attributes:
        dataset: clevr, the public questions and scenes; or ours, questions of our own generator
            about sampled scenes, tested on CLEVR's validation scenes where they are on disk, else
            on sampled ones.
        models: Any of fspool, rn, janossy, sum, mean, max; question-only, which sees no objects.
        groups: Which of the nine groups of question families to ask. Of our own questions only.
        first_groups: Groups that are asked alone during the first fifth of the steps. Empty: none.
        scenes: Sampled scenes to train on. Of our own questions only.
        test_scenes: Scenes to test on, with up to 20 questions each. Of our own questions only.
        coding: index, objects as 7 numbers; or one-hot, as 18.
        hidden: Width of the layers on objects; the answer has a layer of this and one of twice
            the width.
        question: Size of the vector of a question.
        embedding: Size of the vector of a word.
        dropout: Before the last layer.
        orders: In how many orders Janossy pooling reads a set in the test; the thesis has 1.
        batch_size: Questions per step.
        learning_rate: The largest one, of Adam.
        weight_decay: Added to the gradient.
        clip: Largest norm of the gradient.
        schedule: thesis, which starts at a hundredth and doubles every 20 epochs; or warm, which
            rises for 500 steps and falls linearly over the last 30 % of them.
        epochs: Passes over the training questions.
        steps: Optimiser steps instead of epochs. None: those of the epochs.
        evaluations: How often to test during the training. None: after each epoch.
        seed: Seed of the weights and the batches.
        device: auto, cpu or cuda.
    """

    dataset: str = "clevr"
    models: tuple[str, ...] = tuple(ROWS)
    groups: tuple[str, ...] = GROUPS
    first_groups: tuple[str, ...] = ()
    scenes: int = 70_000
    test_scenes: int = 500
    coding: str = "index"
    hidden: int = 512
    question: int = 256
    embedding: int = 32
    dropout: float = 0.05
    orders: int = 20
    batch_size: int = 640
    learning_rate: float = 5e-4
    weight_decay: float = 1e-4
    clip: float = 50.0
    schedule: str = "thesis"
    epochs: int = 350
    steps: int | None = None
    evaluations: int | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("dataset", (self.dataset,), ("clevr", "ours"))
        check_names("models", self.models, OTHER_ROWS)
        check_names("groups", self.groups, GROUPS)
        check_names("first_groups", self.first_groups, self.groups)
        check_names("coding", (self.coding,), ("index", "one-hot"))
        check_names("schedule", (self.schedule,), SCHEDULES)
        check_at_least(1, self, "scenes", "test_scenes", "hidden", "question", "embedding")
        check_at_least(1, self, "orders", "batch_size", "epochs", "steps", "evaluations")
        if self.dataset == "clevr" and self.first_groups:
            raise ValueError("first_groups must be empty for dataset=clevr, got some")


def split_ask(table: str, config: AskScenes) -> dict[str, AskScenes]:
    """One model each, the slowest first."""
    del table
    order = ("janossy", "rn", "fspool", "mean", "max", "sum", QUESTION_ONLY)
    return {model: replace(config, models=(model,)) for model in order if model in config.models}


_FIXED = (
    "dataset",
    "groups",
    "first_groups",
    "scenes",
    "test_scenes",
    "coding",
    "hidden",
    "question",
    "embedding",
    "dropout",
    "orders",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "clip",
    "schedule",
    "epochs",
    "steps",
)
_TAKES = {"smoke": "10 s", "cpu": "40 min", "full": "months"}
_SEEDS = {"full": 10}
_DERIVE = "torchsets.lab.experiments.clevr.selection:derive_cells"

ASK_SCENES = Experiment(
    "clevr-questions",
    "answer questions about sets of objects: FSPool, relation networks, Janossy, plain pooling",
    config=AskScenes,
    scales={
        "smoke": {
            "dataset": "ours",
            "models": tuple(OTHER_ROWS),
            "groups": ("zero-hop", "one-hop"),
            "scenes": 40,
            "test_scenes": 10,
            "coding": "one-hot",
            "hidden": 8,
            "question": 8,
            "embedding": 4,
            "orders": 2,
            "batch_size": 16,
            "schedule": "warm",
            "steps": 4,
            "evaluations": 2,
        },
        "cpu": {
            "dataset": "ours",
            "models": tuple(OTHER_ROWS),
            "groups": ("zero-hop", "one-hop"),
            "scenes": 30_000,
            "coding": "one-hot",
            "hidden": 128,
            "question": 64,
            "batch_size": 128,
            "learning_rate": 1e-3,
            "weight_decay": 0.0,
            "schedule": "warm",
            "steps": 12_000,
            "evaluations": 24,
        },
        "full": {},
    },
    run="torchsets.lab.experiments.clevr.questions:run",
    split=split_ask,
    tables=(
        Table("fspool/clevr", takes=_TAKES, seeds=_SEEDS, fixed=_FIXED),
        Table("fspool/clevr-epochs", takes=_TAKES, seeds=_SEEDS, fixed=_FIXED),
        Table("fspool/clevr-time", takes=_TAKES, seeds=_SEEDS, fixed=_FIXED),
        Table("fspool/clevr-time-to-99-text", takes=_TAKES, seeds=_SEEDS, fixed=_FIXED),
        Table("fspool/clevr-ttest-text", takes=_TAKES, seeds=_SEEDS, fixed=_FIXED, derive=_DERIVE),
        Table("clevr-questions", takes=_TAKES, seeds=_SEEDS, thesis=False, derive=_DERIVE),
    ),
)

EXPERIMENTS = (ASK_SCENES,)
