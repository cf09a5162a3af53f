"""Draw figures of kind ``lines``: curves in one or several panels."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchsets._extras import import_extra
from torchsets.lab.figures import CursorLines, FramePanel, Line, Lines, Panel
from torchsets.lab.reports.canvas import COLOURS, FAINT, INK, colour_scale, panels_of
from torchsets.lab.typed import Json

if TYPE_CHECKING:  # only for their types: matplotlib is an extra
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Picture

_MOST_POINTS = 600  # more cannot be seen, and make the page heavy
_FEW_POINTS = 12  # these are marked, or a single one would be invisible


def draw_lines(lines: Lines) -> "Picture":
    """Draw the panels; lines with the same label have the same colour in all of them."""
    panels = lines.panels
    width = 8.4 / max(1, min(lines.columns, len(panels)))
    size = (min(max(width, 2.2), 6.6), 2.5)
    style = Style([line for panel in panels for line in panel.lines])
    with panels_of(len(panels), columns=lines.columns, size=size) as (figure, axes):
        for axis, panel in zip(axes, panels, strict=True):
            draw_panel(axis, panel, style)
        _draw_legend(figure, axes)
        if style.values and lines.colour_label:
            low, high = min(style.values), max(style.values)
            figure.supxlabel(f"{lines.colour_label}: {low:g} (blue) to {high:g} (red)", size=9)
        elif lines.colour_text:
            figure.supxlabel(lines.colour_text, size=9)
        return figure


class Style:
    """Which colour and dash each line has, over all panels."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.labels = list(dict.fromkeys(line.label for line in lines))
        self.values = sorted({line.value for line in lines if line.value is not None})
        colours = colour_scale(self.values) if self.values else []
        self.by_value = dict(zip(self.values, colours, strict=True))

    def of(self, line: Line) -> dict[str, Json]:
        rank = self.labels.index(line.label)
        colour = COLOURS[rank % len(COLOURS)]
        if line.value is not None:
            colour = self.by_value[line.value]
        if line.black:
            colour = INK
        dashed = line.dashed or rank >= len(COLOURS)
        return {
            "color": colour,
            "linestyle": "--" if dashed else "-",
            "linewidth": 2.2 if line.black else 1.4,
            "alpha": 0.35 if line.faint else 1.0,
        }


def draw_panel(axis: "Axes", panel: Panel, style: Style) -> None:
    """Draw the lines of one panel."""
    draw_curves(axis, panel.lines, style)
    describe_axes(axis, panel)
    if panel.log_x:
        axis.set_xscale("log")
        _label_decades(axis.xaxis)
    if panel.log_y:
        axis.set_yscale("log")
        _label_decades(axis.yaxis)
    if panel.x_range:
        axis.set_xlim(*panel.x_range)
    if panel.y_range:
        axis.set_ylim(*panel.y_range)


def draw_curves(axis: "Axes", lines: Sequence[Line], style: Style) -> None:
    """Draw lines on a grid."""
    for line in lines:
        stride = max(1, len(line.x) // _MOST_POINTS)
        x, y = ([number(value) for value in values[::stride]] for values in (line.x, line.y))
        label = line.label if line.label and line.value is None else None
        marker = "o" if len(x) <= _FEW_POINTS else None
        axis.plot(x, y, label=label, marker=marker, markersize=3, **style.of(line))
    axis.grid(True, linewidth=0.5, alpha=0.5, color=FAINT)


def describe_axes(axis: "Axes", panel: Panel | FramePanel | CursorLines) -> None:
    """Write title and labels."""
    axis.set_title(panel.title)
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)


def number(value: float | None) -> float:
    """Records hold null for nan: a gap in the line."""
    return float("nan") if value is None else value


def _draw_legend(figure: "Picture", axes: Sequence["Axes"]) -> None:
    handles: dict[str, Json] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if len(handles) > 1 or (handles and len(axes) == 1):
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(4, len(handles)),
        )


def _label_decades(axis: "Axis") -> None:
    """Write 0.01 instead of matplotlib's formula, which the page would show as its source."""
    ticker = import_extra("matplotlib.ticker", "app")
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())
