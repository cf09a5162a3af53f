"""What the experiments on image mosaics are. Needs no torch."""

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from torchsets.lab.experiments.experiment import Experiment, Table, check_at_least, check_names

THESIS_ROWS = {"linear": "LinAssign", "po-u": "PO-U", "po-la": "PO-LA"}
ROWS = {**THESIS_ROWS, "po-u-tags": "PO-U, ties broken", "po-la-tags": "PO-LA, ties broken"}
_COUNTS = ("steps", "epochs", "training_pictures", "test_pictures")
_SIZES = ("batch_size", "features", "hidden")


class Source(NamedTuple):
    """A set of pictures, and the thesis' settings for it.

    Attributes:
        label: As the columns of the tables name it.
        side: Height and width of a picture before it is rescaled.
        channels: Colours of a picture.
        classes: Number of classes.
        training: Training pictures, as published.
        test: Test pictures, as published.
        features: Channels of the convolution on tiles.
        epochs: Passes over the training pictures.
    """

    label: str
    side: int
    channels: int
    classes: int
    training: int
    test: int
    features: int = 64
    epochs: int = 20


SOURCES = {
    "mnist": Source("MNIST", 28, 1, 10, 60_000, 10_000),
    "cifar10": Source("CIFAR10", 32, 3, 10, 50_000, 10_000),
    "imagenet": Source("ImageNet64", 64, 3, 1000, 1_281_167, 50_000, features=128, epochs=1),
}
DIGITS = Source("digits", 8, 1, 10, 1347, 450)  # embedded; stands in for any of them


@dataclass(frozen=True)
class Explicit:
    """The defaults are the thesis' settings (section 4.4.2 and appendix A.2.2).

    Attributes:
        dataset: published, the files of the datasets; or digits, small embedded pictures in place
            of them, which need no file.
        datasets: Any of mnist, cifar10, imagenet.
        grids: Tiles along each side of a picture.
        models: Any of linear, po-u, po-la; po-u-tags and po-la-tags, which see two numbers more of
            each tile that has an equal one, are not in the thesis.
        steps: Optimiser steps. None: those of the epochs.
        epochs: Passes over the training pictures. None: 20, for ImageNet 1.
        training_pictures: How many pictures to train on. None: all.
        test_pictures: How many pictures to measure on. None: all.
        batch_size: Pictures per step.
        learning_rate: Of Adam.
        features: Channels of the convolution on tiles. None: 64, for ImageNet 128.
        hidden: Hidden units of the comparison.
        inner_steps: Gradient steps on the permutation, T.
        clip: Largest size of a linear score. None: no limit.
        analysed_pictures: How many test pictures the sensitivity maps are averaged over.
        seed: Seed of the weights and the batches.
        device: auto, cpu or cuda.
    """

    dataset: str = "published"
    datasets: tuple[str, ...] = ("mnist", "cifar10", "imagenet")
    grids: tuple[int, ...] = (2, 3, 4, 5)
    models: tuple[str, ...] = ("linear", "po-u", "po-la")
    steps: int | None = None
    epochs: int | None = None
    training_pictures: int | None = None
    test_pictures: int | None = None
    batch_size: int = 32
    learning_rate: float = 1e-3
    features: int | None = None
    hidden: int = 64
    inner_steps: int = 4
    clip: float | None = None
    analysed_pictures: int = 1000
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        _check(self)
        check_names("models", self.models, ROWS)
        check_at_least(1, self, "analysed_pictures")


@dataclass(frozen=True)
class Classify:
    """The defaults are the thesis' settings (section 4.4.3 and appendix A.2.3).

    Attributes:
        dataset: published, the files of the datasets; or digits, small embedded pictures in place
            of them, which need no file.
        datasets: Any of mnist, cifar10, imagenet.
        grids: Tiles along each side of a picture.
        models: Any of linear, po-u, po-la.
        steps: Optimiser steps of a model. None: those of the epochs.
        classifier_steps: Optimiser steps of a classifier. None: those of the epochs.
        epochs: Passes over the training pictures. None: 20, for ImageNet 1.
        training_pictures: How many pictures to train on. None: all.
        test_pictures: How many pictures to measure on. None: all.
        batch_size: Pictures per step.
        learning_rate: Of Adam.
        width: Channels of the first stage of the ResNet-18.
        batch_statistics: Whether the frozen classifier still normalises by the statistics of the
            batch and updates its running ones, as in the author's code.
        fspool: Whether to train a classifier with FSPool in place of the global mean as well.
        features: Channels of the convolution on tiles. None: 64, for ImageNet 128.
        hidden: Hidden units of the comparison.
        inner_steps: Gradient steps on the permutation, T.
        clip: Largest size of a linear score. None: no limit.
        seed: Seed of the weights and the batches.
        device: auto, cpu or cuda.
    """

    dataset: str = "published"
    datasets: tuple[str, ...] = ("mnist", "cifar10", "imagenet")
    grids: tuple[int, ...] = (2, 3, 4, 5)
    models: tuple[str, ...] = ("linear", "po-u", "po-la")
    steps: int | None = None
    classifier_steps: int | None = None
    epochs: int | None = None
    training_pictures: int | None = None
    test_pictures: int | None = None
    batch_size: int = 32
    learning_rate: float = 1e-3
    width: int = 64
    batch_statistics: bool = False
    fspool: bool = True
    features: int | None = None
    hidden: int = 64
    inner_steps: int = 4
    clip: float | None = 10.0
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        _check(self)
        check_names("models", self.models, THESIS_ROWS)
        check_at_least(1, self, "classifier_steps", "width")


Config = TypeVar("Config", Explicit, Classify)


def _check(config: Explicit | Classify) -> None:
    check_names("dataset", (config.dataset,), ("published", "digits"))
    check_names("datasets", config.datasets, SOURCES)
    check_at_least(1, config, *_COUNTS, *_SIZES, "grids")
    check_at_least(0, config, "inner_steps")
    if config.dataset == "digits" and len(config.datasets) > 1:
        raise ValueError(
            f"digits stand in for one of the datasets, got {', '.join(config.datasets)}"
        )


def sources_of(config: Explicit | Classify) -> dict[str, Source]:
    """The sources of the pictures, by name."""
    if config.dataset == "digits":
        return {"digits": DIGITS}
    return {name: SOURCES[name] for name in config.datasets}


def split_explicit(table: str, config: Explicit) -> dict[str, Explicit]:
    """One model on one grid of one dataset each."""
    del table
    return {
        f"{dataset} {grid}x{grid} {model}": replace(
            config, datasets=(dataset,), grids=(grid,), models=(model,)
        )
        for dataset in reversed(config.datasets)  # large pictures take longest
        for grid in sorted(config.grids, reverse=True)
        for model in config.models
    }


def split_classify(table: str, config: Classify) -> dict[str, Classify]:
    """One grid of one dataset each: its models share a classifier."""
    del table
    return {
        f"{dataset} {grid}x{grid}": replace(config, datasets=(dataset,), grids=(grid,))
        for dataset in reversed(config.datasets)
        for grid in sorted(config.grids, reverse=True)
    }


_RUN = "torchsets.lab.experiments.mosaics"
_FIXED = ("dataset", *_COUNTS, *_SIZES, "learning_rate", "inner_steps", "clip")
_SMOKE = {"dataset": "digits", "datasets": ("mnist",), "grids": (2, 3), "test_pictures": 64}
_SMALL = {"batch_size": 16, "features": 8, "hidden": 8}
_WEEKS = {"smoke": "10 s", "cpu": "1 h", "full": "two weeks"}

EXPLICIT = Experiment(
    "mosaics",
    "put the shuffled tiles of pictures together: permutation-optimisation against LinAssign",
    config=Explicit,
    scales={
        "smoke": {**_SMOKE, **_SMALL, "models": tuple(ROWS), "steps": 20, "analysed_pictures": 16},
        "cpu": {"datasets": ("mnist", "cifar10"), "models": tuple(ROWS), "steps": 3000},
        "full": {},
    },
    run=f"{_RUN}.explicit:run",
    split=split_explicit,
    data=("mnist", "cifar10"),
    tables=(
        Table("perm/mosaic", takes=_WEEKS, fixed=_FIXED),
        Table("perm/mosaic2", takes=_WEEKS, fixed=_FIXED),
        Table("mosaics", takes=_WEEKS, thesis=False),
    ),
)

_MONTH = {"smoke": "10 s", "cpu": "15 min", "full": "a month"}
_FIXED_CLASSES = (*_FIXED, "classifier_steps", "width", "batch_statistics")
CLASSIFY = Experiment(
    "mosaics-classify",
    "learn to put tiles together from a frozen classifier of whole pictures",
    config=Classify,
    scales={
        "smoke": {**_SMOKE, **_SMALL, "steps": 10, "classifier_steps": 10, "width": 4},
        "cpu": {
            "datasets": ("mnist", "cifar10"),
            "grids": (2, 3),
            "steps": 600,
            "classifier_steps": 1000,
            "width": 16,
        },
        "full": {},
    },
    run=f"{_RUN}.classify:run",
    split=split_classify,
    data=("mnist", "cifar10"),
    tables=(
        Table("perm/classify", takes=_MONTH, fixed=_FIXED_CLASSES),
        Table("perm/classify2", takes=_MONTH, fixed=_FIXED_CLASSES),
        Table("mosaics-classify", takes=_MONTH, thesis=False),
    ),
)

EXPERIMENTS = (EXPLICIT, CLASSIFY)
