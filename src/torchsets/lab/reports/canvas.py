"""What all kinds of figures share: a grid of panels, colours, and SVG that suits any theme."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchsets._extras import import_extra

if TYPE_CHECKING:  # only for their types: matplotlib is an extra
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

# Of middle lightness, so that they can be told apart on white and on black.
COLOURS = (
    "#3f88c5",
    "#e07a2f",
    "#2f9e6e",
    "#d1495b",
    "#8f6fc1",
    "#1aa3a8",
    "#a97c50",
    "#8c8c8c",
)
# Placeholders in the drawing for what the page decides: see `to_svg`.
INK, FAINT = "#010203", "#010204"
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "text.parse_math": False,
    "axes.formatter.useoffset": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_STYLE_ALONE = """<style>
svg { color: #1d2126; font-family: "DejaVu Sans", Verdana, sans-serif; }
@media (prefers-color-scheme: dark) { svg { color: #e6e8ea; } }
</style>"""


@contextmanager
def panels_of(
    count: int, *, columns: int, size: tuple[float, float]
) -> Iterator[tuple["Picture", list["Axes"]]]:
    """Yield a figure and ``count`` axes in a grid; ``size`` is that of one panel, in inches."""
    matplotlib = import_extra("matplotlib", "app")
    figure_module = import_extra("matplotlib.figure", "app")
    columns = max(1, min(columns, count))
    rows = max(1, -(-count // columns))
    with matplotlib.rc_context(_STYLE):
        figure = figure_module.Figure(
            figsize=(size[0] * columns, size[1] * rows), layout="constrained"
        )
        axes = figure.subplots(rows, columns, squeeze=False).flatten()
        for unused in axes[count:]:
            unused.set_axis_off()
        yield figure, list(axes[:count])


def to_svg(figure: "Picture", *, name: str, alt: str, alone: bool = False) -> str:
    """Return an ``<svg>`` element that takes its text and line colours from the page.

    With ``alone`` it is a picture file, whose colours follow the light or dark theme.
    """
    matplotlib = import_extra("matplotlib", "app")
    buffer = io.StringIO()
    # Without a date and with a fixed salt, the same record gives the same page.
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*">', "<g>", text)  # the same in every figure of a page
    text = text.replace(INK, "currentColor").replace(FAINT, "var(--faint, #8888)")
    # A page has its own colours; a picture on its own follows the reader's theme by itself.
    text = text.replace("</svg>", f"{_STYLE_ALONE}</svg>") if alone else text
    label = alt.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def colour_scale(values: Sequence[float]) -> list[str]:
    """Map numbers to colours from blue through green to red, for lines of a sweep."""
    matplotlib = import_extra("matplotlib", "app")
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    colour_map = matplotlib.colormaps["turbo"]
    to_hex = import_extra("matplotlib.colors", "app").to_hex
    return [to_hex(colour_map(0.08 + 0.84 * (value - low) / span)) for value in values]
