"""Which numbers stand beside the thesis', and which go to a table of variants."""

import re

import pytest

from torchsets.lab.experiments import find_experiment
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import collect_tables, table_as_text, write_report
from torchsets.lab.reports.tables import format_number

KEY = "fspool/polygons-chamfer"


def record(folder, *, scale="cpu", seed=0, finish=True, **changes):
    experiment = find_experiment("polygons")
    config = experiment.config_at(scale, seed=seed, **changes)
    recorder = Recorder.start(
        folder,
        experiment="polygons",
        scale=scale,
        config={"seed": seed, **changes},
        tables=[KEY],
        variants=experiment.variants(config, scale),
    )
    recorder.add_result(KEY, model="FSPool", column="n=4", value=1.0 + seed)
    if finish:
        recorder.finish()
    return read_run(folder)


@pytest.mark.parametrize("scale", ["cpu", "full"])
def test_the_settings_of_the_thesis_or_the_scale_stand_beside_the_thesis(scale, tmp_path):
    (table,) = collect_tables([record(tmp_path / "run", scale=scale)])
    assert (table.key, table.in_thesis) == (KEY, True)
    (row,) = [row for row in table.rows if row.ours is not None]
    assert row.model == "FSPool"
    assert row.thesis is not None


def test_other_settings_have_a_table_of_their_own_without_the_thesis(tmp_path):
    runs = [
        record(tmp_path / f"{steps}-{seed}", seed=seed, steps=steps, hidden=8)
        for steps in (7, 9)
        for seed in (0, 1)
    ]
    (table,) = collect_tables(runs)
    assert table.key == f"{KEY}/variants"
    assert table.caption.startswith("Polygon auto-encoding: Chamfer loss by set size; with other")
    assert (table.unit, table.better, table.in_thesis) == ("1e-2", "lower", False)
    assert [row.model for row in table.rows] == [
        "FSPool, steps=7, hidden=8",
        "FSPool, steps=9, hidden=8",
    ]
    for row in table.rows:
        assert row.thesis is None
        assert [(cell.mean, cell.seeds) for cell in row.ours] == [(1.5, 2)]
    text = table_as_text(table, all_rows=True)
    assert "other settings than the thesis', which the rows name" in text
    assert text.count("thesis") == 1, "only in the caption"


def test_what_a_scale_sets_is_no_variant(tmp_path):
    (table,) = collect_tables([record(tmp_path / "run", scale="smoke")])
    assert table.key == KEY


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.9994, "9.999"),
        (9.9996, "10.00"),
        (99.994, "99.99"),
        (99.996, "100.0"),
        (-9.9996, "-10.00"),
    ],
)
def test_a_number_has_the_decimals_of_what_is_printed(value, text):
    assert format_number(value) == text


def test_an_axis_of_the_table_is_no_variant(tmp_path):
    (table,) = collect_tables([record(tmp_path / "run", sizes=(4, 6), models=("fspool",))])
    assert table.key == KEY


def test_a_page_shows_variants_after_what_the_thesis_has(tmp_path):
    runs = [record(tmp_path / "a"), record(tmp_path / "b", steps=7)]
    write_report(runs, tmp_path / "report.html")
    first, second = (tmp_path / "report.html").read_text().split("<section")[1:]
    assert f"thesis table <code>{KEY}</code>" in first
    assert '<tr class="thesis">' in first
    assert "not in the thesis" in second
    assert '<tr class="thesis">' not in second
    assert re.search(r"<td>FSPool, steps=7</td>.*<td>1.000</td>", second)


def test_a_stopped_run_of_a_variant_shows_both(tmp_path):
    tables = collect_tables([record(tmp_path / "run", steps=7, finish=False)])
    assert [table.key for table in tables] == [KEY, f"{KEY}/variants"]


@pytest.mark.parametrize("key", ["dspn-states", "dspn-images"])  # the second has published rows
def test_variants_of_a_table_of_ours_have_its_caption_and_per_cent_no_tiny_numbers(key, tmp_path):
    experiment = find_experiment(key)
    config = experiment.config_at("cpu", learning_rate=0.001)
    recorder = Recorder.start(
        tmp_path / "run",
        experiment=key,
        scale="cpu",
        config={"seed": 0},
        tables=[key],
        variants=experiment.variants(config, "cpu"),
    )
    recorder.add_table(key, caption="Precision", unit="%", better="higher")
    recorder.add_result(key, model="MLP", column="AP_1", value=0.00012)
    recorder.finish()
    (table,) = collect_tables([read_run(tmp_path / "run")])
    assert table.key == f"{key}/variants"
    assert table.caption == "Precision; with other settings, which the rows name"
    assert (table.unit, table.better) == ("%", "higher")
    (row,) = table.rows
    assert row.model == "MLP, learning_rate=0.001"
    assert str(row.ours[0]) == "0.000"
