"""A figure that is written and read again is the same figure, with rounded numbers."""

import dataclasses
import json
import math
import typing

import pytest

from torchsets.lab import figures
from torchsets.lab.figures import (
    KINDS,
    Boxes,
    BoxSet,
    CursorLines,
    Frames,
    Heatmaps,
    Line,
    Lines,
    Matrix,
    MovingBars,
    MovingBoxes,
    MovingMatrix,
    MovingPoints,
    Panel,
    Points,
    PointSet,
    Slider,
    from_record,
    kind_of,
    to_record,
)
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports.figures import draw_figure

LINE = Line([0, 1, 2], [0.5, None, 1.5], "ours", dashed=True, faint=True, black=True, value=0.25)
FULL = {  # every field differs from its default
    "lines": Lines(
        [
            Panel(
                [LINE],
                "title",
                "x",
                "y",
                log_x=True,
                log_y=True,
                x_range=(0.0, 1.0),
                y_range=(-1.0, 2.0),
            )
        ],
        columns=3,
        colour_label="noise",
        colour_text="brighter is more",
    ),
    "points": Points(
        [
            PointSet(
                [[0.0, 1.0], [2.0, 3.0]],
                "title",
                slots=[0, 1],
                values=[0.5, 1.0],
                target=[[1.0, 1.0]],
                path=True,
            )
        ],
        columns=7,
        limit=1.25,
        range=(0.0, 1.0),
    ),
    "heatmaps": Heatmaps(
        [Matrix([[0.0, None]], "title", "x", "y", extent=(0.0, 1.0, 1.0, 0.0))],
        columns=2,
        colours="diverging",
        range=(0.0, 1.0),
        bar=True,
    ),
    "boxes": Boxes(
        [BoxSet([[0.0, 0.0, 1.0, 1.0]], "title", weights=[0.5], picture=[[0.0, 1.0]])], columns=2
    ),
    "frames": Frames(
        Slider("Step", [0.0, 1.0], unit="°"),
        [
            MovingPoints(
                [[[0.0, 1.0]], [[1.0, 1.0]]],
                (-1.0, 1.0),
                "title",
                targets=[[[0.0, 0.0]]],
                slots=[3],
                trail=True,
                x_label="x",
                y_label="y",
                values=[[0.5], [1.0]],
            ),
            MovingBoxes(
                [[[0.0, 0.0, 1.0, 1.0]]], [[0.0], [1.0]], "title", "x", "y", picture=[[0.5]]
            ),
            MovingMatrix(
                [[[0.0]], [[1.0]]], (0.0, 1.0), "title", ["a"], ["b"], "diverging", "x", "y"
            ),
            MovingBars([[0.0], [1.0]], (0.0, 1.0), "title", [[0.5]], ["a"], "x", "y"),
            CursorLines([LINE], "title", "x", "y"),
        ],
        texts=["before", "after"],
        start=1,
    ),
}


def as_json(figure):
    return json.loads(json.dumps(to_record(figure)))


def parts_of(one):
    """A figure and all dataclasses inside it."""
    if dataclasses.is_dataclass(one):
        yield one
        for field in dataclasses.fields(one):
            yield from parts_of(getattr(one, field.name))
    elif isinstance(one, list):
        for entry in one:
            yield from parts_of(entry)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_survives_being_written_and_read(kind):
    figure = FULL[kind]
    assert kind_of(figure) == kind
    assert from_record(kind, as_json(figure), "figure.json") == figure


def test_the_figures_above_leave_nothing_out():
    parts = [part for figure in FULL.values() for part in parts_of(figure)]
    classes = {
        one
        for one in vars(figures).values()
        if isinstance(one, type) and dataclasses.is_dataclass(one)
    }
    assert {type(part) for part in parts} == classes
    for part in parts:
        for field in dataclasses.fields(part):
            if field.name != "kind":
                assert getattr(part, field.name) != field.default, (type(part), field.name)


@pytest.mark.parametrize(
    "figure",
    [
        Lines([Panel([Line([0, 1], [2, 3])])]),
        Points([PointSet([[0.0, 1.0]])]),
        Heatmaps([Matrix([[0.0]])]),
        Boxes([BoxSet([[0.0, 0.0, 1.0, 1.0]])]),
        Frames(Slider("Step", [0.0]), [MovingBars([[0.0]], (0.0, 1.0))]),
    ],
    ids=kind_of,
)
def test_defaults_are_left_out_of_the_record_and_come_back(figure):
    written = json.dumps(to_record(figure))
    assert "columns" not in written
    assert "title" not in written
    assert from_record(kind_of(figure), json.loads(written), "figure.json") == figure


def test_panels_of_frames_always_say_their_kind():
    kinds = [panel["kind"] for panel in as_json(FULL["frames"])["panels"]]
    assert kinds == ["points", "boxes", "matrix", "bars", "lines"]
    assert len(kinds) == len(typing.get_args(figures.FramePanel))


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (0.123456789, 0.12346),
        (123456.789, 123460.0),
        (-1.000004, -1.0),
        (1.2345678e-9, 1.2346e-9),
        (123456789, 123456789),  # a step, not a measurement
        (0.1 + 0.2, 0.3),
        (None, None),
    ],
)
def test_numbers_have_five_digits(given, written):
    figure = Lines([Panel([Line([given], [given], value=given)], y_range=(given, 1.0))])
    (panel,) = to_record(figure)["panels"]
    (line,) = panel["lines"]
    assert line["x"] == line["y"] == [written]
    assert line.get("value") == written
    assert panel["y_range"] == [written, 1.0]


def test_what_is_not_finite_becomes_a_gap(tmp_path):
    recorder = Recorder.start(tmp_path, experiment="x", scale="smoke", config={})
    line = Line([0, 1, 2], [math.nan, math.inf, 1.0])
    recorder.add_figure("curve", Lines([Panel([line])]), title="t", caption="c", alt="a")
    recorder.finish()
    figure = read_run(tmp_path).figures["curve"].figure
    assert figure.panels[0].lines[0].y == [None, None, 1.0]


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("pie", {}, r"figure.json must be one of boxes, .*, got 'pie'"),
        (None, {}, r"figure.json must be one of boxes, .*, got None"),
        ("lines", [], r"figure.json must be a JSON object, got \[\]"),
        ("lines", {}, r"figure.json must have the field panels, got none"),
        (
            "lines",
            {"panels": [], "colums": 3},
            r"figure.json must have the fields .*, got also colums",
        ),
        (
            "lines",
            {"panels": [{"lines": [{"x": [0], "y": [0], "colour": "red"}]}]},
            r"figure.json: panels: lines must have the fields x, y, .*, got also colour",
        ),
        (
            "heatmaps",
            {"panels": [], "colours": "rainbow"},
            r"figure.json: colours must be .*'grey', 'diverging'.*, got 'rainbow'",
        ),
        (
            "frames",
            {"slider": {"label": "Step", "values": [0]}, "panels": [{"kind": "pie"}]},
            r"figure.json: panels must be MovingPoints \| .*, got {'kind': 'pie'}",
        ),
        (
            "frames",
            {
                "slider": {"label": "Step", "values": [0]},
                "panels": [{"kind": "bars", "bars": [[0]], "range": [0, 1], "colour": "red"}],
            },
            r"figure.json: panels must have the fields bars, .*, got also colour",
        ),
        (
            "frames",
            {
                "slider": {"label": "Step", "values": [0, 1]},
                "panels": [{"kind": "bars", "bars": [[0]] * 3, "range": [0, 1]}],
            },
            r"figure.json: bars must have 1 or 2 frames, got 3",
        ),
    ],
)
def test_a_record_that_is_no_figure_is_refused(kind, data, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        from_record(kind, data, "figure.json")


def test_every_panel_has_one_frame_or_one_for_each_value():
    slider = Slider("Step", [0.0, 1.0, 2.0])
    Frames(slider, [MovingBars([[0.0]] * 3, (0.0, 1.0), marks=[[0.0]])])
    with pytest.raises(ValueError, match="bars must have 1 or 3 frames, got 2"):
        Frames(slider, [MovingBars([[0.0]] * 2, (0.0, 1.0))])
    with pytest.raises(ValueError, match="marks must have 1 or 3 frames, got 2"):
        Frames(slider, [MovingBars([[0.0]], (0.0, 1.0), marks=[[0.0]] * 2)])


def test_opacity_may_have_gaps(tmp_path):
    points = [[0.0, 1.0], [1.0, 0.0]]
    moving = MovingPoints([points], (0.0, 1.0), values=[[math.nan, 1.0]])
    with Recorder.start(tmp_path / "run", experiment="toy", scale="smoke", config={}) as recorder:
        for name, figure in (
            ("still", Points([PointSet(points, values=[math.nan, 0.5])])),
            ("moving", Frames(Slider("step", [0.0]), [moving])),
        ):
            recorder.add_figure(name, figure, title="t", caption="c", alt="a")
    found = {name: one.figure.panels[0] for name, one in read_run(tmp_path / "run").figures.items()}
    assert found["still"].values == [None, 0.5]
    assert found["moving"].values == [[None, 1.0]]
    for name, one in read_run(tmp_path / "run").figures.items():
        assert draw_figure(name, one).lstrip().startswith("<svg")
