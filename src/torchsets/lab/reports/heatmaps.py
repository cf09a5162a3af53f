"""Figures of kind ``heatmaps``: a grid of matrices.

Data: ``panels``, each with ``matrix`` (rows of numbers, the first row on top) and optionally
``title``, ``x_label``, ``y_label`` and ``extent`` (x of the left and right edge, y of the bottom
and top edge); ``colours``: ``grey`` (black is low) or ``diverging`` (blue below 0, white at 0, red
above); optionally ``columns``, ``range`` (low, high; by default that of each panel) and ``bar``.
"""

from collections.abc import Mapping
from typing import Any

from torchsets.lab.reports.canvas import panels_of


def draw_heatmaps(data: Mapping[str, Any]) -> Any:
    """Draw the panels, each with its own range unless ``range`` is given."""
    panels = data["panels"]
    columns = data.get("columns", 3)
    width = min(3.6, max(1.4, 8.4 / max(1, min(columns, len(panels)))))
    with panels_of(len(panels), columns=columns, size=(width, 0.9 * width)) as (figure, axes):
        for axis, panel in zip(axes, panels, strict=True):
            image = draw_panel(axis, panel, data)
            if data.get("bar"):
                figure.colorbar(image, ax=axis, shrink=0.85)
        return figure


def draw_panel(axis: Any, panel: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Draw one matrix in the colours and the range of ``data``; return the image."""
    low, high = _range(panel["matrix"], data)
    image = axis.imshow(
        [[float("nan") if value is None else value for value in row] for row in panel["matrix"]],
        cmap="gray" if data.get("colours", "grey") == "grey" else "RdBu_r",
        vmin=low,
        vmax=high,
        interpolation="none",
        extent=panel.get("extent"),
        aspect="auto" if panel.get("extent") else "equal",
    )
    axis.set_title(panel.get("title", ""))
    axis.set_xlabel(panel.get("x_label", ""))
    axis.set_ylabel(panel.get("y_label", ""))
    if not panel.get("extent"):
        axis.set_xticks([])
        axis.set_yticks([])
    return image


def _range(matrix: list[list[float | None]], data: Mapping[str, Any]) -> tuple[float, float]:
    if data.get("range"):
        return data["range"][0], data["range"][1]
    values = [value for row in matrix for value in row if value is not None] or [0.0]
    if data.get("colours", "grey") == "grey":
        return min(values), max(values)
    most = max(abs(value) for value in values) or 1.0
    return -most, most
