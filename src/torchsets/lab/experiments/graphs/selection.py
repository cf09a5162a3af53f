"""Cross-validation: parts, folds, batches, which epoch counts, and tests. Needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from torchsets.lab.experiments.graphs.configs import PAIRS, ROWS
from torchsets.lab.records import read_runs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
BY_MEAN = "validation, mean over folds"
BY_FOLD = "validation, each fold"
BY_TEST = "test, as Xu 2019 did"


class Fold(NamedTuple):
    """Numbers of graphs: to train on, to choose by and to test on."""

    training: Ints
    validation: Ints
    test: Ints


@dataclass(frozen=True)
class Curves:
    """Accuracies in per cent after every epoch, (settings, folds, epochs)."""

    validation: Floats
    test: Floats


class Chosen(NamedTuple):
    """What was chosen in each fold: setting, epoch from 1 on, and test accuracy; each (folds,)."""

    settings: Ints
    epochs: Ints
    accuracies: Floats


class Difference(NamedTuple):
    """A mean difference over folds, its standard error (nan of one fold), and the folds."""

    mean: float
    error: float
    folds: int


class SignedRanks(NamedTuple):
    """Wilcoxon's signed-rank test: W, two-sided p by the normal approximation, and exact."""

    statistic: float
    normal: float
    exact: float


def cut_folds(count: int, parts: int, *, seed: int, labels: Ints | None = None) -> list[Fold]:
    """Cut 0 ... count - 1 into parts: each is tested in one fold, and chooses in the one before.

    Args:
        count: How many graphs there are, at least one for each part.
        parts: How many parts, at least three.
        seed: Of the one permutation that is cut.
        labels: With labels, (count,), the classes are dealt evenly to the parts.
    """
    if not 3 <= parts <= count:
        raise ValueError(f"parts must be between 3 and {count} for {count} graphs, got {parts}")
    order = np.random.default_rng(seed).permutation(count)
    if labels is None:
        cut = np.array_split(order, parts)
    else:
        by_class = order[labels[order].argsort(kind="stable")]
        cut = [by_class[part::parts] for part in range(parts)]
    folds = []
    for test in range(parts):
        validation = (test + 1) % parts
        training = [cut[one] for one in range(parts) if one not in (test, validation)]
        folds.append(Fold(np.concatenate(training), cut[validation], cut[test]))
    return folds


def batch_borders(count: int, batch_size: int) -> list[int]:
    """Where the batches of an epoch begin and end; a last one of one graph joins that before.

    Example:
        >>> batch_borders(9, 4), batch_borders(10, 4)
        ([0, 4, 9], [0, 4, 8, 10])
    """
    borders = [*range(0, count, batch_size), count]
    if len(borders) > 2 and borders[-1] - borders[-2] == 1:
        del borders[-2]
    return borders


def choose(curves: Curves) -> dict[str, Chosen]:
    """Choose setting and epoch in three ways from the same curves; of equals the first counts.

    By the mean validation accuracy over the folds, one choice for all: the thesis' tables. By the
    validation accuracy of each fold alone, which lets no fold see the test graphs of another. And
    by the mean test accuracy itself, which is no fair measure.
    """
    folds = curves.test.shape[1]
    own = [_best(curves.validation[:, fold]) for fold in range(folds)]
    return {
        BY_MEAN: _take(curves, [_best(curves.validation.mean(axis=1))] * folds),
        BY_FOLD: _take(curves, own),
        BY_TEST: _take(curves, [_best(curves.test.mean(axis=1))] * folds),
    }


def compare_folds(first: Floats, second: Floats) -> Difference:
    """The mean of ``first - second`` over the same folds, and its standard error."""
    differences = first - second
    count = len(differences)
    error = differences.std(ddof=1) / np.sqrt(count) if count > 1 else np.nan
    return Difference(float(differences.mean()), float(error), count)


def compare_datasets(differences: Sequence[float]) -> SignedRanks:
    """Test whether differences, one of each dataset, are symmetric around 0; zeros are dropped.

    The exact probability goes through all signs, so that equal ranks count as what they are; of
    more than 16 differences it draws 65536 signs.

    Example:
        >>> compare_datasets([1.0, 2.0, 3.0, -4.0]).statistic
        4.0
    """
    every_sign = stats.PermutationMethod(n_resamples=2**16)
    exact: Any = stats.wilcoxon(differences, method=every_sign)
    normal: Any = stats.wilcoxon(differences, method="approx")
    return SignedRanks(float(exact.statistic), float(normal.pvalue), float(exact.pvalue))


def compare_recorded(folder: str | Path) -> dict[str, SignedRanks]:
    """Test GIN-FSPool against GIN-Base over all datasets recorded below a folder, as the thesis.

    Returns:
        The tests of the accuracies and of the epochs until the best validation accuracy, named as
        in the thesis' table ``fspool/graph-wilcoxon-text``.

    Raises:
        ValueError: If no dataset has both rows.
    """
    runs = read_runs([folder])
    return {
        "accuracy difference": compare_datasets(_recorded(runs, "")),
        "convergence-speed difference": compare_datasets(_recorded(runs, "-epochs")),
    }


def compare_recorded_folds(folder: str | Path) -> dict[str, Difference]:
    """Compare rows fold by fold over all runs below a folder: pairs of two shards, too.

    Returns:
        Differences named as in the table ``graphs-classify/differences``, over all seeds.

    Raises:
        ValueError: If two runs have other numbers for one fold: they were trained differently.
    """
    found: dict[str, dict[str, float]] = {}
    for run in read_runs([folder]):
        for cell in run.cells:
            fold = cell.table == "graphs-classify/folds" and cell.column.startswith("fold ")
            if fold and cell.value is not None:
                known = found.setdefault(cell.model, {})
                if known.setdefault(f"{cell.seed} {cell.column}", cell.value) != cell.value:
                    raise ValueError(
                        f"the runs below {folder} must have one number for {cell.column} of "
                        f"{cell.model}, seed {cell.seed}, got another in {run.folder}"
                    )
    differences = {}
    for label in dict.fromkeys(row.partition(", ")[0] for row in found):
        for first, second in ((ROWS[one], ROWS[other]) for one, other in PAIRS):
            ours, base = (found.get(f"{label}, {row}", {}) for row in (first, second))
            both = [[ours[fold], base[fold]] for fold in ours if fold in base]
            if both:
                difference = compare_folds(*np.array(both).T)
                differences[f"{label}, {first} minus {second}"] = difference
    return differences


def _recorded(runs: Sequence[Any], suffix: str) -> list[float]:
    """FSPool minus base, each a mean over the seeds, for every dataset that has both."""
    tables = [f"fspool/graph-{kind}{suffix}" for kind in ("social", "bio")]
    found: dict[str, dict[str, dict[int | None, float]]] = {}
    for cell in (cell for run in runs for cell in run.cells if cell.table in tables):
        if cell.value is not None:
            rows = found.setdefault(cell.column, {})
            rows.setdefault(cell.model, {})[cell.seed] = cell.value
    both = [rows for rows in found.values() if {"GIN-FSPool", "GIN-Base"} <= rows.keys()]
    if not both:
        raise ValueError(f"folder must have runs that fill {' or '.join(tables)}, got none")
    ours, base = (
        np.array([np.mean(list(one[row].values())) for one in both])
        for row in ("GIN-FSPool", "GIN-Base")
    )
    return (ours - base).round(9).tolist()  # so that equal differences are equal


def _best(accuracies: Floats) -> tuple[int, int]:
    """Setting and epoch of the first maximum of accuracies (settings, epochs)."""
    # Means that are equal on paper may differ in the last bit.
    setting, epoch = np.unravel_index(accuracies.round(9).argmax(), accuracies.shape)
    return int(setting), int(epoch)


def _take(curves: Curves, choices: Sequence[tuple[int, int]]) -> Chosen:
    settings, epochs = np.array(choices, dtype=np.int64).T
    accuracies = curves.test[settings, np.arange(len(choices)), epochs]
    return Chosen(settings, epochs + 1, accuracies)
