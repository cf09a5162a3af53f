"""Draw figures of kind ``points``: a grid of small panels, each a set of points in the plane."""

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from torchsets.lab.figures import Points, PointSet, Range
from torchsets.lab.reports.canvas import COLOURS, FAINT, INK, colour_scale, panels_of
from torchsets.lab.reports.lines import number

if TYPE_CHECKING:  # only for their types: matplotlib is an extra
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

_LETTERS = 18  # that fit above a panel


def draw_points(points: Points) -> "Picture":
    """Draw the panels with equal axes and without ticks."""
    limits = points.range if points.limit is None else (-points.limit, points.limit)
    width = min(1.8, max(1.15, 8.8 / max(1, points.columns)))
    size = (width, width + 0.3)
    with panels_of(len(points.panels), columns=points.columns, size=size) as (figure, axes):
        for axis, panel in zip(axes, points.panels, strict=True):
            draw_panel(axis, panel, limits, letters=_LETTERS)
        return figure


def draw_panel(axis: "Axes", panel: PointSet, limits: Range | None, *, letters: int) -> None:
    """Draw one set, with both axes from ``limits[0]`` to ``limits[1]``."""
    size = 26 if len(panel.points) <= 20 else 9
    if panel.target:
        x, y = _columns(panel.target)
        axis.scatter(x, y, s=2.6 * size, facecolors="none", edgecolors=INK, linewidths=0.7)
    if panel.points:
        x, y = _columns(panel.points)
        if panel.path:
            axis.plot(x, y, color=FAINT, linewidth=0.8, zorder=1)
        colours = colours_of(panel.slots or [0] * len(panel.points))
        alpha = [0.15 + 0.85 * (value or 0) for value in panel.values] if panel.values else 1
        axis.scatter(x, y, s=size, c=colours, alpha=alpha, linewidths=0)  # type: ignore[arg-type]  # its stub lacks arrays
    axis.set_title("\n".join(wrap(panel.title, letters)), size=8)
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
    return colour_scale(slots)


def _columns(points: Sequence[Sequence[float | None]]) -> tuple[list[float], list[float]]:
    return [number(point[0]) for point in points], [number(point[1]) for point in points]
