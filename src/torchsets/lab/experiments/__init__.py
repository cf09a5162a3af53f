"""The experiments of the thesis. Each is one file with a ``Config``, ``SCALES`` and ``run``.

This file only lists them, without importing them: ``torchsets list`` needs no torch. To add one,
write ``experiments/NAME.py`` after the pattern of ``polygons.py`` and add an entry here.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

SCALES = ("smoke", "cpu", "full")


class Experiment(NamedTuple):
    """What ``torchsets list`` says of an experiment without importing it.

    Attributes:
        name: As in ``torchsets run NAME``; the file has underscores for hyphens.
        summary: One line.
        tables: Keys of the thesis' tables that it redraws.
        durations: How long each scale takes.
        data: Files that it needs below the data folder (``TORCHSETS_DATA``); not at scale smoke.
        source: Where to get them.
    """

    name: str
    summary: str
    tables: tuple[str, ...]
    durations: dict[str, str]
    data: tuple[str, ...] = ()
    source: str = ""


class Field(NamedTuple):
    """A field of a ``Config``, as its source writes it."""

    name: str
    type: str
    default: str


_MNIST_FILES = tuple(
    f"mnist/{name}.gz"
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )
)
_MNIST_SOURCE = "https://ossci-datasets.s3.amazonaws.com/mnist (tried by itself on the first run)"
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "polygons",
            "auto-encode rotating polygons: FSPool + FSUnpool against MLP decoders",
            ("fspool/polygons-direct", "fspool/polygons-chamfer", "fspool/polygons-hungarian"),
            {"smoke": "5 s", "cpu": "35 min", "full": "1 h"},
        ),
        Experiment(
            "digits",
            "classify 8x8 digits as point sets with FSPool, sum, mean and max pooling",
            (),
            {"smoke": "5 s", "cpu": "1 min", "full": "4 min"},
        ),
        Experiment(
            "mnist-classify",
            "classify MNIST as point sets with FSPool, sum, mean and max pooling",
            ("fspool/mnist", "fspool/mnist2", "fspool/mnist-100"),
            {"smoke": "10 s", "cpu": "15 min", "full": "a week"},
            data=_MNIST_FILES,
            source=_MNIST_SOURCE,
        ),
        Experiment(
            "mnist-reconstruct",
            "denoise MNIST as point sets: FSPool + FSUnpool against MLP and LSTM decoders",
            ("fspool/mnist1", "fspool/mnist1-masked"),
            {"smoke": "10 s", "cpu": "1 h", "full": "two weeks"},
            data=_MNIST_FILES,
            source=_MNIST_SOURCE,
        ),
        Experiment(
            "count-toy",
            "count true boxes from noisy weights: the counting module against sums, suppression",
            (),
            {"smoke": "5 s", "cpu": "40 min", "full": "a day"},
        ),
        Experiment(
            "sort-numbers",
            "sort numbers by a learned comparison: permutation-optimisation against LinAssign",
            ("perm/sorting-text",),
            {"smoke": "5 s", "cpu": "40 min", "full": "a day"},
        ),
        Experiment(
            "dspn-polygons",
            "predict the corners of polygons from their angle: DSPN against MLP and LSTM decoders",
            (),
            {"smoke": "5 s", "cpu": "25 min", "full": "3 h"},
        ),
    )
}


def load_experiment(name: str) -> Any:
    """Import the module of an experiment: it has ``Config``, ``SCALES`` and ``run``."""
    return import_module(f"torchsets.lab.experiments.{_file_stem(name)}")


def read_fields(name: str) -> list[Field]:
    """List the fields of an experiment's ``Config`` by reading its source, without torch."""
    return [
        Field(node.target.id, ast.unparse(node.annotation), ast.unparse(node.value))
        for node in _config_class(name).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    ]


def read_description(name: str) -> str:
    """Return the docstring of an experiment's ``Config``, without importing torch."""
    return ast.get_docstring(_config_class(name)) or ""


def _config_class(name: str) -> ast.ClassDef:
    path = Path(__file__).with_name(f"{_file_stem(name)}.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return next(
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Config"
    )


def _file_stem(name: str) -> str:
    return name.replace("-", "_")
