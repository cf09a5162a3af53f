"""The runs in ``results``, and run folders as they are found: old, linked, in a circle."""

import json
from pathlib import Path

import pytest

from torchsets.lab.records import Recorder, find_runs, read_runs
from torchsets.lab.reports import collect_tables, merge_shards, table_as_text, write_report

RESULTS = Path(__file__).parents[3] / "results"
REPRODUCED = sorted(RESULTS.rglob("fspool-*/fspool-*.json"))


@pytest.fixture(scope="module")
def recorded():
    return read_runs([RESULTS])  # warnings are errors


def test_every_recorded_run_can_be_read(recorded):
    folders = sorted(path.parent for path in RESULTS.rglob("config.json"))
    assert [run.folder for run in recorded] == folders
    assert len(folders) >= 47
    assert all(run.environments for run in recorded)
    assert all(run.cells for run in recorded if run.complete)  # a stopped one may have curves alone


def test_the_tables_of_the_recorded_runs_are_collected(recorded):
    tables = {table.key: table for table in collect_tables(merge_shards(recorded))}
    cells = {cell.table for run in recorded for cell in run.cells}
    assert len(cells) >= 25
    for table in map(tables.__getitem__, cells):
        assert table.caption
        assert any(row.ours is not None for row in table.rows)
        assert table.caption in table_as_text(table)


def test_there_are_tables_reproduced_by_version_0_1():
    assert [path.stem for path in REPRODUCED] == [
        "fspool-mnist",
        "fspool-mnist2",
        "fspool-polygons-chamfer",
    ]


@pytest.mark.parametrize("path", REPRODUCED, ids=lambda path: path.stem)
def test_tables_reproduced_by_version_0_1_are_merged(path, recorded):
    about = json.loads(path.read_text())
    parts = [run for run in recorded if run.folder.parent == path.parent]
    assert {run.folder.name for run in parts} == {piece["folder"] for piece in about["pieces"]}
    merged = merge_shards(parts)
    seeds = sorted({piece["config"]["seed"] for piece in about["pieces"]})
    assert sorted(run.seed for run in merged) == seeds
    assert all(run.folder == path.parent for run in merged)
    mine = {table.key: table for table in collect_tables(merged)}
    for then in about["tables"]:
        now = mine[then["key"]]
        assert now.columns == then["columns"]
        ours = {row.model: row.ours and [cell.mean for cell in row.ours] for row in now.rows}
        assert ours == {
            row["model"]: row["ours"] and [cell["mean"] for cell in row["ours"]]
            for row in then["rows"]
        }


def test_columns_of_merged_shards_rise(recorded):
    parts = [run for run in recorded if run.folder.parent.name == "fspool-polygons-chamfer"]
    tables = {table.key: table for table in collect_tables(merge_shards(parts))}
    assert tables["polygons/jumps"].columns == ["n=2", "n=4", "n=8", "n=16", "n=32"]


def test_one_page_of_two_recorded_runs(recorded, tmp_path):
    names = ("cooled-sort", "masked-two-epochs")
    runs = [run for run in recorded if run.folder.name in names]
    assert len(runs) == 2
    write_report(runs, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("<section") == 2
    assert page.count("<figure>") >= sum(len(run.figures) for run in runs)


def make_run(folder):
    Recorder.start(folder, experiment="toy", scale="smoke", config={"seed": 0}).finish()


def test_a_linked_run_is_found(tmp_path):
    make_run(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere" / "run")
    assert find_runs([tmp_path / "runs"]) == [tmp_path / "runs" / "link"]


def test_a_folder_of_runs_may_be_linked_too(tmp_path):
    for name in ("a", "b"):
        make_run(tmp_path / "elsewhere" / name)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "all").symlink_to("../elsewhere")
    assert [folder.name for folder in find_runs([tmp_path / "runs"])] == ["a", "b"]


def test_a_run_with_several_ways_to_it_is_reported_once(tmp_path):
    make_run(tmp_path / "run")
    (tmp_path / "link").symlink_to("run")
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "link").symlink_to("../run")
    paths = [tmp_path, tmp_path / "run", tmp_path / "link", tmp_path / "second", tmp_path]
    (run,) = read_runs(paths)
    assert run.folder.resolve() == tmp_path / "run"


def test_links_in_a_circle_end(tmp_path):
    make_run(tmp_path / "runs" / "run")
    (tmp_path / "runs" / "up").symlink_to("..")
    (tmp_path / "runs" / "self").symlink_to(".")
    (tmp_path / "runs" / "a").symlink_to("b")
    (tmp_path / "runs" / "b").symlink_to("a")
    (tmp_path / "runs" / "nothing").symlink_to("missing")
    assert find_runs([tmp_path / "runs"]) == [tmp_path / "runs" / "run"]
