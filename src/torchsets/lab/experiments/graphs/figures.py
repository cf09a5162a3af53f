"""The figures of the experiment on graph classification."""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from torchsets.lab.experiments.graphs.selection import BY_MEAN, Curves, Difference, choose
from torchsets.lab.figures import Line, Lines, Panel
from torchsets.lab.records import Recorder


def draw_results(
    recorder: Recorder,
    label: str,
    curves: Mapping[str, Curves],
    weights: Mapping[str, Sequence[Tensor]],
    differences: Mapping[str, Difference],
) -> None:
    """Draw everything of one dataset."""
    draw_curves(recorder, label, curves)
    for row, functions in weights.items():
        draw_weights(recorder, label, row, functions)
    if differences:
        draw_differences(recorder, label, differences)


def draw_curves(recorder: Recorder, label: str, curves: Mapping[str, Curves]) -> None:
    """Draw mean accuracies over the folds after every epoch, with the chosen epoch marked."""
    panels = []
    for what in ("validation", "test"):
        lines = []
        for row, one in curves.items():
            chosen = choose(one)[BY_MEAN]
            setting, epoch = int(chosen.settings[0]), int(chosen.epochs[0])
            mean = vars(one)[what][setting].mean(axis=0).tolist()
            lines.append(Line(list(range(1, len(mean) + 1)), mean, label=row))
            lines.append(Line([epoch], [mean[epoch - 1]], black=True))
        panels.append(Panel(lines, what, "epoch", "accuracy in %"))
    recorder.add_figure(
        f"accuracy {label}",
        Lines(panels),
        title=f"Accuracy after every epoch, {label}",
        caption="Means over the folds. Black points: the epoch with the highest mean validation "
        "accuracy, whose test accuracy is in the tables.",
        alt="Curves of validation and test accuracy against the epoch, one for each model.",
    )


def draw_weights(recorder: Recorder, label: str, row: str, functions: Sequence[Tensor]) -> None:
    """Draw the learned weight functions of every block, given as (features, points) tensors."""
    panels = []
    low = min(0.0, *(weight.min().item() for weight in functions))
    high = max(weight.max().item() for weight in functions)
    span = (low - 0.1, high + 0.1)
    for block, weight in enumerate(functions):
        place = np.linspace(0, 1, weight.shape[1]).tolist()
        lines = [Line(place, one, faint=True) for one in weight.tolist()]
        lines.append(Line(place, weight.mean(dim=0).tolist(), label="mean", black=True))
        title, place_label = f"block {block + 1}", "place in the sorted set"
        panels.append(Panel(lines, title, place_label, "weight", y_range=span))
    recorder.add_figure(
        f"weights {label} {row.replace(',', '')}",
        Lines(panels, columns=3),
        title=f"What FSPool has learned, {label}, {row}",
        caption="One curve for each feature, from the largest value (0) to the smallest (1), at "
        "the end of the first fold. All start at 1, which is a sum; high at 0 and 0 elsewhere "
        "would be like a maximum.",
        alt="For each block of the network piecewise linear weight functions of all features.",
    )


def draw_differences(recorder: Recorder, label: str, differences: Mapping[str, Difference]) -> None:
    """Draw mean differences of accuracy as bars of one standard error to both sides."""
    count = len(differences)
    lines = [Line([0, 0], [0, count + 1], dashed=True, black=True)]
    for place, (pair, one) in zip(range(count, 0, -1), differences.items(), strict=True):
        error = 0.0 if np.isnan(one.error) else one.error
        lines.append(Line([one.mean - error, one.mean + error], [place, place], label=pair))
        lines.append(Line([one.mean], [place], black=True))
    panel = Panel(lines, x_label="difference in points", y_range=(0.5, count + 0.5))
    recorder.add_figure(
        f"differences {label}",
        Lines([panel]),
        title=f"Differences of test accuracy over the same folds, {label}",
        caption="Means, with one standard error over the folds to both sides; from top to bottom "
        "in the order of the legend.",
        alt="Horizontal bars around the mean differences of accuracy of pairs of models.",
    )
