"""Every experiment in the list is what the list says, and runs."""

import dataclasses
import math

import pytest

from torchsets.lab.experiments import (
    EXPERIMENTS,
    SCALES,
    load_experiment,
    read_description,
    read_fields,
)
from torchsets.lab.experiments.values import config_from_record, config_from_words
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import draw_figure, thesis_tables

NAMES = list(EXPERIMENTS)


@pytest.mark.parametrize("name", NAMES)
def test_every_scale_makes_a_config_and_survives_json(name):
    for scale in SCALES:
        config = config_from_words(name, [], scale)
        assert dataclasses.is_dataclass(config)
        assert EXPERIMENTS[name].durations[scale]
        recorded = dataclasses.asdict(config)
        assert config_from_record(name, recorded) == config


def test_a_record_with_a_field_that_is_no_more_is_refused():
    with pytest.raises(ValueError, match=r"got also tempo: it was written by another version"):
        config_from_record("polygons", {"steps": 3, "tempo": 1})


@pytest.mark.parametrize("name", NAMES)
def test_the_fields_read_from_the_source_are_those_of_the_class(name):
    config_class = load_experiment(name).Config
    assert [field.name for field in read_fields(name)] == [
        field.name for field in dataclasses.fields(config_class)
    ]
    described = read_description(name)
    for field in read_fields(name):
        assert f"{field.name}:" in described, "each field is explained in the docstring"


@pytest.mark.parametrize("name", NAMES)
def test_its_tables_are_in_the_thesis(name):
    assert set(EXPERIMENTS[name].tables) <= set(thesis_tables())


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_for_two_steps_and_its_figures_can_be_drawn(name, tmp_path):
    steps = ["steps=2"] if any(field.name == "steps" for field in read_fields(name)) else []
    config = config_from_words(name, steps, "smoke")
    options = {"experiment": name, "scale": "smoke", "config": dataclasses.asdict(config)}
    load_experiment(name).run(config, Recorder.start(tmp_path / "run", **options))
    run = read_run(tmp_path / "run")
    assert run.result["results"]
    for result in run.result["results"]:
        assert math.isfinite(result["value"])
        known = {**thesis_tables(), **run.result["tables"]}
        assert result["table"] in known
    for figure_name, figure in run.figures.items():
        assert "<svg" in draw_figure(figure_name, figure)
