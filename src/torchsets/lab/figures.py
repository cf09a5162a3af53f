"""Figures as data: what an experiment records and a report draws. Needs no torch.

``Lines``, ``Points``, ``Heatmaps``, ``Boxes``, and ``Frames``, which change while a slider is
moved. Numbers are rounded when a figure is written, so nobody has to round them before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, Literal

from torchsets.lab.typed import Json, from_json

Number = float | None  # None is a gap: nan and infinity become it in JSON
Numbers = Sequence[Number]
Point = Sequence[Number]  # x and y; what follows is not drawn
Range = tuple[float, float]
Colours = Literal["grey", "diverging"]
_DIGITS = 5  # significant ones; more cannot be seen


@dataclass(frozen=True)
class Line:
    """A curve; with a ``value`` it is coloured by that instead of by its label, as in a sweep."""

    x: Numbers
    y: Numbers
    label: str = ""
    dashed: bool = False
    faint: bool = False
    black: bool = False  # thick, in the colour of the text
    value: float | None = None


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes."""

    lines: Sequence[Line]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    x_range: Range | None = None
    y_range: Range | None = None


@dataclass(frozen=True)
class Lines:
    """Curves in panels; ``colour_label`` says what values are, ``colour_text`` is a sentence."""

    panels: Sequence[Panel]
    columns: int = 2
    colour_label: str = ""
    colour_text: str = ""


@dataclass(frozen=True)
class PointSet:
    """Points in the plane: ``slots`` choose colours, ``values`` in [0, 1] opacity.

    ``target`` is drawn as rings; ``path`` connects the points in their order.
    """

    points: Sequence[Point]
    title: str = ""
    slots: Sequence[int] | None = None
    values: Numbers | None = None
    target: Sequence[Point] | None = None
    path: bool = False


@dataclass(frozen=True)
class Points:
    """Small panels of points; both axes have the ``range``, or run from -limit to limit."""

    panels: Sequence[PointSet]
    columns: int = 4
    limit: float | None = None
    range: Range | None = None


@dataclass(frozen=True)
class Matrix:
    """Rows of numbers, the first on top; ``extent``: left, right, bottom and top of the axes."""

    matrix: Sequence[Numbers]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    extent: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class Heatmaps:
    """Matrices: black is low, or blue below and red above 0; by default each has its own range."""

    panels: Sequence[Matrix]
    columns: int = 3
    colours: Colours = "grey"
    range: Range | None = None
    bar: bool = False


@dataclass(frozen=True)
class BoxSet:
    """Boxes (x1, y1, x2, y2) in the unit square, y downwards; weight 1 is blue, 0 is red.

    ``picture``: rows of grey values in [0, 1] behind the boxes.
    """

    boxes: Sequence[Numbers]
    title: str = ""
    weights: Numbers | None = None
    picture: Sequence[Numbers] | None = None


@dataclass(frozen=True)
class Boxes:
    """Small panels of boxes."""

    panels: Sequence[BoxSet]
    columns: int = 4


@dataclass(frozen=True)
class MovingPoints:
    """Points that move: ``points``, ``targets`` and ``values`` have one entry a frame, or one.

    ``values`` in [0, 1] are the opacity of the points.
    """

    points: Sequence[Sequence[Point]]
    range: Range
    title: str = ""
    targets: Sequence[Sequence[Point]] | None = None
    slots: Sequence[int] | None = None
    trail: bool = False  # draw the path of each point up to here
    x_label: str = ""
    y_label: str = ""
    values: Sequence[Numbers] | None = None
    kind: Literal["points"] = "points"


@dataclass(frozen=True)
class MovingBoxes:
    """Boxes and weights, one entry a frame, or one for all; ``picture`` as in a ``BoxSet``."""

    boxes: Sequence[Sequence[Numbers]]
    weights: Sequence[Numbers]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    picture: Sequence[Numbers] | None = None
    kind: Literal["boxes"] = "boxes"


@dataclass(frozen=True)
class MovingMatrix:
    """Matrices, one a frame, or one for all, with a text for each row and column."""

    matrices: Sequence[Sequence[Numbers]]
    range: Range
    title: str = ""
    rows: Sequence[str] | None = None
    columns: Sequence[str] | None = None
    colours: Colours = "grey"
    x_label: str = ""
    y_label: str = ""
    kind: Literal["matrix"] = "matrix"


@dataclass(frozen=True)
class MovingBars:
    """Bars, with ``marks`` where they should end; one entry a frame, or one for all."""

    bars: Sequence[Numbers]
    range: Range
    title: str = ""
    marks: Sequence[Numbers] | None = None
    names: Sequence[str] | None = None
    x_label: str = ""
    y_label: str = ""
    kind: Literal["bars"] = "bars"


@dataclass(frozen=True)
class CursorLines:
    """Curves over the slider's values, with a cursor at the present one."""

    lines: Sequence[Line]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    kind: Literal["lines"] = "lines"


@dataclass(frozen=True)
class Slider:
    """One value for each frame."""

    label: str
    values: Sequence[float]
    unit: str = ""


FramePanel = MovingPoints | MovingBoxes | MovingMatrix | MovingBars | CursorLines


@dataclass(frozen=True)
class Frames:
    """Panels that change while a slider is moved.

    ``texts`` has a sentence for each frame; ``start`` is the first frame shown.
    """

    slider: Slider
    panels: Sequence[FramePanel]
    texts: Sequence[str] | None = None
    start: int = 0

    def __post_init__(self) -> None:
        count = len(self.slider.values)
        for panel in self.panels:
            for name in (
                "points",
                "targets",
                "values",
                "boxes",
                "weights",
                "matrices",
                "bars",
                "marks",
            ):
                frames = getattr(panel, name, None)
                if frames is not None and len(frames) not in (1, count):
                    raise ValueError(f"{name} must have 1 or {count} frames, got {len(frames)}")


Figure = Lines | Points | Heatmaps | Boxes | Frames
KINDS: dict[str, type[Figure]] = {
    "boxes": Boxes,
    "frames": Frames,
    "heatmaps": Heatmaps,
    "lines": Lines,
    "points": Points,
}


def kind_of(figure: Figure) -> str:
    """Return the name of a figure's kind, as records have it."""
    return type(figure).__name__.lower()


def to_record(figure: Figure) -> dict[str, Json]:
    """Return a figure as JSON data: without fields that have their defaults, numbers rounded.

    Example:
        >>> to_record(Lines([Panel([Line([0, 1], [0.1234567, 2.0])])]))
        {'panels': [{'lines': [{'x': [0, 1], 'y': [0.12346, 2.0]}]}]}
    """
    return {name: _plain(value) for name, value in _given(figure)}


def from_record(kind: object, data: object, where: str) -> Figure:
    """Read a figure that :func:`to_record` wrote; raise ``ValueError`` that says what is wrong."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"{where} must be one of {', '.join(KINDS)}, got {kind!r}")
    return from_json(KINDS[kind], data, where)


def _given(one: Any) -> list[tuple[str, Any]]:
    pairs = [(field, getattr(one, field.name)) for field in fields(one)]
    return [
        (field.name, value)
        for field, value in pairs
        if field.name == "kind" or field.default is MISSING or value != field.default
    ]


_PLAIN: Mapping[type, Callable[[Any], Any]] = {
    float: lambda value: float(f"{value:.{_DIGITS}g}"),
    int: lambda value: value,
    str: lambda value: value,
    bool: lambda value: value,
}


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:
        return _PLAIN[type(value)](value)
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    if is_dataclass(value):
        return {name: _plain(one) for name, one in _given(value)}
    return value
