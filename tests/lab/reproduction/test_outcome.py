"""Shards put together are what one run would have been."""

import json
import sys
from types import ModuleType

import pytest

from torchsets.lab.experiments import Table
from torchsets.lab.figures import Lines
from torchsets.lab.records import Cell, Recorder, read_run, write_json
from torchsets.lab.reports import groups_of, merge_runs, merge_shards
from torchsets.lab.reproduction import Job, Shard
from torchsets.lab.reproduction.folders import Place
from torchsets.lab.reproduction.outcome import write_outcome


def record(folder, *, size, results, seed=0):
    config = {"sizes": [size], "width": 16, "seed": seed, "noise": size / 10}
    recorder = Recorder.start(folder, experiment="toy", scale="smoke", config=config)
    for column, value in results.items():
        recorder.add_result("toy/table", model="FSPool", column=column, value=value)
    for name in ("own" if size == 2 else "shared", "both"):
        recorder.add_figure(name, Lines([]), title="Lines", caption="", alt="")
    recorder.add_metrics(f"n={size}/fspool", 1, {"loss": 0.5})
    recorder.add_task(f"n={size}/fspool", steps=1, seconds=1.0, parameters=3)
    if size != 8:
        recorder.finish()
    return read_run(folder)


def merged(tmp_path, choices=None):
    runs = {
        f"n={size}": record(tmp_path / str(size), size=size, results=results)
        for size, results in ((8, {"n=8": 1.0, "best": 8}), (2, {"n=2": 2.0, "best": 2}))
    }
    return merge_runs(runs, choices or {})


def test_numbers_curves_and_tasks_are_gathered(tmp_path):
    run = merged(tmp_path)
    cells = {cell.column: cell.value for cell in run.cells}
    assert (cells["n=8"], cells["n=2"]) == (1.0, 2.0)
    assert set(run.tasks) == {"n=8/fspool", "n=2/fspool"}
    assert [line["task"] for line in run.metrics] == ["n=8/fspool", "n=2/fspool"]
    assert not run.complete, "one of them is not"


def test_what_two_shards_trained_both_is_drawn_once_and_counted_twice(tmp_path):
    runs = {name: record(tmp_path / name, size=2, results={"n=2": 1.0}) for name in "ab"}
    run = merge_runs(runs, {})
    assert [line["task"] for line in run.metrics] == ["n=2/fspool"]
    assert sum(task.seconds for task in run.tasks.values()) == 2
    assert list(run.tasks) == ["n=2/fspool", "b n=2/fspool"]


def test_a_column_may_take_the_smallest_or_the_largest_of_the_shards(tmp_path):
    for choice, expected in (("min", 2), ("max", 8)):
        run = merged(tmp_path / choice, {"best": choice})
        cells = {cell.column: cell.value for cell in run.cells}
        assert cells["best"] == expected
        assert len(run.cells) == 3


def test_numbers_that_differ_under_one_name_are_kept_with_their_shards(tmp_path):
    cells = {cell.model: cell.value for cell in merged(tmp_path).cells if cell.column == "best"}
    assert cells == {"FSPool (n=8)": 8, "FSPool (n=2)": 2}


def test_what_shards_have_alike_is_there_once(tmp_path):
    runs = {
        name: record(tmp_path / name, size=2, results={"n=2": value})
        for name, value in (("a", 1.0), ("b", 1.0), ("c", float("nan")))
    }
    assert [(cell.model, cell.value) for cell in merge_runs(runs, {}).cells] == [("FSPool", 1.0)]


def test_all_commits_and_resumes_are_told(tmp_path):
    run = merged(tmp_path)
    assert run.shards == len(run.environments) == 2
    Recorder.resume(tmp_path / "8").close()
    runs = {name: read_run(tmp_path / name) for name in ("8", "2")}
    again = merge_runs(runs, {})
    assert (again.shards, len(again.environments)) == (2, 3)
    starts = [one.started for one in again.environments]
    assert starts == sorted(starts)


def test_figures_of_the_same_name_say_which_shard_they_are_of(tmp_path):
    figures = merged(tmp_path).figures
    titles = {name: figure.title for name, figure in figures.items()}
    assert titles == {
        "own": "Lines",
        "shared": "Lines",
        "n=8 both": "Lines (n=8)",
        "n=2 both": "Lines (n=2)",
    }


def make_jobs(out, sizes, states=None):
    jobs = []
    for size, state in zip(sizes, states or ["done"] * len(sizes), strict=True):
        shard = Shard(f"n={size},seed=0", "toy", "smoke", {"sizes": [size], "seed": 0})
        jobs.append(Job(shard, Place(out / str(size), "new"), out / "log.txt", state))
        if state != "waiting":
            record(out / str(size), size=size, results={f"n={size}": 1.0, "best": size})
    return jobs


def test_columns_rise_whatever_the_order_in_which_the_shards_ran(tmp_path):
    text, files = write_outcome(Table("toy", {}), make_jobs(tmp_path, (16, 8, 2)), tmp_path)
    assert text.splitlines()[1].split() == ["n=2", "best", "n=8", "n=16"]
    assert [path.name for path in files] == ["toy.txt", "toy.json", "toy.html"]


def test_the_table_may_choose_among_the_shards_and_tells_the_report_so(tmp_path):
    table = Table("toy", {}, merge={"best": "max"})
    text, _ = write_outcome(table, make_jobs(tmp_path, (16, 2)), tmp_path, page=False)
    heading, ours = text.splitlines()[1:3]
    assert dict(zip(heading.split(), ours.split()[2:], strict=True))["best"] == "16.00"
    (run,) = merge_shards([read_run(tmp_path / "2"), read_run(tmp_path / "16")])
    assert {cell.column: cell.value for cell in run.cells}["best"] == 16


def sum_up(runs):
    values = [cell.value for run in runs for cell in run.cells if cell.column != "best"]
    return [Cell("toy/derived", "sum", "all", None, sum(values))]


def test_numbers_of_all_shards_together_are_derived(tmp_path, monkeypatch):
    module = ModuleType("derivation")
    module.sum_up = sum_up
    monkeypatch.setitem(sys.modules, "derivation", module)
    table = Table("toy", {}, derive="derivation:sum_up")
    text, files = write_outcome(table, make_jobs(tmp_path, (16, 8, 2)), tmp_path)
    assert text.splitlines()[-3].split() == ["sum", "ours", "3.000"], text
    assert "toy/derived" in files[2].read_text()


def test_what_a_shard_recorded_of_a_derived_table_is_replaced(tmp_path, monkeypatch):
    module = ModuleType("derivation")
    module.sum_up = lambda runs: [Cell("toy/table", "FSPool", "best", 0, 7.0)]
    monkeypatch.setitem(sys.modules, "derivation", module)
    table = Table("toy", {}, derive="derivation:sum_up")
    text, _ = write_outcome(table, make_jobs(tmp_path, (16,)), tmp_path, page=False)
    heading, ours = text.splitlines()[1:3]
    assert heading.split() == ["best"]
    assert ours.split()[-1] == "7.000"


def test_what_is_missing_is_told(tmp_path):
    jobs = make_jobs(tmp_path, (16, 2), ["waiting", "done"])
    text, files = write_outcome(Table("toy", {}), jobs, tmp_path, overrides=["a=1"], page=False)
    assert "NOT COMPLETE: 1 of 2 shards are done" in text
    assert "changed: a=1" in text
    assert [path.name for path in files] == ["toy.txt", "toy.json"]
    content = json.loads(files[1].read_text())
    assert not content["complete"]
    assert [(shard["name"], shard["folder"], shard["state"]) for shard in content["shards"]] == [
        ("n=16,seed=0", "16", "waiting"),
        ("n=2,seed=0", "2", "done"),
    ]


def test_a_shard_that_cannot_be_read_does_not_take_the_others_along(tmp_path):
    jobs = make_jobs(tmp_path, (16, 2))
    path = tmp_path / "16" / "metrics.jsonl"
    path.write_text("[]\n")
    with pytest.warns(UserWarning, match=r"n=16,seed=0 is left out: .*metrics.jsonl must hold"):
        text, _ = write_outcome(Table("toy", {}), jobs, tmp_path, page=False)
    assert text.splitlines()[1].split() == ["n=2", "best"]


def test_a_configuration_lists_the_values_of_what_differs(tmp_path):
    config = merged(tmp_path).config
    assert config == {"sizes": [2, 8], "width": 16, "seed": 0, "noise": [0.2, 0.8]}


@pytest.mark.parametrize("kind", ["shards", "pieces"])  # pieces: version 0.1
def test_a_report_finds_the_shards_of_a_table_and_leaves_other_runs_alone(kind, tmp_path):
    runs = [
        record(tmp_path / f"{size}-{seed}", size=size, seed=seed, results={f"n={size}": 1.0})
        for size, seed in ((2, 0), (4, 0), (4, 1), (16, 0))
    ]
    listed = [{"folder": name} for name in ("2-0", "4-0", "4-1")]
    write_json(tmp_path / "key.json", {"table": "fspool/polygons-chamfer", kind: listed})
    (tmp_path / "other.json").write_text("[]", encoding="utf-8")
    first, second, alone = merge_shards(runs)
    assert [cell.column for cell in first.cells] == ["n=2", "n=4"]
    assert (first.seed, second.seed) == (0, 1)
    assert alone == runs[3]
    assert groups_of([first, second, alone]) == [[first, second], [alone]]  # one table, two seeds
