"""What counts as recorded: the same configuration, by the same code, with the same torch."""

import json

import pytest
from torchsets.lab.reproduction.pieces import Piece

from torchsets.lab.experiments.digest import code_digest
from torchsets.lab.records import Recorder
from torchsets.lab.reproduction.folders import find_places

PIECE = Piece("sizes=4,seed=0", "polygons", "smoke", ["steps=1"], {"steps": 1, "seed": 0})


def record(folder, *, code=None, config=None, finish=True):
    recorder = Recorder.start(
        folder,
        experiment="polygons",
        scale="smoke",
        config=config or PIECE.config,
        code=code or code_digest("polygons"),
    )
    if finish:
        recorder.finish()


def find(out):
    (place,) = find_places([PIECE], out)
    return place.folder.name, place.state, place.remark


def test_an_empty_or_missing_folder_holds_nothing(tmp_path):
    assert find(tmp_path / "missing") == ("sizes=4,seed=0", "new", "")


def test_a_complete_run_is_done_and_another_is_resumed(tmp_path):
    record(tmp_path / "a name that does not matter", finish=False)
    assert find(tmp_path)[1] == "stopped"
    record(tmp_path / "second")
    assert find(tmp_path) == ("second", "done", "")


def test_a_run_by_other_code_stays_and_another_folder_is_taken(tmp_path):
    record(tmp_path / PIECE.name, code="0123456789abcdef")
    name, state, remark = find(tmp_path)
    assert (name, state) == ("sizes=4,seed=0-2", "new")
    assert remark == (
        "sizes=4,seed=0: recorded by other code, stays as it is; running sizes=4,seed=0-2"
    )


def test_a_run_begun_by_other_code_is_not_resumed(tmp_path):
    record(tmp_path / PIECE.name, code="0123456789abcdef", finish=False)
    Recorder.resume(tmp_path / PIECE.name, code=code_digest("polygons")).finish()
    assert find(tmp_path)[1] == "new"


def test_a_run_with_another_torch_is_not_the_same(tmp_path):
    record(tmp_path / PIECE.name)
    path = tmp_path / PIECE.name / "environment.json"
    environment = json.loads(path.read_text())
    environment["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(environment))
    assert find(tmp_path)[1] == "new"


def test_a_run_with_another_configuration_stays(tmp_path):
    record(tmp_path / PIECE.name, config={"steps": 2, "seed": 0})
    name, state, remark = find(tmp_path)
    assert (name, state) == ("sizes=4,seed=0-2", "new")
    assert "holds something else, stays as it is" in remark


@pytest.mark.parametrize("content", ["", "{", '{"schema_version": 99}'])
def test_a_folder_that_cannot_be_read_stays(content, tmp_path):
    (tmp_path / PIECE.name).mkdir()
    (tmp_path / PIECE.name / "config.json").write_text(content)
    (tmp_path / PIECE.name / "notes.txt").write_text("mine")
    assert find(tmp_path)[:2] == ("sizes=4,seed=0-2", "new")
    assert (tmp_path / PIECE.name / "notes.txt").read_text() == "mine"
