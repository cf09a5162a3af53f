"""``field=value`` and JSON become configurations of the right types, or errors that help."""

import dataclasses
import json

import pytest

from torchsets.lab.experiments.experiment import Experiment, check_at_least, format_value
from torchsets.lab.experiments.values import (
    config_from_json,
    config_from_overrides,
    config_to_json,
    read_value,
)


@dataclasses.dataclass(frozen=True)
class Config:
    steps: int = 100
    rate: float = 0.1
    model: str = "fspool"
    bias: bool = True
    sizes: tuple[int, ...] = (2, 4)
    sigmas: tuple[float, ...] = (0.0,)
    models: tuple[str, ...] = ("a", "b")
    clip: float | None = None
    limit: int | None = 7

    def __post_init__(self):
        check_at_least(1, self, "steps", "sizes", "limit")


EXPERIMENT = Experiment(
    "toy", "a toy", config=Config, scales={"smoke": {"steps": 3}, "full": {}}, run="nowhere:run"
)


@pytest.mark.parametrize(
    ("override", "value"),
    [
        ("steps=5", 5),
        ("rate=1e-3", 0.001),
        ("rate=2", 2.0),
        ("model=a=b", "a=b"),
        ("model=", ""),
        ("bias=false", False),
        ("bias=TRUE", True),
        ("bias=0", False),
        ("bias=1", True),
        ("sizes=8", (8,)),
        ("sizes=8, 16,32", (8, 16, 32)),
        ("sizes=8,", (8,)),
        ("sizes=", ()),
        ("sigmas=0,0.5", (0.0, 0.5)),
        ("models=x,y", ("x", "y")),
        ("clip=none", None),
        ("clip=None", None),
        ("clip=1.5", 1.5),
        ("limit=none", None),
        ("limit=9", 9),
    ],
)
def test_each_type_is_read(override, value):
    name = override.partition("=")[0]
    config = config_from_overrides(EXPERIMENT, [override], "smoke")
    found = getattr(config, name)
    assert found == value
    assert type(found) is type(value)
    others = {"steps": 3} if name != "steps" else {}
    assert config == Config(**{**others, name: value})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps=five", r"steps must be int, got 'five'"),
        ("steps=1.5", r"steps must be int, got '1.5'"),
        ("steps=", r"steps must be int, got ''"),
        ("rate=fast", r"rate must be float, got 'fast'"),
        ("bias=yes", r"bias must be bool, got 'yes'"),
        ("sizes=2,x", r"sizes must be tuple\[int, ...\], got '2,x'"),
        ("clip=low", r"clip must be float \| None, got 'low'"),
        ("steps=none", r"steps must be int, got 'none'"),
        ("stepz=3", r"toy has no field 'stepz'; did you mean 'steps'\?"),
        ("steps", r"fields are written field=value, got 'steps' alone"),
        ("steps=0", r"steps must be at least 1, got 0"),
        ("sizes=4,0", r"sizes must be at least 1, got 4,0"),
        ("limit=0", r"limit must be at least 1, got 0"),
    ],
)
def test_an_error_says_what_is_wrong(override, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        config_from_overrides(EXPERIMENT, [override], "smoke")


def test_the_last_override_of_a_field_stands():
    assert config_from_overrides(EXPERIMENT, ["steps=5", "steps=6"], "full") == Config(steps=6)


@pytest.mark.parametrize("field", dataclasses.fields(Config), ids=lambda field: field.name)
def test_what_is_written_is_read_again(field):
    """Commands in reports are made of such texts."""
    hint = Config.__annotations__[field.name]
    assert read_value(hint, format_value(field.default)) == field.default


def test_a_config_survives_json():
    config = Config(sizes=(), clip=1.5, limit=None)
    written = json.loads(json.dumps(config_to_json(config)))
    assert written["sizes"] == []
    assert config_from_json(EXPERIMENT, written, "config.json") == config


def test_json_may_leave_out_fields_that_are_newer_than_it():
    assert config_from_json(EXPERIMENT, {"steps": 3}, "config.json") == Config(steps=3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            {"steps": 3, "tempo": 1},
            r"config.json must have the fields of toy, got also tempo; did you mean 'steps', "
            r"or was it written by another version\?",
        ),
        ({"steps": "3"}, r"config.json: steps must be int, got '3'"),
        ({"steps": 3.5}, r"config.json: steps must be int, got 3.5"),
        ({"steps": True}, r"config.json: steps must be int, got True"),
        ({"bias": 1}, r"config.json: bias must be bool, got 1"),
        ({"sizes": 3}, r"config.json: sizes must be tuple\[int, ...\], got 3"),
        ({"sizes": [3, None]}, r"config.json: sizes must be int, got None"),
        ({"clip": "x"}, r"config.json: clip must be float \| None, got 'x'"),
        ({"steps": 0}, r"config.json: steps must be at least 1, got 0"),
        ([], r"config.json must be a JSON object, got \[\]"),
    ],
)
def test_json_that_is_no_config_is_refused(content, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        config_from_json(EXPERIMENT, content, "config.json")
