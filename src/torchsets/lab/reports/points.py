"""Figures of kind ``points``: a grid of small panels, each a set of points in the plane.

Data: ``panels``, each with ``points`` (pairs) and optionally ``title``, ``slots`` (a number for
each point, which chooses its colour), ``values`` (in [0, 1], how strong each point is), ``target``
(points drawn as rings) and ``path`` (connect the points in their order); optionally ``columns``
and ``limit`` (the axes run from -limit to limit) or ``range`` (low, high).
"""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from torchsets.lab.reports.canvas import COLOURS, FAINT, INK, colour_scale, panels_of

_LETTERS = 18  # that fit above a panel


def draw_points(data: Mapping[str, Any]) -> Any:
    """Draw the panels with equal axes and without ticks."""
    panels = data["panels"]
    columns = data.get("columns", 4)
    width = min(1.8, max(1.15, 8.8 / max(1, columns)))
    with panels_of(len(panels), columns=columns, size=(width, width + 0.3)) as (figure, axes):
        for axis, panel in zip(axes, panels, strict=True):
            draw_panel(axis, panel, _limits(data))
        return figure


def _limits(data: Mapping[str, Any]) -> tuple[float, float] | None:
    if "limit" in data:
        return -data["limit"], data["limit"]
    return (data["range"][0], data["range"][1]) if "range" in data else None


def draw_panel(axis: Any, panel: Mapping[str, Any], limits: tuple[float, float] | None) -> None:
    """Draw one set, with both axes from ``limits[0]`` to ``limits[1]``."""
    points = panel["points"]
    size = 26 if len(points) <= 20 else 9
    if panel.get("target"):
        x, y = zip(*panel["target"], strict=True)
        axis.scatter(x, y, s=2.6 * size, facecolors="none", edgecolors=INK, linewidths=0.7)
    if points:
        x, y = zip(*(point[:2] for point in points), strict=True)
        if panel.get("path"):
            axis.plot(x, y, color=FAINT, linewidth=0.8, zorder=1)
        colours = colours_of(panel.get("slots") or [0] * len(points))
        alpha = [0.15 + 0.85 * value for value in panel["values"]] if panel.get("values") else 1
        axis.scatter(x, y, s=size, c=colours, alpha=alpha, linewidths=0)
    axis.set_title("\n".join(wrap(panel.get("title", ""), _LETTERS)), size=8)
    axis.set_aspect("equal", adjustable="box")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(True)
    if limits:
        axis.set_xlim(*limits)
        axis.set_ylim(*limits)


def colours_of(slots: Sequence[int]) -> list[str]:
    """One colour for each slot: of the palette if it has enough, or else in a row."""
    if max(slots, default=0) < len(COLOURS):
        return [COLOURS[slot] for slot in slots]
    return colour_scale(list(slots))
