"""Figures of kind ``frames``: panels that change while a slider is moved.

Data: ``slider`` with ``label``, ``values`` (one for each frame) and optionally ``unit``;
``panels``; optionally ``texts`` (a sentence for each frame) and ``start`` (the first frame shown).
A panel has ``kind`` and optionally ``title``, ``x_label`` and ``y_label``. What is marked * below
is a list with an entry for each frame, or with a single one for all:

- ``points``: ``points`` * (pairs), ``range`` (low, high), optionally ``targets`` * (points drawn as
  rings), ``slots`` (a number for each point, which chooses its colour), ``trail`` (draw how each
  point came here).
- ``boxes``: ``boxes`` * (x1, y1, x2, y2 in [0, 1], y downwards), ``weights`` * (in [0, 1]).
- ``matrix``: ``matrices`` * (rows of numbers), ``range`` (low, high), optionally ``rows`` and
  ``columns`` (a text for each), ``colours`` (``grey`` or ``diverging``).
- ``bars``: ``bars`` * (numbers), ``range`` (low, high), optionally ``marks`` * (where the bars
  should end), ``names`` (a text for each bar).
- ``lines``: ``lines`` with ``x`` (values of the slider), ``y`` and optionally ``label``; a cursor
  is at the slider's value.

The page draws them with ``frames.js``. Without a script there is the start frame as a picture.
"""

import json
from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from torchsets._extras import import_extra
from torchsets.lab.reports import boxes, heatmaps, lines, points
from torchsets.lab.reports.canvas import COLOURS, FAINT, INK, panels_of

_PER_FRAME = ("points", "targets", "boxes", "weights", "matrices", "bars", "marks")
_RAMPS = {"grey": "gray", "diverging": "RdBu_r", "weights": "RdYlBu"}
_LETTERS = 26  # that fit above a panel
_RAMP_STEPS = 33  # neighbours cannot be told apart


def draw_frames(data: Mapping[str, Any]) -> Any:
    """Draw the start frame of all panels."""
    check_frames(data)
    panels = data["panels"]
    with panels_of(len(panels), columns=4, size=(2.1, 2.2)) as (figure, axes):
        for axis, panel in zip(axes, panels, strict=True):
            _DRAW[panel["kind"]](axis, _still(panel, data), data)
        return figure


def check_frames(data: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if a panel has an unknown kind or the wrong number of frames."""
    count = len(data["slider"]["values"])
    for panel in data["panels"]:
        if panel["kind"] not in _DRAW:
            raise ValueError(f"kind must be one of {', '.join(_DRAW)}, got {panel['kind']!r}")
        for key in _PER_FRAME:
            if key in panel and len(panel[key]) not in (1, count):
                raise ValueError(f"{key} must have 1 or {count} frames, got {len(panel[key])}")


def script_data(data: Mapping[str, Any]) -> str:
    """Return what ``frames.js`` needs, as JSON that is safe inside a ``<script>`` element."""
    check_frames(data)
    panels = []
    for panel in data["panels"]:
        chosen = {"slot_colours": points.colours_of(panel["slots"])} if "slots" in panel else {}
        panels.append({**panel, **chosen})
    ramps = {name: _ramp(colour_map) for name, colour_map in _RAMPS.items()}
    content = {**data, "panels": panels, "palette": COLOURS, "ramps": ramps}
    text = json.dumps(content, separators=(",", ":"))  # ASCII: also U+2028 is escaped
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _ramp(colour_map: str) -> list[str]:
    colours = import_extra("matplotlib", "app").colormaps[colour_map]
    to_hex = import_extra("matplotlib.colors", "app").to_hex
    return [to_hex(colours(step / (_RAMP_STEPS - 1))) for step in range(_RAMP_STEPS)]


def _still(panel: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """The panel with only the start frame of what changes, and a title that fits."""
    start = data.get("start", 0)
    frames = {key: panel[key] for key in _PER_FRAME if key in panel}
    shown = {key: many[min(start, len(many) - 1)] for key, many in frames.items()}
    return {**panel, **shown, "title": "\n".join(wrap(panel.get("title", ""), _LETTERS))}


def _draw_points(axis: Any, panel: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    low, high = panel["range"]
    shown = [[lines.number(value) for value in point] for point in panel["points"]]
    chosen = {**panel, "points": shown, "target": panel.get("targets")}
    points.draw_panel(axis, chosen, (low, high))


def _draw_boxes(axis: Any, panel: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    boxes.draw_panel(axis, panel)


def _draw_matrix(axis: Any, panel: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    heatmaps.draw_panel(axis, {**panel, "matrix": panel["matrices"]}, panel)


def _draw_bars(axis: Any, panel: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    places = range(len(panel["bars"]))
    axis.bar(places, panel["bars"], color=COLOURS[0])
    if panel.get("marks"):
        axis.hlines(panel["marks"], [x - 0.4 for x in places], [x + 0.4 for x in places], color=INK)
    axis.set_xticks(list(places), panel.get("names", [x + 1 for x in places]))
    axis.set_ylim(*panel["range"])
    lines.describe_axes(axis, panel)


def _draw_lines(axis: Any, panel: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    lines.draw_panel(axis, panel, lines.Style([panel]))
    axis.axvline(data["slider"]["values"][data.get("start", 0)], color=FAINT)
    if any(line.get("label") for line in panel["lines"]):
        axis.legend(fontsize=6)


_DRAW = {
    "points": _draw_points,
    "boxes": _draw_boxes,
    "matrix": _draw_matrix,
    "bars": _draw_bars,
    "lines": _draw_lines,
}
