import json
import xml.etree.ElementTree as ElementTree

import pytest

from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import KINDS, draw_figure
from torchsets.lab.reports.curves import learning_curves
from torchsets.lab.reports.frames import draw_frames, script_data

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
            {"kind": "points", "points": [[[0, 0]] * 12], "slots": range(12), "range": [-1, 1]},
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


@pytest.mark.parametrize("kind", list(KINDS))
def test_each_kind_is_drawn_as_svg_in_the_colours_of_the_page(kind):
    figure = {"kind": kind, "alt": "what it shows", "data": DATA[kind]}
    svg = draw_figure("name", figure)
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "what it shows"
    assert "currentColor" in svg
    assert "#010203" not in svg
    assert "white" not in svg
    assert svg == draw_figure("name", figure)


@pytest.mark.parametrize(
    "data",
    [
        {"panels": [{"matrix": [[0.0, 1.0]], "extent": [0, 2, 0, 1]}], "colours": "grey"},
        {"panels": [{"matrix": [[0.0, 1.0]]}], "range": [-1, 1]},
        {"panels": [{"matrix": [[0.0]]}], "colours": "diverging"},
    ],
)
def test_heatmaps_take_an_extent_and_a_range(data):
    assert "<image" in draw_figure("name", {"kind": "heatmaps", "alt": "", "data": data})


def test_boxes_weights_choose_the_colour():
    box = [0.1, 0.1, 0.9, 0.9]
    drawn = {
        draw_figure(
            "name",
            {"kind": "boxes", "alt": "", "data": {"panels": [{"boxes": [box], "weights": [w]}]}},
        )
        for w in (0.0, 0.5, 1.0)
    }
    assert len(drawn) == 3


def test_text_is_not_read_as_mathematics():
    panel = {"title": "cost $a_1$", "lines": [{"x": [0], "y": [0]}]}
    svg = draw_figure("name", {"kind": "lines", "alt": "", "data": {"panels": [panel]}})
    assert "cost $a_1$" in svg


def test_a_log_axis_has_plain_labels():
    panel = {"log_y": True, "lines": [{"x": [0, 1], "y": [0.01, 100]}]}
    svg = draw_figure("name", {"kind": "lines", "alt": "", "data": {"panels": [panel]}})
    assert "mathdefault" not in svg
    assert ">0.01<" in svg


def test_an_unknown_kind_is_an_error():
    with pytest.raises(
        ValueError, match="kind must be one of boxes, frames, heatmaps, lines, points"
    ):
        draw_figure("name", {"kind": "pie", "alt": "", "data": {}})


def test_frames_without_a_script_show_the_start_frame():
    def svg(start):
        data = {**DATA["frames"], "start": start}
        return draw_figure("name", {"kind": "frames", "alt": "", "data": data})

    assert svg(0) != svg(1)
    assert svg(1) == draw_figure("name", {"kind": "frames", "alt": "", "data": DATA["frames"]})


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ({"kind": "pie"}, "kind must be one of points, boxes, matrix, bars, lines, got 'pie'"),
        ({"kind": "bars", "bars": [[1]] * 4}, "bars must have 1 or 3 frames, got 4"),
    ],
)
@pytest.mark.parametrize("use", [draw_frames, script_data])
def test_frames_must_fit_the_slider(use, panel, message):
    with pytest.raises(ValueError, match=message):
        use({"slider": {"label": "x", "values": [1, 2, 3]}, "panels": [panel]})


def test_data_for_the_script_cannot_leave_its_element():
    evil = "</script><script>alert(1)</script> & <!-- \u2028"
    data = {"slider": {"label": evil, "values": [1]}, "panels": [], "texts": [evil]}
    text = script_data(data)
    assert not set("<>&\u2028") & set(text)
    read = json.loads(text)
    assert (read["slider"], read["texts"]) == (data["slider"], [evil])


@pytest.mark.parametrize(("x", "kept"), [(0.1234567, "0.1234567"), (1, "1")])
def test_texts_of_a_picture_keep_their_digits(x, kept):
    panel = {"title": f"  a {x} b: {x}; c L 1", "lines": [{"x": [0, 1], "y": [0, x]}]}
    svg = draw_figure("name", {"kind": "lines", "alt": "", "data": {"panels": [panel]}})
    assert f"a {kept} b: {kept}; c L 1" in svg


def test_many_curves_are_coloured_in_their_order_instead_of_named(tmp_path):
    recorder = Recorder.start(tmp_path / "run", experiment="toy", scale="cpu", config={"seed": 0})
    for index in range(40):
        recorder.add_metrics(f"counter/l={index}", 1, {"loss": 1.0 + index})
        recorder.add_metrics(f"counter/l={index}", 2, {"loss": 0.5 + index})
    (figure,) = learning_curves([read_run(tmp_path / "run")]).values()
    svg = draw_figure("curves", {"kind": "lines", "alt": "many curves", "data": figure})
    assert "from l=0 (blue) to l=39 (red)" in svg
    assert "l=20<" not in svg
