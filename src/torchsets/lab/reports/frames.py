"""Draw figures of kind ``frames``: panels that change while a slider is moved.

The page draws them with ``frames.js``. Without a script there is the start frame as a picture.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap
from typing import TYPE_CHECKING, TypeVar

from torchsets._extras import import_extra
from torchsets.lab.figures import (
    BoxSet,
    CursorLines,
    FramePanel,
    Frames,
    Matrix,
    MovingBars,
    MovingBoxes,
    MovingMatrix,
    MovingPoints,
    PointSet,
    to_record,
)
from torchsets.lab.reports import boxes, heatmaps, lines, points
from torchsets.lab.reports.canvas import COLOURS, FAINT, INK, panels_of

if TYPE_CHECKING:  # only for their types: matplotlib is an extra
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

Entry = TypeVar("Entry")
_RAMPS = {"grey": "gray", "diverging": "RdBu_r", "weights": "RdYlBu"}
_LETTERS = 26  # that fit above a panel
_RAMP_STEPS = 33  # neighbours cannot be told apart


def draw_frames(frames: Frames) -> "Picture":
    """Draw the start frame of all panels."""
    with panels_of(len(frames.panels), columns=4, size=(2.1, 2.2)) as (figure, axes):
        for axis, panel in zip(axes, frames.panels, strict=True):
            titled = replace(panel, title="\n".join(wrap(panel.title, _LETTERS)))
            _draw_start(axis, titled, frames)
        return figure


def script_data(frames: Frames) -> str:
    """Return what ``frames.js`` needs, as JSON that is safe inside a ``<script>`` element."""
    content = to_record(frames)
    for record, panel in zip(content["panels"], frames.panels, strict=True):
        if isinstance(panel, MovingPoints) and panel.slots is not None:
            record["slot_colours"] = points.colours_of(panel.slots)
    ramps = {name: _ramp(colour_map) for name, colour_map in _RAMPS.items()}
    text = json.dumps({**content, "palette": COLOURS, "ramps": ramps}, separators=(",", ":"))
    # ASCII, so that U+2028 is escaped too.
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _ramp(colour_map: str) -> list[str]:
    colours = import_extra("matplotlib", "app").colormaps[colour_map]
    to_hex = import_extra("matplotlib.colors", "app").to_hex
    return [to_hex(colours(step / (_RAMP_STEPS - 1))) for step in range(_RAMP_STEPS)]


def _draw_start(axis: "Axes", panel: FramePanel, frames: Frames) -> None:
    def first(entries: Sequence[Entry]) -> Entry:
        return entries[min(frames.start, len(entries) - 1)]

    match panel:
        case MovingPoints():
            target = None if panel.targets is None else first(panel.targets)
            values = None if panel.values is None else first(panel.values)
            shown = PointSet(first(panel.points), panel.title, panel.slots, values, target)
            points.draw_panel(axis, shown, panel.range, letters=_LETTERS)
        case MovingBoxes():
            weights = first(panel.weights)
            box_set = BoxSet(first(panel.boxes), panel.title, weights, panel.picture)
            boxes.draw_panel(axis, box_set)
        case MovingMatrix():
            matrix = Matrix(first(panel.matrices), panel.title, panel.x_label, panel.y_label)
            heatmaps.draw_panel(axis, matrix, colours=panel.colours, limits=panel.range)
        case MovingBars():
            marks = None if panel.marks is None else first(panel.marks)
            _draw_bars(axis, panel, first(panel.bars), marks)
        case CursorLines():
            lines.draw_curves(axis, panel.lines, lines.Style(panel.lines))
            lines.describe_axes(axis, panel)
            axis.axvline(frames.slider.values[frames.start], color=FAINT)
            if any(line.label for line in panel.lines):
                axis.legend(fontsize=6)


def _draw_bars(
    axis: "Axes",
    panel: MovingBars,
    bars: Sequence[float | None],
    marks: Sequence[float | None] | None,
) -> None:
    at = range(len(bars))
    axis.bar(at, [lines.number(bar) for bar in bars], color=COLOURS[0])
    if marks:
        axis.hlines(
            list(map(lines.number, marks)), [x - 0.4 for x in at], [x + 0.4 for x in at], color=INK
        )
    axis.set_xticks(list(at), panel.names or [str(x + 1) for x in at])
    axis.set_ylim(*panel.range)
    lines.describe_axes(axis, panel)
