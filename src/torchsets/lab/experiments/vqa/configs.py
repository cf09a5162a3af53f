"""What the experiments on visual question answering are. Needs no torch."""

from dataclasses import dataclass, replace

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

QUESTION_ONLY = "question-only"
COUNT_ROWS = {
    QUESTION_ONLY: "the question alone",
    "baseline": "Baseline",
    "nms": "Baseline + NMS",
    "sum": "Baseline + sum",
    "counting": "Baseline + counting",
}
ORDER_ROWS = {
    "ban-without-counter": "BAN without counter",
    "ban": "BAN",
    "lstm": "BAN + LSTM",
    "po-u": "BAN + PO-U",
}
DATASETS = ("vqa-v2", "synthetic")
PARTS = ("train", "train+val")


@dataclass(frozen=True)
class CountVQA:
    """The defaults are the thesis' settings (section 3.5.2 and appendix A.1.2).

    Attributes:
        dataset: vqa-v2, the public questions with bottom-up proposals; or synthetic, generated
            questions and scenes, which need no file.
        models: Any of question-only, baseline, nms, sum, counting. The first and sum, which adds up
            the attention, are not in the thesis; question-only needs no proposals.
        parts: train; or train+val, after which the answers to the test questions are written to a
            file for the evaluation server. Of synthetic questions the test answers are known.
        pairs: Pairs of scenes to train on. Of synthetic questions only, as are the next two.
        test_pairs: Pairs of scenes to measure on, as many for validation as for the test.
        noise: How much features differ from those of their class.
        answers: So many of the most frequent answers can be given.
        embedding: Features of a word.
        question: Size of the vector of a question.
        attention: Width of the attention.
        hidden: Width of the classifier.
        objects: Largest count.
        dropout: Share of the inputs of each layer that is set to 0 in training.
        batch_size: Questions per step.
        learning_rate: At the start, of Adam.
        counter_rate: The learning rate of the counting module, as a multiple of it.
        half_life: Steps after which the learning rate is halved.
        epochs: Passes over the training questions.
        steps: Optimiser steps instead of epochs. None: those of the epochs.
        evaluations: How often to measure during the training. None: after each epoch.
        toy_steps: Optimiser steps of counting modules on the toy task, for a figure.
        seed: Seed of the weights and the batches.
        device: auto, cpu or cuda.
    """

    dataset: str = "vqa-v2"
    models: tuple[str, ...] = tuple(COUNT_ROWS)
    parts: str = "train"
    pairs: int = 3000
    test_pairs: int = 600
    noise: float = 1.0
    answers: int = 3000
    embedding: int = 300
    question: int = 1024
    attention: int = 512
    hidden: int = 1024
    objects: int = 10
    dropout: float = 0.5
    batch_size: int = 256
    learning_rate: float = 0.0015
    counter_rate: float = 1.0
    half_life: float = 50_000
    epochs: int = 100
    steps: int | None = None
    evaluations: int | None = None
    toy_steps: int = 1000
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("dataset", (self.dataset,), DATASETS)
        check_names("models", self.models, COUNT_ROWS)
        check_names("parts", (self.parts,), PARTS)
        check_at_least(1, self, "pairs", "test_pairs", "answers", "embedding", "question")
        check_at_least(1, self, "attention", "hidden", "objects", "batch_size", "half_life")
        check_at_least(1, self, "epochs", "steps", "evaluations", "toy_steps")


@dataclass(frozen=True)
class OrderVQA:
    """The defaults are the thesis' settings (section 4.4.4 and appendix A.2.4).

    Attributes:
        dataset: vqa-v2, the public questions with bottom-up proposals; or synthetic, generated
            questions and scenes, which need no file.
        models: Any of ban-without-counter, which is not in the thesis, ban, lstm, po-u.
        pairs: Pairs of scenes to train on. Of synthetic questions only, as are the next two.
        test_pairs: Pairs of scenes to measure on.
        noise: How much features differ from those of their class.
        embedding: Features of a word in each of two embeddings.
        hidden: Width of BAN.
        glimpses: Number of glimpses.
        objects: Largest count.
        read: Size of the LSTM's state.
        compared: Hidden units of the cost that orders the proposals.
        inner_steps: Gradient steps on the permutation, T.
        dropout: Of the inputs of layers.
        late_dropout: Of the projected proposals, and in the classifier.
        batch_size: Questions per step.
        learning_rate: The base rate of Adamax. It rises from half of it to its double over four
            epochs of the 13, and is divided by 4 after the tenth and the twelfth.
        clip: Largest norm of the gradient.
        epochs: Passes over the training questions.
        steps: Optimiser steps instead of epochs. None: those of the epochs.
        evaluations: How often to measure during the training. None: after each epoch.
        seed: Seed of the weights and the batches.
        device: auto, cpu or cuda.
    """

    dataset: str = "vqa-v2"
    models: tuple[str, ...] = tuple(ORDER_ROWS)
    pairs: int = 3000
    test_pairs: int = 600
    noise: float = 1.0
    embedding: int = 300
    hidden: int = 1280
    glimpses: int = 8
    objects: int = 10
    read: int = 128
    compared: int = 128
    inner_steps: int = 3
    dropout: float = 0.2
    late_dropout: float = 0.5
    batch_size: int = 112
    learning_rate: float = 0.001
    clip: float = 0.25
    epochs: int = 13
    steps: int | None = None
    evaluations: int | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_names("dataset", (self.dataset,), DATASETS)
        check_names("models", self.models, ORDER_ROWS)
        check_at_least(1, self, "pairs", "test_pairs", "embedding", "hidden", "glimpses", "objects")
        check_at_least(1, self, "read", "compared", "batch_size")
        check_at_least(1, self, "epochs", "steps", "evaluations")
        check_at_least(0, self, "inner_steps")


def split_count(table: str, config: CountVQA) -> dict[str, CountVQA]:
    """One model each, the slowest first; VQA's test table asks for training on validation too."""
    order = ("nms", "counting", "sum", "baseline", QUESTION_ONLY)
    if table == "count/vqa-test" and config.dataset == "vqa-v2":
        config = replace(config, parts="train+val")
    return {model: replace(config, models=(model,)) for model in order if model in config.models}


def split_order(table: str, config: OrderVQA) -> dict[str, OrderVQA]:
    """One model each, the slowest first."""
    del table
    return {
        model: replace(config, models=(model,))
        for model in reversed(ORDER_ROWS)
        if model in config.models
    }


_RUN = "torchsets.lab.experiments.vqa"
_DATA = ("dataset", "pairs", "test_pairs", "noise")
_FIXED_COUNT = (
    *_DATA,
    "answers",
    "embedding",
    "question",
    "attention",
    "hidden",
    "objects",
    "dropout",
    "batch_size",
    "learning_rate",
    "half_life",
    "epochs",
    "steps",
)
_COUNT_TAKES = {"smoke": "10 s", "cpu": "20 min", "full": "a week"}

COUNT_VQA = Experiment(
    "vqa-count",
    "answer questions about proposals with soft attention: with and without the counting module",
    config=CountVQA,
    scales={
        "smoke": {
            "dataset": "synthetic",
            "pairs": 20,
            "test_pairs": 10,
            "embedding": 4,
            "question": 8,
            "attention": 8,
            "hidden": 8,
            "batch_size": 32,
            "half_life": 2,
            "steps": 4,
            "evaluations": 2,
            "toy_steps": 2,
        },
        "cpu": {
            "dataset": "synthetic",
            "embedding": 32,
            "question": 64,
            "attention": 64,
            "hidden": 128,
            "dropout": 0.1,
            "learning_rate": 0.003,
            "half_life": 828,
            "epochs": 24,
            "evaluations": 12,
        },
        "full": {},
    },
    run=f"{_RUN}.count:run",
    split=split_count,
    tables=(
        Table(
            "count/vqa-val",
            takes=_COUNT_TAKES,
            seeds={"cpu": 4, "full": 4},
            fixed=(*_FIXED_COUNT, "parts", "counter_rate"),
        ),
        Table("count/vqa-test", takes=_COUNT_TAKES, fixed=_FIXED_COUNT),
        Table("vqa-count", takes=_COUNT_TAKES, seeds={"cpu": 4, "full": 4}, thesis=False),
    ),
)

_FIXED_ORDER = (
    *_DATA,
    "embedding",
    "hidden",
    "glimpses",
    "objects",
    "read",
    "compared",
    "inner_steps",
    "dropout",
    "late_dropout",
    "batch_size",
    "learning_rate",
    "clip",
    "epochs",
    "steps",
)
_ORDER_TAKES = {"smoke": "10 s", "cpu": "20 min", "full": "weeks"}
_ORDER_SEEDS = {"cpu": 4, "full": 10}

ORDER_VQA = Experiment(
    "vqa-order",
    "answer questions with bilinear attention: with and without a learned order of the proposals",
    config=OrderVQA,
    scales={
        "smoke": {
            "dataset": "synthetic",
            "pairs": 20,
            "test_pairs": 10,
            "embedding": 4,
            "hidden": 8,
            "glimpses": 2,
            "read": 4,
            "compared": 4,
            "batch_size": 32,
            "steps": 4,
            "evaluations": 2,
        },
        "cpu": {
            "dataset": "synthetic",
            "embedding": 16,
            "hidden": 64,
            "glimpses": 2,
            "read": 32,
            "compared": 32,
            "dropout": 0.1,
            "late_dropout": 0.2,
            "batch_size": 128,
            "learning_rate": 0.003,
            "epochs": 8,
            "evaluations": 8,
        },
        "full": {},
    },
    run=f"{_RUN}.order:run",
    split=split_order,
    tables=(
        Table("perm/vqa", takes=_ORDER_TAKES, seeds=_ORDER_SEEDS, fixed=_FIXED_ORDER),
        Table("vqa-order", takes=_ORDER_TAKES, seeds=_ORDER_SEEDS, thesis=False),
    ),
)

EXPERIMENTS = (COUNT_VQA, ORDER_VQA)
