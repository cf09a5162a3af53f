"""The numbers that the thesis prints, by table."""

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def thesis_tables() -> dict[str, dict[str, Any]]:
    """Return the thesis' tables: caption, metric, unit, columns and rows of (mean, std) cells.

    Example:
        >>> thesis_tables()["fspool/polygons-chamfer"]["rows"][0]["values"][1]["mean"]
        0.001
    """
    text = Path(__file__).with_name("thesis_tables.json").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = json.loads(text)
    return tables
