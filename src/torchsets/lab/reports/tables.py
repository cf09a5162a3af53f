"""Tables of results: ours, over all seeds, beside the thesis'."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from torchsets.lab.records import Cell, Run
from torchsets.lab.records.recorder import VARIANTS
from torchsets.lab.reports.thesis import Printed, thesis_tables


@dataclass(frozen=True)
class Mean:
    """A mean over seeds; without a spread if there is one seed, without a mean if there is none."""

    mean: float | None = None
    spread: float | None = None
    seeds: int = 0
    unit: str = ""

    def __str__(self) -> str:
        if self.mean is None:
            return "–"  # noqa: RUF001
        text = format_number(self.mean, self.unit)
        return text if self.spread is None else f"{text} ± {format_number(self.spread, self.unit)}"


@dataclass(frozen=True)
class Row:
    """A model's numbers; None instead of cells where that side has no such row."""

    model: str
    ours: list[Mean] | None
    thesis: list[Mean] | None
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
    in_thesis: bool  # or published elsewhere: then ``by`` is not thesis
    by: str = "thesis"

    @property
    def has_numbers(self) -> bool:
        """Whether any number of ours is in it."""
        return any(cell.mean is not None for row in self.rows for cell in row.ours or ())


def collect_tables(runs: Sequence[Run]) -> list[Table]:
    """Gather every table that the runs contribute to, or would if they were complete."""
    keys: dict[str, None] = {}
    for run in runs:
        filled = dict.fromkeys(cell.table for cell in run.cells)
        keys.update({key: None for key in run.tables if key in filled or not run.complete})
        keys.update(filled)
    return [_collect(key, runs) for key in keys]


def format_number(value: float, unit: str = "") -> str:
    """Print three decimals, fewer for large and, unless they are per cent, more for tiny numbers.

    Example:
        >>> [format_number(value) for value in (0, 0.00012, 0.27351, 12.3456, 345.678)]
        ['0', '0.00012', '0.274', '12.35', '345.7']
        >>> format_number(0.00012, "%")
        '0.000'
    """
    if value == 0:
        return "0"
    if abs(value) < 0.001 and unit != "%":
        return f"{value:.2g}"
    for decimals, limit in ((3, 10), (2, 100)):
        text = f"{value:.{decimals}f}"
        if abs(float(text)) < limit:  # as printed: 9.9996 becomes 10.00
            return text
    return f"{value:.1f}"


def _collect(key: str, runs: Sequence[Run]) -> Table:
    cells = [cell for run in runs for cell in run.cells if cell.table == key]
    thesis = thesis_tables().get(key)
    about = next((run.descriptions[key] for run in runs if key in run.descriptions), None)
    base, caption, unit, better = key.removesuffix(f"/{VARIANTS}"), key, "", None
    if about is not None:
        caption, unit, better = about.caption, about.unit, about.better
    elif thesis is not None:
        caption, unit, better = thesis.caption, thesis.unit, thesis.better
    elif own := next((run.descriptions[base] for run in runs if base in run.descriptions), None):
        caption = f"{own.caption}; with other settings, which the rows name"
        unit, better = own.unit, own.better
    elif original := thesis_tables().get(base):
        caption = f"{original.caption}; with other settings than the thesis', which the rows name"
        unit, better = original.unit, original.better
    columns = dict.fromkeys([*(thesis.columns if thesis else ()), *(c.column for c in cells)])
    printed = {row.model: row.values for row in thesis.rows} if thesis else {}
    models = dict.fromkeys([*(cell.model for cell in cells), *printed])
    return Table(
        key=key,
        caption=caption,
        unit=unit,
        better=better,
        columns=list(columns),
        rows=[_row(model, list(columns), cells, printed.get(model), unit) for model in models],
        in_thesis=thesis is not None,
        by=thesis.by if thesis is not None else "thesis",
    )


def _row(
    model: str,
    columns: list[str],
    cells: Sequence[Cell],
    printed: Sequence[Printed | None] | None,
    unit: str,
) -> Row:
    mine = [cell for cell in cells if cell.model == model]
    ours = []
    for name in columns:  # one number for a seed: runs of several seeds may overlap
        values = {cell.seed: cell.value for cell in mine if cell.column == name}
        ours.append(_cell(list(values.values()), unit))
    thesis = None
    if printed is not None:
        means = [Mean(value.mean, value.std) if value else Mean() for value in printed]
        thesis = [*means, *[Mean()] * (len(columns) - len(means))]
    seeds = max((cell.seeds for cell in ours), default=0)
    return Row(model, ours if mine else None, thesis, seeds)


def _cell(values: Sequence[float | None], unit: str) -> Mean:
    known = [value for value in values if value is not None]
    if not known:
        return Mean()
    return Mean(fmean(known), stdev(known) if len(known) > 1 else None, len(known), unit)
