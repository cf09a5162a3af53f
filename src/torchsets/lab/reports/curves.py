"""Learning curves: the lines of ``metrics.jsonl`` as data for a figure of kind ``lines``."""

from collections.abc import Sequence
from typing import Any

from torchsets.lab.records import Run

_LOG_FROM = 50  # a positive curve that spans more than this factor is drawn on a log axis
_MOST_NAMES = 16  # more names than this are no legend: the lines are coloured in their order


def learning_curves(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return one figure for each recorded quantity: a panel for each part before the slash."""
    names = dict.fromkeys(
        name
        for run in runs
        for line in run.metrics
        for name in line
        if name not in ("task", "step")
    )
    return {name: _figure(name, runs) for name in names}


def _figure(name: str, runs: Sequence[Run]) -> dict[str, Any]:
    curves: dict[str, dict[tuple[int, str], list[tuple[int, float | None]]]] = {}
    for index, run in enumerate(runs):
        for line in run.metrics:
            if name in line:
                panel, slash, label = line["task"].partition("/")
                panel, label = (panel, label) if slash else ("", panel)
                curve = curves.setdefault(panel, {}).setdefault((index, label), [])
                curve.append((line["step"], line[name]))
    labels = list(dict.fromkeys(label for lines in curves.values() for _, label in lines))
    sweep = len(labels) > _MOST_NAMES
    panels = [
        {
            "title": panel,
            "x_label": "step",
            "y_label": name,
            "log_y": _spans_decades([y for line in lines.values() for _, y in line]),
            "lines": [
                {
                    "label": label,
                    "x": [x for x, _ in line],
                    "y": [y for _, y in line],
                    "faint": len(runs) > 3,
                    "value": labels.index(label) if sweep else None,
                }
                for (_, label), line in lines.items()
            ],
        }
        for panel, lines in curves.items()
    ]
    figure: dict[str, Any] = {"panels": panels, "columns": min(2, len(panels))}
    if sweep:
        figure["colour_text"] = f"from {labels[0]} (blue) to {labels[-1]} (red)"
    return figure


def _spans_decades(values: list[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and max(known) > _LOG_FROM * min(known)
