"""The experiments of the thesis: one folder per subject, one registry, declared without torch.

A subject's ``configs.py`` says what its experiments are, and its other files what they do. To add
a subject, write its folder and add its name to ``SUBJECTS``.
"""

from functools import cache
from importlib import import_module
from typing import Any

from torchsets.lab.experiments.experiment import (
    SCALES,
    Experiment,
    Table,
    check_at_least,
    check_names,
    nearest,
)
from torchsets.lab.reports.thesis import thesis_tables

SUBJECTS = (
    "polygons",
    "mnist",
    "counting",
    "sorting",
    "mosaics",
    "graphs",
    "numbering",
    "clevr",
    "scenes",
    "pictures",
    "digits",
    "vqa",
    "estimators",
)

__all__ = [
    "SCALES",
    "SUBJECTS",
    "Experiment",
    "Table",
    "check_at_least",
    "check_names",
    "experiments",
    "find_experiment",
    "find_table",
    "tables",
]


@cache
def experiments() -> dict[str, Experiment[Any]]:
    """Return every experiment by its name."""
    found = [
        experiment
        for subject in SUBJECTS
        for experiment in import_module(f"{__name__}.{subject}.configs").EXPERIMENTS
    ]
    return {experiment.name: experiment for experiment in found}


@cache
def tables() -> dict[str, tuple[Table, Experiment[Any]]]:
    """Return every table that can be reproduced, by its key, with the experiment that fills it."""
    return {
        table.key: (table, experiment)
        for experiment in experiments().values()
        for table in experiment.tables
    }


def find_experiment(name: str) -> Experiment[Any]:
    """Return an experiment; for an unknown name a ``ValueError`` names the nearest."""
    if name not in experiments():
        raise ValueError(
            f"there is no experiment {name!r}; did you mean {nearest(name, experiments())!r}? "
            "See: torchsets list"
        )
    return experiments()[name]


def find_table(key: str) -> tuple[Table, Experiment[Any]]:
    """Return a table and its experiment; for an unknown key a ``ValueError`` names the nearest."""
    if key in thesis_tables() and key not in tables():
        raise ValueError(f"{key} is a table of the thesis that is not implemented yet")
    if key not in tables():
        raise ValueError(
            f"there is no table {key!r} to reproduce; did you mean {nearest(key, tables())!r}? "
            "See: torchsets reproduce --list"
        )
    return tables()[key]
