"""What several runs say together: models at equal time, and tests over seeds. Needs no torch."""

from collections.abc import Sequence
from typing import Any

from scipy import stats

from torchsets.lab.experiments.clevr.configs import OTHER_ROWS, ROWS
from torchsets.lab.records import Cell, Run

_TABLES = {
    "fspool/clevr": "fspool/clevr-ttest-text",
    "clevr-questions/accuracy": "clevr-questions/tests",
}
_MINUTES = (1, 2, 3, 4, 6, 8, 12, 16)


def derive_cells(runs: Sequence[Run]) -> list[Cell]:
    """The cells that no single run has."""
    return [*compare_at_equal_time(runs), *compare_seeds(runs)]


def compare_at_equal_time(runs: Sequence[Run]) -> list[Cell]:
    """The accuracy of every model after as many minutes of steps, for as long as it was trained.

    A step takes the recorded CPU time of a forward and backward pass, a mean over the seeds: the
    time by the clock depends on what else the machine did.
    """
    cells = []
    for task, row in OTHER_ROWS.items():
        milliseconds = _recorded(runs, "clevr-questions/seconds", row, "ms")
        if not milliseconds:
            continue
        minutes_of_step = sum(milliseconds) / len(milliseconds) / 60_000
        for run in runs:
            curve = [
                (float(str(line["step"])) * minutes_of_step, float(str(line["accuracy"])))
                for line in run.metrics
                if line["task"] == task and "accuracy" in line
            ]
            for minutes in _MINUTES:
                within = [accuracy for time, accuracy in curve if time <= minutes]
                if within and curve[-1][0] >= minutes:
                    column = f"{minutes} min"
                    place = ("clevr-questions/equal-time", row, column, run.seed)
                    cells.append(Cell(*place, within[-1]))
    return cells


def compare_seeds(runs: Sequence[Run]) -> list[Cell]:
    """Welch's t-test of FSPool's accuracies against every other model's: two-sided p.

    A model with fewer than two seeds has none; neither have accuracies that are all equal.
    """
    cells = []
    for table, outcome in _TABLES.items():
        ours = _recorded(runs, table, ROWS["fspool"], "accuracy")
        for row in ROWS.values():
            other = _recorded(runs, table, row, "accuracy")
            if row == ROWS["fspool"] or min(len(ours), len(other)) < 2:
                continue
            if len({*ours, *other}) == 1:
                continue
            found: Any = stats.ttest_ind(ours, other, equal_var=False)
            cells.append(Cell(outcome, ROWS["fspool"], f"vs {row}", None, float(found.pvalue)))
    return cells


def _recorded(runs: Sequence[Run], table: str, row: str, column: str) -> list[float]:
    """The numbers of a cell, one for each seed that has it."""
    by_seed = {
        cell.seed: cell.value
        for run in runs
        for cell in run.cells
        if (cell.table, cell.model, cell.column) == (table, row, column)
    }
    return [value for value in by_seed.values() if value is not None]
