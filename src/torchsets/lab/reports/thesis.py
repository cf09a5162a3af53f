"""The numbers that the thesis prints, by table; and numbers published elsewhere."""

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
    """A table of the thesis, or numbers from its figures and text.

    ``by`` names the rows in a report: "published" for numbers that are not the thesis', of which
    ``source`` says whose they are.
    """

    source: str
    caption: str
    unit: str
    columns: Sequence[str]
    rows: Sequence[PrintedRow]
    better: str | None = None
    by: str = "thesis"


@cache
def thesis_tables() -> dict[str, ThesisTable]:
    """Return the thesis' tables by key, and those of ``published_tables.json``.

    Example:
        >>> thesis_tables()["fspool/polygons-chamfer"].rows[0].values[1].mean
        0.001
    """
    tables = {}
    for name in ("thesis_tables.json", "published_tables.json"):
        tables.update(json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8")))
    return {key: from_json(ThesisTable, about, key, strict=False) for key, about in tables.items()}
