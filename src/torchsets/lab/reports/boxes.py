"""Draw figures of kind ``boxes``: boxes in the unit square, coloured by a weight."""

from typing import TYPE_CHECKING

from torchsets._extras import import_extra
from torchsets.lab.figures import Boxes, BoxSet
from torchsets.lab.reports.canvas import panels_of

if TYPE_CHECKING:  # only for their types: matplotlib is an extra
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


def draw_boxes(boxes: Boxes) -> "Picture":
    """Draw the panels."""
    width = min(2.0, max(1.2, 8.8 / max(1, boxes.columns)))
    size = (width, width + 0.22)
    with panels_of(len(boxes.panels), columns=boxes.columns, size=size) as (figure, axes):
        for axis, panel in zip(axes, boxes.panels, strict=True):
            draw_panel(axis, panel)
        return figure


def draw_panel(axis: "Axes", panel: BoxSet) -> None:
    """Draw one image, light boxes first so that the sure ones stay visible."""
    colour_map = import_extra("matplotlib", "app").colormaps["RdYlBu"]
    rectangle = import_extra("matplotlib.patches", "app").Rectangle
    if panel.picture is not None:
        pixels = [[value or 0.0 for value in row] for row in panel.picture]
        axis.imshow(pixels, cmap="gray", vmin=0, vmax=1, extent=(0, 1, 1, 0))
    weights = [weight or 0.0 for weight in panel.weights or [1.0] * len(panel.boxes)]
    pairs = sorted(
        zip(weights, panel.boxes, strict=True), key=lambda pair: (abs(pair[0] - 0.5), pair[0])
    )
    for weight, box in pairs:
        left, top, right, bottom = (side or 0.0 for side in box)
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
    axis.set_title(panel.title, size=8)
    axis.set_xlim(0, 1)
    axis.set_ylim(1, 0)
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(True)
