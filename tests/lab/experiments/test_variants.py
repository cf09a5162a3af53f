"""Only runs with the thesis' settings, or with those of their scale, fill its tables."""

import pytest

from torchsets.lab.experiments import find_experiment
from torchsets.lab.experiments.launch import resume_experiment, run_experiment
from torchsets.lab.records import Recorder

KEYS = [f"fspool/polygons-{metric}" for metric in ("direct", "chamfer", "hungarian")]
SHORT = {"models": ("mlp-hungarian",), "zeroed_sizes": (), "test_sets": 64}


def variants(name, scale, **changes):
    experiment = find_experiment(name)
    return experiment.variants(experiment.config_at(scale, **changes), scale)


def rows(run, keys):
    return {cell.model for cell in run.cells if cell.table in keys}


def test_a_run_with_another_width_fills_the_variants_alone(tmp_path):
    config = find_experiment("polygons").config_at("smoke", hidden=64, **SHORT)
    run = run_experiment("polygons", config, scale="smoke", folder=tmp_path)
    assert rows(run, KEYS) == set()
    assert rows(run, [f"{key}/variants" for key in KEYS]) == {"MLP + Hungarian, hidden=64"}
    assert rows(run, ["polygons/jumps"]) == {"MLP + Hungarian"}  # our own table has no rule


def test_a_run_at_the_values_of_its_scale_fills_the_table(tmp_path):
    config = find_experiment("polygons").config_at("smoke", **SHORT)
    run = run_experiment("polygons", config, scale="smoke", folder=tmp_path)
    assert rows(run, KEYS) == {"MLP + Hungarian"}
    assert not any(cell.table.endswith("/variants") for cell in run.cells)


def test_a_resumed_run_is_still_a_variant(tmp_path):
    experiment = find_experiment("polygons")
    config = experiment.config_at("smoke", hidden=64, **SHORT)
    Recorder.start(
        tmp_path, experiment="polygons", scale="smoke", config=vars(config), tables=KEYS
    ).close()
    run = resume_experiment(tmp_path)
    assert rows(run, KEYS) == set()
    assert rows(run, [f"{key}/variants" for key in KEYS]) == {"MLP + Hungarian, hidden=64"}


@pytest.mark.parametrize(
    ("scale", "changes", "label"),
    [
        ("smoke", {}, None),
        ("cpu", {}, None),
        ("full", {}, None),
        ("demo", {}, None),
        ("cpu", {"steps": 2}, "steps=2"),
        ("cpu", {"steps": 50}, "steps=50"),  # smoke's, but this is cpu
        ("smoke", {"steps": 50}, None),
        ("smoke", {"steps": 10240}, None),  # the thesis'
        ("cpu", {"seed": 3, "sizes": (2,), "device": "cpu"}, None),
        ("full", {"learning_rate": 0.01, "hidden": 64}, "learning_rate=0.01, hidden=64"),
    ],
)
def test_fixed_fields_must_be_the_thesis_or_the_scale(scale, changes, label):
    assert variants("polygons", scale, **changes) == (
        {} if label is None else dict.fromkeys(KEYS, label)
    )


def test_other_training_sets_are_said_by_the_rows_instead():
    assert variants("sort-numbers", "cpu") == {}
    one_size = {"sizes": (5,), "training_sets": (64,), "batch_sizes": (64,), "seeds": (1,)}
    assert variants("sort-numbers", "cpu", **one_size) == {}
    label = "hidden_bias=False, evaluation_step_size=1.0"
    options = {"hidden_bias": False, "evaluation_step_size": 1.0}
    assert variants("sort-numbers", "cpu", **options) == {"perm/sorting-text": label}


def test_tables_of_our_own_have_no_variants():
    assert variants("count-toy", "cpu", steps=2, batch_size=3) == {}
    assert variants("dspn-polygons", "cpu", hidden=3) == {}
