"""Figures of kind ``lines``: curves in one or several panels.

Data: ``panels``, each with ``lines`` and optionally ``title``, ``x_label``, ``y_label``, ``log_x``,
``log_y``, ``x_range``, ``y_range``; optionally ``columns``, and ``colour_label`` (what the values
are) or ``colour_text`` (a sentence about the colours). A line has ``x``,
``y`` and optionally ``label``, ``dashed``, ``faint``, ``black`` (a thick line in the colour of the
text) and ``value``: lines with a value are coloured by it instead of by their label, as in a sweep.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torchsets._extras import import_extra
from torchsets.lab.reports.canvas import COLOURS, FAINT, INK, colour_scale, panels_of

_MOST_POINTS = 600  # more cannot be seen, and make the page heavy
_FEW_POINTS = 12  # these are marked, or a single one would be invisible


def draw_lines(data: Mapping[str, Any]) -> Any:
    """Draw the panels; lines with the same label have the same colour in all of them."""
    panels = data["panels"]
    columns = data.get("columns", 2)
    width = 8.4 / max(1, min(columns, len(panels)))
    style = Style(panels)
    with panels_of(len(panels), columns=columns, size=(min(max(width, 2.2), 6.6), 2.5)) as (
        figure,
        axes,
    ):
        for axis, panel in zip(axes, panels, strict=True):
            draw_panel(axis, panel, style)
        handles: dict[str, Any] = {}
        for axis in axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if len(handles) > 1 or (handles and len(panels) == 1):
            figure.legend(
                handles.values(),
                handles.keys(),
                loc="outside lower center",
                ncols=min(4, len(handles)),
            )
        if style.values and data.get("colour_label"):
            low, high = min(style.values), max(style.values)
            figure.supxlabel(f"{data['colour_label']}: {low:g} (blue) to {high:g} (red)", size=9)
        elif data.get("colour_text"):
            figure.supxlabel(data["colour_text"], size=9)
        return figure


class Style:
    """Which colour and dash each line has, over all panels."""

    def __init__(self, panels: Sequence[Mapping[str, Any]]) -> None:
        lines = [line for panel in panels for line in panel["lines"]]
        self.labels = list(dict.fromkeys(line.get("label", "") for line in lines))
        self.values = sorted({line["value"] for line in lines if line.get("value") is not None})
        colours = colour_scale(self.values) if self.values else []
        self.by_value = dict(zip(self.values, colours, strict=True))

    def of(self, line: Mapping[str, Any]) -> dict[str, Any]:
        rank = self.labels.index(line.get("label", ""))
        colour = COLOURS[rank % len(COLOURS)]
        if line.get("value") is not None:
            colour = self.by_value[line["value"]]
        if line.get("black"):
            colour = INK
        dashed = line.get("dashed") or rank >= len(COLOURS)
        return {
            "color": colour,
            "linestyle": "--" if dashed else "-",
            "linewidth": 2.2 if line.get("black") else 1.4,
            "alpha": 0.35 if line.get("faint") else 1.0,
        }


def draw_panel(axis: Any, panel: Mapping[str, Any], style: Style) -> None:
    """Draw the lines of one panel."""
    for line in panel["lines"]:
        stride = max(1, len(line["x"]) // _MOST_POINTS)
        x, y = line["x"][::stride], [number(value) for value in line["y"][::stride]]
        label = line.get("label") if line.get("value") is None else None
        marker = "o" if len(x) <= _FEW_POINTS else None
        axis.plot(x, y, label=label, marker=marker, markersize=3, **style.of(line))
    describe_axes(axis, panel)
    if panel.get("log_x"):
        axis.set_xscale("log")
        _label_decades(axis.xaxis)
    if panel.get("log_y"):
        axis.set_yscale("log")
        _label_decades(axis.yaxis)
    if panel.get("x_range"):
        axis.set_xlim(*panel["x_range"])
    if panel.get("y_range"):
        axis.set_ylim(*panel["y_range"])
    axis.grid(True, linewidth=0.5, alpha=0.5, color=FAINT)


def describe_axes(axis: Any, panel: Mapping[str, Any]) -> None:
    """Write title and labels."""
    axis.set_title(panel.get("title", ""))
    axis.set_xlabel(panel.get("x_label", ""))
    axis.set_ylabel(panel.get("y_label", ""))


def _label_decades(axis: Any) -> None:
    """Write 0.01 instead of matplotlib's formula, which the page would show as its source."""
    ticker = import_extra("matplotlib.ticker", "app")
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def number(value: float | None) -> float:
    """Records hold null for nan: a gap in the line."""
    return float("nan") if value is None else value
