"""Progress for a process that watches: in a file, and never in the way of the training."""

import json

from torchsets.lab.training.progress import show_progress


def test_progress_goes_to_the_named_file(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv("TORCHSETS_PROGRESS", str(path))
    with show_progress("n=4/fspool", start=2, steps=10) as show:
        show(6, 0.25)
        show(7, 0.5)  # within the same second: not written
    about = json.loads(path.read_text())
    assert about.pop("seconds_left") >= 0
    assert about == {"task": "n=4/fspool", "step": 6, "steps": 10, "loss": 0.25}
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_does_not_end_the_training(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_PROGRESS", str(tmp_path / "missing" / "progress.json"))
    with show_progress("fspool", start=0, steps=10) as show:
        show(1, 0.25)
    assert list(tmp_path.iterdir()) == []
