"""Figures of kind ``boxes``: boxes in the unit square, coloured by a weight.

Data: ``panels``, each with ``boxes`` (x1, y1, x2, y2 in [0, 1], y downwards) and optionally
``title`` and ``weights`` (in [0, 1]: blue is 1, pale is 0.5, red is 0; all 1 by default);
optionally ``columns``.
"""

from collections.abc import Mapping
from typing import Any

from torchsets._extras import import_extra
from torchsets.lab.reports.canvas import panels_of


def draw_boxes(data: Mapping[str, Any]) -> Any:
    """Draw the panels."""
    panels = data["panels"]
    columns = data.get("columns", 4)
    width = min(2.0, max(1.2, 8.8 / max(1, columns)))
    with panels_of(len(panels), columns=columns, size=(width, width + 0.22)) as (figure, axes):
        for axis, panel in zip(axes, panels, strict=True):
            draw_panel(axis, panel)
        return figure


def draw_panel(axis: Any, panel: Mapping[str, Any]) -> None:
    """Draw one image, light boxes first so that the sure ones stay visible."""
    colour_map = import_extra("matplotlib", "app").colormaps["RdYlBu"]
    rectangle = import_extra("matplotlib.patches", "app").Rectangle
    weights = panel.get("weights") or [1.0] * len(panel["boxes"])
    pairs = sorted(
        zip(weights, panel["boxes"], strict=True), key=lambda pair: (abs(pair[0] - 0.5), pair[0])
    )
    for weight, (left, top, right, bottom) in pairs:
        axis.add_patch(
            rectangle(
                (left, top),
                right - left,
                bottom - top,
                fill=False,
                linewidth=1.3,
                edgecolor=colour_map(weight),
            )
        )
    axis.set_title(panel.get("title", ""), size=8)
    axis.set_xlim(0, 1)
    axis.set_ylim(1, 0)
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(True)
