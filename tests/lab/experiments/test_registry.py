"""Every experiment in the registry is what its declaration says, and runs."""

import dataclasses
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchsets
from torchsets._catalogue import DATASETS
from torchsets.lab.experiments import (
    SCALES,
    SUBJECTS,
    digest,
    experiments,
    find_experiment,
    find_table,
    tables,
)
from torchsets.lab.experiments.digest import definitions
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.values import config_from_json, config_to_json
from torchsets.lab.reports import draw_figure, thesis_tables

ROOT = Path(torchsets.__file__).parent
NAMES = list(experiments())
TABLES = list(tables())
FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.=+,-]*")


def fields_of(experiment):
    return {field.name: field.default for field in dataclasses.fields(experiment.config)}


@pytest.mark.parametrize("name", NAMES)
def test_every_scale_makes_a_config_and_survives_json(name):
    experiment = find_experiment(name)
    assert set(SCALES) <= set(experiment.scales)
    for scale in experiment.scales:
        config = experiment.config_at(scale)
        recorded = json.loads(json.dumps(config_to_json(config)))
        assert config_from_json(experiment, recorded, "config.json") == config


@pytest.mark.parametrize("name", NAMES)
def test_the_config_is_frozen_and_holds_values_alone(name):
    """The record says what they were; what is computed with them is in the digest of the code."""
    experiment = find_experiment(name)
    config = experiment.config_at("smoke")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 1
    own = {key for key, value in vars(experiment.config).items() if callable(value)}
    assert {key for key in own if not key.startswith("__")} == set()
    assert not any(isinstance(value, property) for value in vars(experiment.config).values())


@pytest.mark.parametrize("name", NAMES)
def test_each_field_is_explained_in_the_docstring(name):
    experiment = find_experiment(name)
    _, _, attributes = experiment.config.__doc__.partition("Attributes:\n")
    explained = re.findall(r"^ {8}(\w+): \S", attributes, flags=re.MULTILINE)
    assert explained == list(fields_of(experiment))


@pytest.mark.parametrize("name", NAMES)
def test_it_has_a_seed_a_device_and_known_data(name):
    experiment = find_experiment(name)
    fields = fields_of(experiment)
    assert fields["seed"] == 0
    assert fields["device"] == "auto"
    assert set(experiment.data) <= set(DATASETS)
    assert experiment.tables
    assert "\n" not in experiment.summary


@pytest.mark.parametrize("key", TABLES)
def test_a_table_is_the_thesis_or_marked_as_ours(key):
    table, experiment = find_table(key)
    assert (key in thesis_tables()) is table.thesis
    assert set(table.fixed) <= set(fields_of(experiment))
    assert not {"seed", "device"} & set(table.fixed)
    assert set(SCALES) <= set(table.takes)
    assert set(table.merge.values()) <= {"min", "max"}
    if table.thesis:
        assert table.fixed
        assert set(table.merge) <= set(thesis_tables()[key].columns)


@pytest.mark.parametrize("key", TABLES)
def test_its_shards_cover_the_table_and_fill_it(key):
    table, experiment = find_table(key)
    for scale in SCALES:
        whole = experiment.config_at(scale)
        shards = {"all": whole} if experiment.split is None else experiment.split(key, whole)
        assert shards
        for name, shard in shards.items():
            assert FOLDER_NAME.fullmatch(name)
            assert len(name) < 60
            label = experiment.variants(shard, scale).get(key)  # None: it fills the table itself
            other = "dataset" in table.fixed and shard.dataset != type(shard).dataset
            assert label == (f"dataset={shard.dataset}" if other else None)
        configs = list(shards.values())
        assert len({json.dumps(config_to_json(one)) for one in configs}) == len(configs)
        if experiment.split is not None:  # a table may need a part of what all need together
            keys = [one.key for one in experiment.tables]
            configs = [one for other in keys for one in experiment.split(other, whole).values()]
        for field in fields_of(experiment):  # what tells the shards apart is not lost
            values = [getattr(one, field) for one in configs]
            if len(set(values)) > 1 and isinstance(values[0], tuple):
                assert {one for value in values for one in value} == set(getattr(whole, field))


def test_names_of_folders_differ_in_every_file_system():
    for key in TABLES:
        _, experiment = find_table(key)
        if experiment.split is not None:
            names = list(experiment.split(key, experiment.config_at("full")))
            assert len({name.lower() for name in names}) == len(names)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_declaration_needs_no_torch(subject):
    code = (
        f"import torchsets.lab.experiments.{subject}.configs as configs, sys\n"
        "assert configs.EXPERIMENTS\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "torchsets" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "matplotlib"}


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_without_any_data_file_and_can_be_drawn(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path / "nothing"))
    experiment = find_experiment(name)
    changes = {"steps": 2} if "steps" in fields_of(experiment) else {}
    config = experiment.config_at("smoke", **changes)
    train, called = experiment.load(), set()
    monkeypatch.setattr(
        type(experiment),
        "load",
        lambda self: lambda *given: called.update(calls_of(lambda: train(*given))),
    )
    run = run_experiment(name, config, scale="smoke", folder=tmp_path / "run")
    # A function that only a look-up at run time can find would be missed by the code's digest.
    assert len(called) > 30
    assert called <= set(definitions(experiment.run))
    assert run.complete
    assert run.cells
    assert run.figures
    assert list(run.tables) == [table.key for table in experiment.tables if table.thesis]
    known = {*thesis_tables(), *run.descriptions}
    for cell in run.cells:
        key = cell.table.removesuffix("/variants")
        assert key in known
        if key in thesis_tables() or cell.value is not None:  # our own may say: no number
            assert math.isfinite(cell.value)
    assert any(table.shows(cell.table) for table in experiment.tables for cell in run.cells)
    kinds = {type(figure.figure): figure_name for figure_name, figure in run.figures.items()}
    for figure_name in kinds.values():  # one of each kind: those of a kind are drawn alike
        assert draw_figure(figure_name, run.figures[figure_name]).lstrip().startswith("<svg")
    assert not (tmp_path / "nothing").exists()


def calls_of(function):
    """The definitions of torchsets that a call uses, except while it draws or records."""
    modules = {
        str(path): "torchsets." + ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in ROOT.rglob("*.py")
    }
    found, seen = set(), set()

    def note(frame, event, argument):
        code = frame.f_code
        module = modules.get(code.co_filename)
        if event != "call" or module is None or code in seen:
            return
        caller = frame
        while caller is not None:
            above = modules.get(caller.f_code.co_filename)
            if above is not None and not digest._counts(above):
                return
            caller = caller.f_back
        seen.add(code)
        name = code.co_qualname.split(".")[0]
        if not name.startswith("<"):  # a module that is imported, a lambda of its top level
            found.add((module.removesuffix(".__init__"), name))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return found


def test_an_unknown_name_or_key_names_the_nearest():
    with pytest.raises(ValueError, match="no experiment 'polygon'; did you mean 'polygons'"):
        find_experiment("polygon")
    with pytest.raises(ValueError, match=r"no table 'count-to'.*; did you mean 'count-toy'"):
        find_table("count-to")


def test_a_scale_that_an_experiment_does_not_have_is_refused():
    with pytest.raises(ValueError, match="sort-numbers has no scale 'huge', only smoke, cpu, full"):
        find_experiment("sort-numbers").config_at("huge")


def test_the_config_of_another_experiment_is_refused(tmp_path):
    other = find_experiment("count-toy").config_at("smoke")
    with pytest.raises(TypeError, match=r"config must be a SortNumbers of .*, got CountToy"):
        run_experiment("sort-numbers", other, folder=tmp_path)
