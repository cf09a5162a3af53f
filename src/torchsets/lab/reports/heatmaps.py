"""Draw figures of kind ``heatmaps``: a grid of matrices."""

from typing import TYPE_CHECKING

from torchsets.lab.figures import Colours, Heatmaps, Matrix, Range
from torchsets.lab.reports.canvas import panels_of
from torchsets.lab.reports.lines import number

if TYPE_CHECKING:  # only for their types: matplotlib is an extra
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from matplotlib.image import AxesImage


def draw_heatmaps(heatmaps: Heatmaps) -> "Picture":
    """Draw the panels, each with its own range unless one is given for all."""
    panels, columns = heatmaps.panels, heatmaps.columns
    width = min(3.6, max(1.4, 8.4 / max(1, min(columns, len(panels)))))
    with panels_of(len(panels), columns=columns, size=(width, 0.9 * width)) as (figure, axes):
        for axis, panel in zip(axes, panels, strict=True):
            image = draw_panel(axis, panel, colours=heatmaps.colours, limits=heatmaps.range)
            if heatmaps.bar:
                figure.colorbar(image, ax=axis, shrink=0.85)
        return figure


def draw_panel(
    axis: "Axes", panel: Matrix, *, colours: Colours, limits: Range | None
) -> "AxesImage":
    """Draw one matrix; return the image."""
    low, high = limits or _range(panel, colours)
    image = axis.imshow(
        [[number(value) for value in row] for row in panel.matrix],
        cmap="gray" if colours == "grey" else "RdBu_r",
        vmin=low,
        vmax=high,
        interpolation="none",
        extent=panel.extent,
        aspect="auto" if panel.extent else "equal",
    )
    axis.set_title(panel.title)
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)
    if not panel.extent:
        axis.set_xticks([])
        axis.set_yticks([])
    return image


def _range(panel: Matrix, colours: Colours) -> Range:
    values = [value for row in panel.matrix for value in row if value is not None] or [0.0]
    if colours == "grey":
        return min(values), max(values)
    most = max(abs(value) for value in values) or 1.0
    return -most, most
