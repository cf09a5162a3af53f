import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torchsets.lab.figures import Line, Lines, Panel
from torchsets.lab.records import (
    Cell,
    Description,
    Recorder,
    Task,
    describe_environment,
    find_runs,
    read_run,
    write_json,
)

TEXTS = {"title": "t", "caption": "c", "alt": "a"}
FIGURE = Lines([Panel([Line([0, 1], [1.0, 2.0])])])


@pytest.fixture
def recorder(tmp_path):
    return start(tmp_path / "run")


def start(folder, **options):
    options = {
        "experiment": "toy",
        "scale": "smoke",
        "config": {"seed": 3, "sizes": (2, 4)},
    } | options
    return Recorder.start(folder, **options)


def test_what_is_written_is_read_back(recorder):
    recorder.add_metrics("a", 1, {"loss": 0.1})
    recorder.add_task("a", steps=1, seconds=2.0, parameters=7)
    recorder.add_table("own", caption="Own", unit="%", better="higher")
    recorder.add_result("own", model="A", column="x", value=0.1 + 0.2)
    recorder.add_figure("one", FIGURE, **TEXTS)
    recorder.finish()
    run = read_run(recorder.folder)
    assert (run.experiment, run.scale, run.seed) == ("toy", "smoke", 3)
    assert run.config == {"seed": 3, "sizes": [2, 4]}
    assert run.metrics == [{"task": "a", "step": 1, "loss": 0.1}]
    assert run.tasks["a"] == Task(steps=1, seconds=2.0, parameters=7)
    assert run.cells == (Cell("own", "A", "x", 3, 0.1 + 0.2),)
    assert run.complete is True
    assert run.figures["one"].figure == FIGURE
    assert run.figures["one"].caption == "c"


def test_a_described_table_is_on_the_disk_at_once(recorder):
    recorder.add_table("own", caption="Own", unit="%")
    assert read_run(recorder.folder).descriptions == {"own": Description("Own", "%")}


def test_every_json_file_has_a_schema_version(recorder):
    recorder.add_figure("one", FIGURE, **TEXTS)
    versions = [json.loads(path.read_text())["schema_version"] for path in json_files(recorder)]
    assert versions == [1, 1, 1, 1]


@pytest.mark.parametrize("name", ["config.json", "environment.json", "result.json"])
def test_a_newer_schema_is_refused_and_left_alone(recorder, name):
    path = recorder.folder / name
    newer = path.read_text().replace('"schema_version": 1', '"schema_version": 2')
    path.write_text(newer)
    recorder.close()
    with pytest.raises(ValueError, match=r"schema version 1 or less, got 2: .* newer torchsets"):
        Recorder.resume(recorder.folder)
    assert path.read_text() == newer


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_broken_file_is_named(recorder, content):
    (recorder.folder / "result.json").write_text(content)
    with pytest.raises(ValueError, match=r"result.json must be a JSON file of a run folder"):
        read_run(recorder.folder)


def test_a_resumed_run_keeps_what_it_had_and_adds_an_environment(recorder):
    recorder.add_result("own", model="A", column="x", value=1.0)
    recorder.close()
    again = Recorder.resume(recorder.folder)
    again.add_result("own", model="B", column="x", value=2.0)
    run = read_run(recorder.folder)
    assert [cell.value for cell in run.cells] == [1.0, 2.0]
    assert len(run.environments) == 2


def test_a_cell_recorded_again_is_replaced(recorder):
    recorder.add_result("own", model="A", column="x", value=1.0)
    recorder.add_result("own", model="A", column="y", value=1.0)
    recorder.add_result("own", model="A", column="x", value=5.0)
    cells = {cell.column: cell.value for cell in read_run(recorder.folder).cells}
    assert cells == {"y": 1.0, "x": 5.0}


def test_rewinding_drops_later_lines_of_that_task_alone(recorder):
    for task, step in [("a", 1), ("a", 2), ("b", 5), ("a", 3)]:
        recorder.add_metrics(task, step, {"loss": 0.5})
    recorder.rewind("a", 2)
    kept = [(line["task"], line["step"]) for line in read_run(recorder.folder).metrics]
    assert kept == [("a", 1), ("a", 2), ("b", 5)]


def test_a_line_cut_off_by_a_crash_is_ignored_and_then_removed(recorder):
    recorder.add_metrics("a", 1, {"loss": 0.5})
    path = recorder.folder / "metrics.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"task": "a", "st')
    assert len(read_run(recorder.folder).metrics) == 1
    recorder.close()
    Recorder.resume(recorder.folder)
    assert path.read_text() == whole


def test_a_resumed_run_repairs_a_line_cut_off_by_a_crash(recorder):
    recorder.add_metrics("a", 1, {"loss": 0.5})
    path = recorder.folder / "metrics.jsonl"
    path.write_text(path.read_text() + '{"task": "a", "st')
    recorder.close()
    Recorder.resume(recorder.folder).add_metrics("a", 2, {"loss": 0.25})
    assert [line["step"] for line in read_run(recorder.folder).metrics] == [1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="needs the limit of a POSIX system")
def test_a_line_that_does_not_fit_is_taken_back(recorder):
    import resource

    recorder.add_metrics("a", 1, {"loss": 0.5})
    path = recorder.folder / "metrics.jsonl"
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 9, limits[1]))  # 9 bytes are written
    try:
        with pytest.raises(
            OSError, match=r"no space left while writing .*metrics\.jsonl \(File too"
        ):
            recorder.add_metrics("a", 2, {"loss": 0.5})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    recorder.add_metrics("a", 2, {"loss": 0.5})
    assert len(read_run(recorder.folder).metrics) == 2


def test_a_broken_line_is_an_error_that_names_the_file(recorder):
    (recorder.folder / "metrics.jsonl").write_bytes(b'{"task": "a", "step": 1}\n\0\0\0\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl must hold one JSON object per line"):
        read_run(recorder.folder)


def test_what_a_crash_left_half_written_is_removed(recorder):
    recorder.add_figure("one", FIGURE, **TEXTS)
    leftovers = [recorder.folder / "result.json.7.writing"]
    leftovers += [recorder.folder / "figures" / "one.json.7.writing"]
    for path in leftovers:
        path.write_text("{")
    recorder.close()
    Recorder.resume(recorder.folder)
    assert not any(path.exists() for path in leftovers)


def test_an_entry_missing_from_the_config_is_named(recorder):
    write_json(recorder.folder / "config.json", {"experiment": "toy", "config": {}, "tables": []})
    with pytest.raises(ValueError, match=r"config\.json must have the field scale, got none"):
        read_run(recorder.folder)


def test_a_conflicting_copy_of_an_environment_is_no_environment(recorder):
    (recorder.folder / "environment-2 (copy).json").write_text("{}")
    assert len(read_run(recorder.folder).environments) == 1
    recorder.close()
    Recorder.resume(recorder.folder)
    assert len(read_run(recorder.folder).environments) == 2


def test_nan_becomes_null(recorder):
    recorder.add_metrics("a", 1, {"loss": float("nan")})
    recorder.add_result("own", model="A", column="x", value=float("inf"))
    run = read_run(recorder.folder)
    assert run.metrics[0]["loss"] is None
    assert run.cells[0].value is None


def test_a_crash_while_replacing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    write_json(path, {"value": 1})

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {"value": 2})
    assert json.loads(path.read_text())["value"] == 1


def test_a_used_folder_is_not_written_into(recorder):
    recorder.close()
    with pytest.raises(ValueError, match="run is not empty; choose another folder, or use"):
        start(recorder.folder)


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "run").write_text("precious")
    with pytest.raises(OSError, match=r"cannot write .*run: File exists"):
        start(tmp_path / "run")
    assert (tmp_path / "run").read_text() == "precious"


def test_a_read_only_place_is_an_error(tmp_path, monkeypatch):
    def refuse(path, **_):  # root may write anywhere, so the system must say no here
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OSError, match=r"cannot write .*run: Permission denied"):
        start(tmp_path / "run")


def test_a_folder_without_a_config_is_no_run(tmp_path):
    with pytest.raises(ValueError, match=r"must be a run folder with a config\.json"):
        read_run(tmp_path)


def test_runs_are_found_at_any_depth(tmp_path):
    start(tmp_path / "b")
    start(tmp_path / "a" / "deep")
    assert find_runs([tmp_path, tmp_path / "b"]) == [tmp_path / "a" / "deep", tmp_path / "b"]
    with pytest.raises(ValueError, match="path must be a folder, got"):
        find_runs([tmp_path / "nowhere"])


def test_a_figure_has_a_plain_name(recorder):
    with pytest.raises(ValueError, match=r"name must be letters.*'\.\./up'"):
        recorder.add_figure("../up", FIGURE, **TEXTS)


def test_the_environment_names_the_commit_of_a_checkout():
    root = Path(__file__).parents[3]
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    expected = found.stdout.strip() or None
    environment = describe_environment("cpu")
    assert environment["commit"] == expected
    assert environment["versions"]["torch"]


@pytest.mark.parametrize("module", ["records", "reports", "reproduction", "experiments", "cli"])
def test_importing_needs_no_torch(module):
    code = f"import sys, torchsets.lab.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def json_files(recorder):
    return [path for path in recorder.folder.rglob("*.json") if "checkpoint" not in path.parts]


def test_many_results_are_written_at_once(recorder, monkeypatch):
    written = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda *paths: (written.append(paths), replace(*paths)))
    recorder.add_results(Cell("own", "A", f"n={n}", None, float(n)) for n in range(9))
    assert len(written) == 1
    assert [cell.value for cell in read_run(recorder.folder).cells] == list(map(float, range(9)))


def test_numbers_of_other_settings_go_to_a_table_of_variants(tmp_path):
    recorder = start(tmp_path / "run", variants={"thesis/one": "hidden=64"})
    recorder.add_result("thesis/one", model="A", column="x", value=1.0)
    recorder.add_result("thesis/two", model="A", column="x", value=2.0)
    cells = [(cell.table, cell.model) for cell in read_run(recorder.folder).cells]
    assert cells == [("thesis/one/variants", "A, hidden=64"), ("thesis/two", "A")]


def test_what_a_task_recorded_is_there_after_a_resume(recorder):
    recorder.add_metrics("a", 1, {"loss": 0.5})
    recorder.add_metrics("b", 1, {"loss": 0.1})
    recorder.close()
    again = Recorder.resume(recorder.folder)
    again.add_metrics("a", 2, {"loss": 0.25})
    assert [line["loss"] for line in again.lines("a")] == [0.5, 0.25]
