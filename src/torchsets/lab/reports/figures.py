"""Draw a recorded figure: choose the kind, return SVG."""

from typing import TYPE_CHECKING

from torchsets.lab.figures import Boxes, Figure, Frames, Heatmaps, Lines, Points
from torchsets.lab.records import RecordedFigure
from torchsets.lab.reports.boxes import draw_boxes
from torchsets.lab.reports.canvas import to_svg
from torchsets.lab.reports.frames import draw_frames
from torchsets.lab.reports.heatmaps import draw_heatmaps
from torchsets.lab.reports.lines import draw_lines
from torchsets.lab.reports.points import draw_points

if TYPE_CHECKING:  # only for their types: matplotlib is an extra
    from matplotlib.figure import Figure as Picture


def draw_figure(name: str, recorded: RecordedFigure, *, alone: bool = False) -> str:
    """Return the SVG of a figure.

    ``alone``: for a file of its own, and not for a page that sets the colours.
    """
    return to_svg(_draw(recorded.figure), name=name, alt=recorded.alt, alone=alone)


def _draw(figure: Figure) -> "Picture":
    match figure:
        case Lines():
            return draw_lines(figure)
        case Points():
            return draw_points(figure)
        case Heatmaps():
            return draw_heatmaps(figure)
        case Boxes():
            return draw_boxes(figure)
        case Frames():
            return draw_frames(figure)
