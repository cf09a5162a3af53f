"""The numbers that the thesis prints, by table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchsets.lab.typed import from_json


@dataclass(frozen=True)
class Printed:
    """A number of the thesis, with its standard deviation where it has one."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class PrintedRow:
    """A model's numbers; None where the thesis has none."""

    model: str
    values: Sequence[Printed | None]


@dataclass(frozen=True)
class ThesisTable:
    """A table of the thesis, or numbers from its figures and text."""

    source: str
    caption: str
    unit: str
    columns: Sequence[str]
    rows: Sequence[PrintedRow]
    better: str | None = None


@cache
def thesis_tables() -> dict[str, ThesisTable]:
    """Return the thesis' tables by key.

    Example:
        >>> thesis_tables()["fspool/polygons-chamfer"].rows[0].values[1].mean
        0.001
    """
    path = Path(__file__).with_name("thesis_tables.json")
    tables = json.loads(path.read_text(encoding="utf-8"))
    return {key: from_json(ThesisTable, about, key, strict=False) for key, about in tables.items()}
