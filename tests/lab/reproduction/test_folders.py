"""What counts as recorded: the same configuration, by the same code, with the same torch."""

import json

import pytest

from torchsets.lab.experiments import find_experiment
from torchsets.lab.experiments.digest import code_digest
from torchsets.lab.records import Recorder
from torchsets.lab.reproduction import folders
from torchsets.lab.reproduction.folders import find_places, wait_for_places
from torchsets.lab.reproduction.shards import Shard

SHARD = Shard("n=4,seed=0", "polygons", "smoke", {"steps": 1, "seed": 0})
CODE = code_digest(find_experiment("polygons").run)


def record(folder, *, code=None, config=None, finish=True):
    recorder = Recorder.start(
        folder,
        experiment="polygons",
        scale="smoke",
        config=config or SHARD.config,
        code=code or CODE,
    )
    if finish:
        recorder.finish()


def find(out):
    (place,) = find_places([SHARD], out)
    return place.folder.name, place.state, place.remark


def test_an_empty_or_missing_folder_holds_nothing(tmp_path):
    assert find(tmp_path / "missing") == ("n=4,seed=0", "new", "")


def test_a_complete_run_is_done_and_another_is_resumed(tmp_path):
    record(tmp_path / "a name that does not matter", finish=False)
    assert find(tmp_path)[1] == "stopped"
    record(tmp_path / "second")
    assert find(tmp_path) == ("second", "done", "")


def test_a_run_by_other_code_stays_and_another_folder_is_taken(tmp_path):
    record(tmp_path / SHARD.name, code="0123456789abcdef")
    name, state, remark = find(tmp_path)
    assert (name, state) == ("n=4,seed=0-2", "new")
    assert remark == ("n=4,seed=0: recorded by other code, stays as it is; running n=4,seed=0-2")


def test_a_run_begun_by_other_code_is_not_resumed(tmp_path):
    record(tmp_path / SHARD.name, code="0123456789abcdef", finish=False)
    Recorder.resume(tmp_path / SHARD.name, code=CODE).finish()
    assert find(tmp_path)[1] == "new"


def test_a_run_with_another_torch_is_not_the_same(tmp_path):
    record(tmp_path / SHARD.name)
    path = tmp_path / SHARD.name / "environment.json"
    environment = json.loads(path.read_text())
    environment["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(environment))
    assert find(tmp_path)[1] == "new"


def test_a_run_with_another_configuration_stays(tmp_path):
    record(tmp_path / SHARD.name, config={"steps": 2, "seed": 0})
    name, state, remark = find(tmp_path)
    assert (name, state) == ("n=4,seed=0-2", "new")
    assert "holds something else, stays as it is" in remark


@pytest.mark.parametrize("content", ["", "{", '{"schema_version": 99}'])
def test_a_folder_that_cannot_be_read_stays(content, tmp_path):
    (tmp_path / SHARD.name).mkdir()
    (tmp_path / SHARD.name / "config.json").write_text(content)
    (tmp_path / SHARD.name / "notes.txt").write_text("mine")
    assert find(tmp_path)[:2] == ("n=4,seed=0-2", "new")
    assert (tmp_path / SHARD.name / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("damage", ["environment.json", "result.json"])
def test_a_run_with_a_broken_record_stays(damage, tmp_path):
    record(tmp_path / SHARD.name)
    (tmp_path / SHARD.name / damage).write_text("{")
    assert find(tmp_path)[:2] == ("n=4,seed=0-2", "new")


def test_it_waits_for_a_shard_that_saves_and_then_finds_what_that_left(tmp_path, monkeypatch):
    said = []
    recorder = Recorder.start(
        tmp_path / SHARD.name, experiment="polygons", scale="smoke", config=SHARD.config, code=CODE
    )
    monkeypatch.setattr(folders.time, "sleep", lambda seconds: recorder.finish())
    (place,) = wait_for_places([SHARD], tmp_path, say=said.append)
    assert (place.folder.name, place.state) == (SHARD.name, "done")
    assert said == ["waiting for n=4,seed=0: still being written"]


def test_it_does_not_wait_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_SECONDS_TO_SAVE", 0.0)
    said = []
    recorder = Recorder.start(
        tmp_path / SHARD.name, experiment="polygons", scale="smoke", config=SHARD.config, code=CODE
    )
    (place,) = wait_for_places([SHARD], tmp_path, say=said.append)
    assert place.state == "stopped"
    assert len(said) == 1
    assert recorder.tasks == {}, "it is still there"


def test_it_waits_for_nobody_where_nobody_writes(tmp_path):
    record(tmp_path / SHARD.name, finish=False)
    said = []
    (place,) = wait_for_places([SHARD], tmp_path, say=said.append)
    assert (place.state, said) == ("stopped", [])
