"""Draw a recorded figure: choose the kind, return SVG."""

from collections.abc import Callable, Mapping
from typing import Any

from torchsets.lab.reports.boxes import draw_boxes
from torchsets.lab.reports.canvas import to_svg
from torchsets.lab.reports.frames import draw_frames
from torchsets.lab.reports.heatmaps import draw_heatmaps
from torchsets.lab.reports.lines import draw_lines
from torchsets.lab.reports.points import draw_points

KINDS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "boxes": draw_boxes,
    "frames": draw_frames,
    "heatmaps": draw_heatmaps,
    "lines": draw_lines,
    "points": draw_points,
}


def draw_figure(name: str, figure: Mapping[str, Any], *, alone: bool = False) -> str:
    """Return the SVG of a figure as ``Recorder.add_figure`` has recorded it.

    ``alone``: for a file of its own, and not for a page that sets the colours.
    """
    if figure["kind"] not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {figure['kind']!r}")
    drawn = KINDS[figure["kind"]](figure["data"])
    return to_svg(drawn, name=name, alt=figure["alt"], alone=alone)
