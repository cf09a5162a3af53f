"""Progress for a process that watches: in a file, and never in the way of the training."""

import io
import json
import sys
import time

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


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch, capsys):
    monkeypatch.delenv("TORCHSETS_PROGRESS", raising=False)
    clock = iter([0.0, 5.0, 31.0, 40.0, 62.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    with show_progress("n=4/fspool", start=0, steps=100) as show:
        for step in (5, 31, 40, 62):
            show(step, 0.25)
    assert capsys.readouterr().err.splitlines() == [
        "n=4/fspool: step 31 of 100, loss 2.50e-01, 69 s left",
        "n=4/fspool: step 62 of 100, loss 2.50e-01, 38 s left",
    ]


def test_on_a_terminal_without_rich_the_training_goes_on(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.delenv("TORCHSETS_PROGRESS", raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    monkeypatch.setitem(sys.modules, "rich", None)
    with show_progress("fspool", start=0, steps=2) as show:
        show(1, 0.5)
