"""Learning curves: the lines of ``metrics.jsonl`` as figures."""

from collections.abc import Mapping, Sequence

from torchsets.lab.figures import Line, Lines, Panel
from torchsets.lab.records import Run

_LOG_FROM = 50  # a positive curve that spans more than this factor is drawn on a log axis
_MOST_NAMES = 16  # more names than this are no legend: the lines are coloured in their order

Curve = list[tuple[int, float | None]]


def learning_curves(runs: Sequence[Run]) -> dict[str, Lines]:
    """Return one figure for each recorded quantity: a panel for each part before the slash."""
    names = dict.fromkeys(
        name
        for run in runs
        for line in run.metrics
        for name in line
        if name not in ("task", "step")
    )
    return {name: _figure(name, runs) for name in names}


def _figure(name: str, runs: Sequence[Run]) -> Lines:
    curves: dict[str, dict[tuple[int, str], Curve]] = {}
    for index, run in enumerate(runs):
        for line in run.metrics:
            if name in line:
                panel, slash, label = line["task"].partition("/")
                panel, label = (panel, label) if slash else ("", panel)
                curve = curves.setdefault(panel, {}).setdefault((index, label), [])
                curve.append((line["step"], line[name]))
    labels = list(dict.fromkeys(label for lines in curves.values() for _, label in lines))
    sweep = {label: rank for rank, label in enumerate(labels)} if len(labels) > _MOST_NAMES else {}
    panels = [
        _panel(title, name, lines, sweep, faint=len(runs) > 3) for title, lines in curves.items()
    ]
    text = f"from {labels[0]} (blue) to {labels[-1]} (red)" if sweep else ""
    return Lines(panels, columns=min(2, len(panels)), colour_text=text)


def _panel(
    title: str,
    name: str,
    curves: Mapping[tuple[int, str], Curve],
    sweep: Mapping[str, int],
    *,
    faint: bool,
) -> Panel:
    return Panel(
        [
            Line(
                [x for x, _ in curve],
                [y for _, y in curve],
                label=label,
                faint=faint,
                value=sweep.get(label),
            )
            for (_, label), curve in curves.items()
        ],
        title=title,
        x_label="step",
        y_label=name,
        log_y=_spans_decades([y for curve in curves.values() for _, y in curve]),
    )


def _spans_decades(values: list[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and max(known) > _LOG_FROM * min(known)
