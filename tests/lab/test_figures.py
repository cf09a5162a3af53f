"""Figures as data: what is written comes back, and an error says where something does not fit."""

import json

import pytest

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

FIGURES = [
    Lines([Panel([Line([0.0], [None], "a", dashed=True, value=0.5)], x_range=(0.0, 1.0))]),
    Points([PointSet([[0.0, 1.0]], "a", [0], [0.5], [[1.0, 1.0]], path=True)], limit=1.5),
    Heatmaps([Matrix([[0.0, None]], extent=(0.0, 1.0, 0.0, 1.0))], colours="diverging", bar=True),
    Boxes([BoxSet([[0.0, 0.0, 1.0, 1.0]], weights=[0.5])], columns=2),
    Frames(
        Slider("step", [0.0, 1.0], unit="°"),
        [
            MovingPoints([[[0.0, 1.0]]], range=(0.0, 1.0), slots=[0], trail=True),
            MovingBoxes([[[0.0, 0.0, 1.0, 1.0]]], weights=[[0.5], [None]]),
            MovingMatrix([[[1.0]]], range=(0.0, 1.0), rows=["a"], columns=["b"]),
            MovingBars([[1.0], [2.0]], range=(0.0, 2.0), marks=[[1.0]], names=["a"]),
            CursorLines([Line([0.0, 1.0], [1.0, None])], x_label="step"),
        ],
        texts=["a", "b"],
        start=1,
    ),
]


@pytest.mark.parametrize("figure", FIGURES, ids=kind_of)
def test_a_figure_comes_back_from_json(figure):
    record = json.loads(json.dumps(to_record(figure)))
    assert from_record(kind_of(figure), record, "f.json") == figure


def test_every_kind_is_among_them():
    assert sorted(map(kind_of, FIGURES)) == sorted(KINDS)


def test_numbers_are_rounded_to_five_digits_and_counts_are_not():
    record = to_record(Lines([Panel([Line([1234567, 0], [0.123456789, 1e-9])])], columns=123456))
    assert record["panels"][0]["lines"][0] == {"x": [1234567, 0], "y": [0.12346, 1e-9]}
    assert record["columns"] == 123456


@pytest.mark.parametrize("kind", ["pie", None, ["lines"]])
def test_an_unknown_kind_is_an_error(kind):
    with pytest.raises(
        ValueError, match=r"f\.json must be one of boxes, frames, heatmaps, lines, points, got"
    ):
        from_record(kind, {}, "f.json")


@pytest.mark.parametrize(
    ("panel", "message"),
    [
        ({"kind": "pie"}, r"f\.json: panels must be MovingPoints \| .*, got \{'kind': 'pie'\}"),
        ({"kind": "bars", "bars": [[1]]}, r"f\.json: panels must have the field range, got none"),
        (
            {"kind": "bars", "bars": [[1]] * 4, "range": [0, 1]},
            r"f\.json: bars must have 1 or 3 frames, got 4",
        ),
    ],
)
def test_frames_must_fit_the_slider(panel, message):
    data = {"slider": {"label": "x", "values": [1, 2, 3]}, "panels": [panel]}
    with pytest.raises(ValueError, match=message):
        from_record("frames", data, "f.json")


def test_frames_that_do_not_fit_cannot_be_recorded_either():
    with pytest.raises(ValueError, match="bars must have 1 or 2 frames, got 3"):
        Frames(Slider("x", [1, 2]), [MovingBars([[1]] * 3, range=(0, 1))])
