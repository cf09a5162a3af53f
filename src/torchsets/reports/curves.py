"""Learning curves: the lines of ``metrics.jsonl`` as data for a figure of kind ``lines``."""

from collections.abc import Sequence
from typing import Any

from torchsets.records import Run

_LOG_FROM = 50  # a positive curve that spans more than this factor is drawn on a log axis


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
                }
                for (_, label), line in lines.items()
            ],
        }
        for panel, lines in curves.items()
    ]
    return {"panels": panels, "columns": min(2, len(panels))}


def _spans_decades(values: list[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and max(known) > _LOG_FROM * min(known)
