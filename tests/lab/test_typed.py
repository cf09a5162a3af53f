"""JSON becomes dataclasses of the right types, or an error that says where and what."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from torchsets.lab.typed import from_json, type_name


@dataclasses.dataclass(frozen=True)
class Inner:
    x: float
    label: str = ""


@dataclasses.dataclass(frozen=True)
class Square:
    side: float
    kind: Literal["square"] = "square"


@dataclasses.dataclass(frozen=True)
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclasses.dataclass(frozen=True)
class Outer:
    count: int = 0
    rate: float = 0.0
    name: str = ""
    flag: bool = False
    maybe: int | None = None
    colour: Literal["red", "blue"] = "red"
    pair: tuple[float, float] = (0.0, 0.0)
    mixed: tuple[float, str] = (0.0, "")
    sizes: tuple[int, ...] = ()
    rows: Sequence[Sequence[float | None]] = ()
    named: Mapping[str, int] = dataclasses.field(default_factory=dict)
    inner: Inner | None = None
    inners: Sequence[Inner] = ()
    shape: Square | Circle | None = None
    anything: Any = None


def read(**content):
    return from_json(Outer, json.loads(json.dumps(content)), "file.json")


@pytest.mark.parametrize(
    ("field", "written", "expected"),
    [
        ("count", 3, 3),
        ("rate", 0.5, 0.5),
        ("rate", 2, 2.0),
        ("name", "x", "x"),
        ("flag", True, True),
        ("maybe", None, None),
        ("maybe", 3, 3),
        ("colour", "blue", "blue"),
        ("pair", [1, 2.5], (1.0, 2.5)),
        ("mixed", [1, "x"], (1.0, "x")),
        ("sizes", [2, 4], (2, 4)),
        ("sizes", [], ()),
        ("rows", [[1, None], []], [[1.0, None], []]),
        ("named", {"a": 1}, {"a": 1}),
        ("inner", {"x": 1}, Inner(1.0)),
        ("inner", None, None),
        ("inners", [{"x": 1, "label": "y"}], [Inner(1.0, "y")]),
        ("shape", {"kind": "circle", "radius": 2}, Circle(2.0)),
        ("shape", {"kind": "square", "side": 2}, Square(2.0)),
        ("anything", {"x": [1]}, {"x": [1]}),
    ],
)
def test_each_type_is_read(field, written, expected):
    found = getattr(read(**{field: written}), field)
    assert found == expected
    assert type(found) is type(expected)


def test_integers_become_floats_at_every_depth():
    outer = read(rate=1, pair=[1, 2], rows=[[3]], inner={"x": 4})
    numbers = [outer.rate, *outer.pair, *outer.rows[0], outer.inner.x]
    assert {type(number) for number in numbers} == {float}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"count": "3"}, r"file.json: count must be int, got '3'"),
        ({"count": 3.5}, r"file.json: count must be int, got 3.5"),
        ({"count": True}, r"file.json: count must be int, got True"),
        ({"count": None}, r"file.json: count must be int, got None"),
        ({"rate": "fast"}, r"file.json: rate must be float, got 'fast'"),
        ({"rate": False}, r"file.json: rate must be float, got False"),
        ({"name": 3}, r"file.json: name must be str, got 3"),
        ({"flag": 1}, r"file.json: flag must be bool, got 1"),
        ({"maybe": "x"}, r"file.json: maybe must be int \| None, got 'x'"),
        ({"colour": "green"}, r"file.json: colour must be .*'red', 'blue'.*, got 'green'"),
        ({"pair": [1]}, r"file.json: pair must have 2 entries, got 1"),
        ({"pair": [1, "2"]}, r"file.json: pair must be float, got '2'"),
        ({"mixed": [1, 2]}, r"file.json: mixed must be str, got 2"),
        ({"sizes": 3}, r"file.json: sizes must be tuple\[int, ...\], got 3"),
        ({"sizes": "24"}, r"file.json: sizes must be tuple\[int, ...\], got '24'"),
        ({"sizes": [2, 4.5]}, r"file.json: sizes must be int, got 4.5"),
        ({"rows": [[1, "x"]]}, r"file.json: rows must be float \| None, got 'x'"),
        ({"rows": [[True]]}, r"file.json: rows must be float \| None, got True"),
        ({"named": [1]}, r"file.json: named must be .*Mapping\[str, int\], got \[1\]"),
        ({"named": {"a": "b"}}, r"file.json: named must be int, got 'b'"),
        ({"inners": [{}]}, r"file.json: inners must have the field x, got none"),
        (
            {"inners": [{"x": 1, "y": 2}]},
            r"file.json: inners must have the fields x, label, got also y",
        ),
        (
            {"shape": {"kind": "circle", "side": 2}},
            r"file.json: shape must have the fields radius, kind, got also side",
        ),
        (
            {"shape": {"kind": "star"}},
            r"file.json: shape must be Square \| Circle \| None, got {'kind': 'star'}",
        ),
        ({"tempo": 1}, r"file.json must have the fields count, .*, got also tempo"),
    ],
)
def test_an_error_says_where_and_what(content, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        read(**content)


@pytest.mark.parametrize("content", [None, [], "x", 3])
def test_only_an_object_is_a_dataclass(content):
    with pytest.raises(ValueError, match=r"^file.json must be a JSON object, got "):
        from_json(Outer, content, "file.json")


def test_a_missing_field_without_default_is_an_error():
    with pytest.raises(ValueError, match=r"^file.json must have the field x, got none$"):
        from_json(Inner, {"label": "y"}, "file.json")


def test_unknown_keys_are_passed_over_if_not_strict():
    assert from_json(Inner, {"x": 1, "later": 2}, "file.json", strict=False) == Inner(1.0)


def test_unknown_keys_deeper_down_are_passed_over_too():
    @dataclasses.dataclass(frozen=True)
    class Outer:
        many: dict[str, Inner]
        several: tuple[Inner, ...] = ()
        maybe: Inner | None = None

    later = {"x": 1, "later": 2}
    content = {"many": {"a": later}, "several": [later], "maybe": later}
    one = Inner(1.0)
    assert from_json(Outer, content, "file", strict=False) == Outer({"a": one}, (one,), one)
    for name in content:
        with pytest.raises(ValueError, match="later"):
            from_json(Outer, {"many": {}, name: content[name]}, "file")


def test_a_long_value_is_cut_in_an_error():
    with pytest.raises(ValueError, match=r"count must be int, got .*\.\.\.$") as raised:
        read(count="x" * 1000)
    assert len(str(raised.value)) < 150


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (int, "int"),
        (type(None), "None"),
        (float | None, "float | None"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Inner, "Inner"),
    ],
)
def test_types_are_named_as_they_are_written(hint, name):
    assert type_name(hint) == name
