import json
import xml.etree.ElementTree as ElementTree

import pytest

from torchsets.lab.figures import (
    KINDS,
    Boxes,
    BoxSet,
    Frames,
    Line,
    Lines,
    MovingBars,
    Panel,
    Slider,
    from_record,
)
from torchsets.lab.records import RecordedFigure, Recorder, read_run
from torchsets.lab.reports import draw_figure
from torchsets.lab.reports.curves import learning_curves
from torchsets.lab.reports.frames import script_data

DATA = {
    "lines": {
        "panels": [
            {
                "title": "a",
                "x_label": "x",
                "y_label": "y",
                "log_x": True,
                "log_y": True,
                "x_range": [1, 10],
                "y_range": [0.1, 100],
                "lines": [
                    {"label": "one", "x": [1, 2, 3], "y": [1, None, 3]},
                    {"label": "two", "x": [1], "y": [2], "dashed": True, "faint": True},
                    {"x": [1, 2], "y": [2, 3], "black": True},
                ],
            },
            {"lines": [{"x": [0, 1], "y": [0, level], "value": level} for level in (0.1, 0.5)]},
        ],
        "columns": 2,
        "colour_label": "noise",
    },
    "points": {
        "panels": [
            {"title": "a long title that wraps", "points": [[0, 1], [1, 0]], "slots": [0, 1]},
            {"points": [[0, 0]] * 12, "slots": list(range(12)), "path": True},
            {"points": [[0.5, 0.5]], "values": [0.3], "target": [[0.5, 0.5]]},
            {"points": []},
        ],
        "columns": 3,
        "limit": 1.5,
    },
    "heatmaps": {
        "panels": [{"matrix": [[0, 1], [None, -3]], "title": "a", "x_label": "x", "y_label": "y"}],
        "colours": "diverging",
        "bar": True,
    },
    "frames": {
        "slider": {"label": "step", "unit": " m", "values": [0, 1, 2]},
        "start": 1,
        "texts": ["a", "b", "c"],
        "panels": [
            {
                "kind": "points",
                "title": "a",
                "points": [[[0, 0], [1, 1]], [[0, 1], [None, None]], [[1, 1], [0, 0]]],
                "targets": [[[0.5, 0.5]]],
                "slots": [0, 1],
                "range": [-1, 1],
                "trail": True,
            },
            {"kind": "points", "points": [[[0, 0]] * 12], "slots": [*range(12)], "range": [-1, 1]},
            {"kind": "boxes", "boxes": [[[0, 0, 1, 1]]], "weights": [[0.1], [0.5], [0.9]]},
            {
                "kind": "matrix",
                "matrices": [[[0, 1], [1, None]]],
                "range": [0, 1],
                "rows": ["p", "q"],
                "columns": ["r", "s"],
            },
            {"kind": "matrix", "matrices": [[[-1, 1]]], "range": [-1, 1], "colours": "diverging"},
            {"kind": "bars", "bars": [[1, 2], [2, 3], [3, 4]], "marks": [[4, 4]], "range": [0, 5]},
            {"kind": "bars", "bars": [[-1]], "names": ["only"], "range": [-2, 2]},
            {
                "kind": "lines",
                "lines": [{"label": "a", "x": [0, 1, 2], "y": [1, None, 3]}],
                "x_label": "x",
                "y_label": "y",
            },
        ],
    },
    "boxes": {
        "panels": [
            {"title": "a", "boxes": [[0, 0, 0.5, 0.5], [0.2, 0.2, 1, 1]], "weights": [0.1, 0.9]},
            {"boxes": []},
        ]
    },
}


def recorded(figure, alt=""):
    return RecordedFigure("title", "caption", alt, figure)


def draw(figure, alt=""):
    return draw_figure("name", recorded(figure, alt))


def draw_line(line, **panel):
    return draw(Lines([Panel([line], **panel)]))


@pytest.mark.parametrize("kind", list(KINDS))
def test_each_kind_is_drawn_as_svg_in_the_colours_of_the_page(kind):
    figure = from_record(kind, DATA[kind], "data")
    svg = draw(figure, "what it shows")
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "what it shows"
    assert "currentColor" in svg
    assert "#010203" not in svg
    assert "white" not in svg
    assert svg == draw(figure, "what it shows")


@pytest.mark.parametrize(
    "data",
    [
        {"panels": [{"matrix": [[0.0, 1.0]], "extent": [0, 2, 0, 1]}], "colours": "grey"},
        {"panels": [{"matrix": [[0.0, 1.0]]}], "range": [-1, 1]},
        {"panels": [{"matrix": [[0.0]]}], "colours": "diverging"},
    ],
)
def test_heatmaps_take_an_extent_and_a_range(data):
    assert "<image" in draw(from_record("heatmaps", data, "data"))


def test_boxes_weights_choose_the_colour():
    box = [0.1, 0.1, 0.9, 0.9]
    drawn = {draw(Boxes([BoxSet([box], weights=[weight])])) for weight in (0.0, 0.5, 1.0)}
    assert len(drawn) == 3


def test_a_picture_stands_behind_boxes():
    plain = BoxSet([[0.1, 0.1, 0.5, 0.5]])
    with_picture = BoxSet(plain.boxes, picture=[[0.0, 1.0], [0.5, 0.2]])
    assert "<image" not in draw(Boxes([plain]))
    assert "<image" in draw(Boxes([with_picture]))


def test_text_is_not_read_as_mathematics():
    assert "cost $a_1$" in draw_line(Line([0], [0]), title="cost $a_1$")


def test_a_log_axis_has_plain_labels():
    svg = draw_line(Line([0, 1], [0.01, 100]), log_y=True)
    assert "mathdefault" not in svg
    assert ">0.01<" in svg


def test_frames_without_a_script_show_the_start_frame():
    def svg(start):
        bars = MovingBars([[1.0], [2.0]], range=(0, 2))
        return draw(Frames(Slider("step", [0, 1]), [bars], start=start))

    assert svg(0) != svg(1)


def test_data_for_the_script_cannot_leave_its_element():
    evil = "</script><script>alert(1)</script> & <!-- \u2028"
    text = script_data(Frames(Slider(evil, [1]), [], texts=[evil]))
    assert not set("<>&\u2028") & set(text)
    read = json.loads(text)
    assert (read["slider"], read["texts"]) == ({"label": evil, "values": [1]}, [evil])


def test_data_for_the_script_has_what_it_needs_to_draw():
    bars = MovingBars([[1.0]], range=(0, 2))
    read = json.loads(script_data(Frames(Slider("step", [1]), [bars])))
    assert read["panels"] == [{"kind": "bars", "bars": [[1.0]], "range": [0, 2]}]
    assert len(read["palette"]) == 8
    assert {name: len(ramp) for name, ramp in read["ramps"].items()} == {
        "grey": 33,
        "diverging": 33,
        "weights": 33,
    }


@pytest.mark.parametrize(("x", "kept"), [(0.1234567, "0.1234567"), (1, "1")])
def test_texts_of_a_picture_keep_their_digits(x, kept):
    svg = draw_line(Line([0, 1], [0, x]), title=f"  a {x} b: {x}; c L 1")
    assert f"a {kept} b: {kept}; c L 1" in svg


def test_many_curves_are_coloured_in_their_order_instead_of_named(tmp_path):
    recorder = Recorder.start(tmp_path / "run", experiment="toy", scale="cpu", config={"seed": 0})
    for index in range(40):
        recorder.add_metrics(f"counter/l={index}", 1, {"loss": 1.0 + index})
        recorder.add_metrics(f"counter/l={index}", 2, {"loss": 0.5 + index})
    (figure,) = learning_curves([read_run(tmp_path / "run")]).values()
    svg = draw(figure, "many curves")
    assert "from l=0 (blue) to l=39 (red)" in svg
    assert "l=20<" not in svg
