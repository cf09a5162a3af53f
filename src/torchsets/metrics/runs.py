"""Mean and spread of a result over several runs."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class RunSummary(NamedTuple):
    """What several runs of one configuration gave.

    Attributes:
        mean: Mean over the runs.
        spread: Standard deviation over the runs (divided by runs - 1); nan for a single run.
        runs: Number of runs.
    """

    mean: float
    spread: float
    runs: int

    def __str__(self) -> str:
        if self.runs == 1:
            return f"{self.mean:.1f} (1 run)"
        return f"{self.mean:.1f} ± {self.spread:.1f} ({self.runs} runs)"


def summarise_runs(results: Sequence[float]) -> RunSummary:
    """Mean, standard deviation and number of the results of several runs.

    Raises:
        ValueError: If there is no result.

    Example:
        >>> str(summarise_runs([98.5, 99.1, 98.8]))
        '98.8 ± 0.3 (3 runs)'
    """
    runs = len(results)
    if runs == 0:
        raise ValueError("results must hold the result of at least one run, got none")
    mean = math.fsum(results) / runs
    if runs == 1:
        return RunSummary(mean, math.nan, runs)
    squares = math.fsum((result - mean) ** 2 for result in results)
    return RunSummary(mean, math.sqrt(squares / (runs - 1)), runs)
