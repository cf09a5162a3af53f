"""Tables of results: ours, over all seeds, beside the thesis'."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from torchsets.lab.records import Run
from torchsets.lab.reports.thesis import thesis_tables


@dataclass(frozen=True)
class Cell:
    """A mean over seeds; without a spread if there is one seed, without a mean if there is none."""

    mean: float | None = None
    spread: float | None = None
    seeds: int = 0

    def __str__(self) -> str:
        if self.mean is None:
            return "–"  # noqa: RUF001
        text = format_number(self.mean)
        return text if self.spread is None else f"{text} ± {format_number(self.spread)}"


@dataclass(frozen=True)
class Row:
    """A model's numbers; None instead of cells where that side has no such row."""

    model: str
    ours: list[Cell] | None
    thesis: list[Cell] | None
    seeds: int


@dataclass(frozen=True)
class Table:
    """One table of the page."""

    key: str
    caption: str
    unit: str
    better: str | None
    columns: list[str]
    rows: list[Row]
    in_thesis: bool


def collect_tables(runs: Sequence[Run]) -> list[Table]:
    """Gather every table that the runs contribute to, or would if they were complete."""
    keys: dict[str, None] = {}
    for run in runs:
        filled = dict.fromkeys(result["table"] for result in run.result["results"])
        complete = run.result["complete"]
        keys.update({key: None for key in run.tables if key in filled or not complete})
        keys.update(filled)
    return [_collect(key, runs) for key in keys]


def format_number(value: float) -> str:
    """Print three decimals, fewer for large and more for tiny numbers.

    Example:
        >>> [format_number(value) for value in (0, 0.00012, 0.27351, 12.3456, 345.678)]
        ['0', '0.00012', '0.274', '12.35', '345.7']
    """
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.001:
        return f"{value:.2g}"
    return f"{value:.3f}" if size < 10 else f"{value:.2f}" if size < 100 else f"{value:.1f}"


def _collect(key: str, runs: Sequence[Run]) -> Table:
    results = [result for run in runs for result in run.result["results"] if result["table"] == key]
    described: dict[str, Any] = next(
        (run.result["tables"][key] for run in runs if key in run.result["tables"]), {}
    )
    thesis: dict[str, Any] = thesis_tables().get(key, {})
    about = {**thesis, **described}
    columns = list(
        dict.fromkeys([*thesis.get("columns", []), *(result["column"] for result in results)])
    )
    printed = {row["model"]: row["values"] for row in thesis.get("rows", [])}
    models = dict.fromkeys([*(result["model"] for result in results), *printed])
    return Table(
        key=key,
        caption=about.get("caption", key),
        unit=about.get("unit", ""),
        better=about.get("better"),
        columns=columns,
        rows=[_row(model, columns, results, printed) for model in models],
        in_thesis=bool(thesis),
    )


def _row(
    model: str,
    columns: list[str],
    results: list[dict[str, Any]],
    printed: dict[str, list[dict[str, Any] | None]],
) -> Row:
    mine = [result for result in results if result["model"] == model]
    ours = []
    for name in columns:  # one number for a seed: runs of several seeds may overlap
        values = {result["seed"]: result["value"] for result in mine if result["column"] == name}
        ours.append(_cell(list(values.values())))
    thesis = None
    if model in printed:
        cells = [
            Cell(value["mean"], value.get("std")) if value else Cell() for value in printed[model]
        ]
        thesis = [*cells, *[Cell()] * (len(columns) - len(cells))]
    seeds = max((cell.seeds for cell in ours), default=0)
    return Row(model, ours if mine else None, thesis, seeds)


def _cell(values: list[float | None]) -> Cell:
    known = [value for value in values if value is not None]
    if not known:
        return Cell()
    return Cell(fmean(known), stdev(known) if len(known) > 1 else None, len(known))
