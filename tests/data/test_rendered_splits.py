import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from torchsets.data import render_scenes, rendered_scenes, sample_scenes

splits = sys.modules["torchsets.data.rendered_splits"]

FOLLOWER = """
import time
from torchsets.data import rendered_scenes

def report(done, total):
    print(done, flush=True)
    time.sleep(60)

rendered_scenes(40, size=16, seed=9, progress=report)
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "torchsets" / "made"


def whole_folders(cache):
    return [path for path in cache.iterdir() if path.is_dir() and path.suffix == ""]


def test_pictures_are_those_of_the_scenes(cache):
    reports = []
    made = rendered_scenes(
        40, size=16, seed=3, first=5, progress=lambda *done: reports.append(done)
    )
    scenes = sample_scenes(40, seed=3, first=5, visible=True)
    assert torch.equal(made.images, render_scenes(scenes, size=16))
    for name in ("positions", "attributes", "rotations", "sizes", "numbers", "cameras", "lamps"):
        assert torch.equal(getattr(made.scenes, name), getattr(scenes, name)), name
    assert reports == [(32, 40), (40, 40)]


def test_the_second_call_reads(cache, monkeypatch):
    made = rendered_scenes(3, size=16)
    made.images[:] = 7  # does not reach the file
    monkeypatch.setattr(splits, "_build", None)
    again = rendered_scenes(3, size=16)
    assert torch.equal(again.images, render_scenes(sample_scenes(3, visible=True), size=16))
    assert isinstance(np.load(*cache.glob("*/pictures.npy"), mmap_mode="r"), np.memmap)


def test_other_settings_or_other_code_are_another_split(cache, monkeypatch):
    rendered_scenes(2, size=16)
    for options in ({"seed": 1}, {"first": 2}, {"objects": (3, 5)}, {"size": 8}, {"samples": 1}):
        rendered_scenes(2, **({"size": 16} | options))
    assert len(whole_folders(cache)) == 6
    monkeypatch.setattr(splits, "_CODE", splits._CODE[:-1])
    rendered_scenes(2, size=16)
    assert len(whole_folders(cache)) == 7


def test_there_are_no_more_processes_than_scenes(cache, monkeypatch):
    started = []

    def note(folder, split, starts, report):
        started.extend(starts)
        raise ChildProcessError

    monkeypatch.setattr(splits, "_ALONE", 2)
    monkeypatch.setattr(splits, "_run_workers", note)
    with pytest.raises(ChildProcessError):
        rendered_scenes(5, size=8, processes=12)
    assert started == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_several_processes_give_the_same_pictures(cache, monkeypatch):
    monkeypatch.setattr(splits, "_ALONE", 0)
    made = rendered_scenes(70, size=8, processes=2)
    scenes = sample_scenes(70, visible=True)
    assert torch.equal(made.images, render_scenes(scenes, size=8))
    assert torch.equal(made.scenes.positions, scenes.positions)
    assert sorted(path.name for path in whole_folders(cache)[0].iterdir()) == [
        "pictures.npy",
        "scenes.npz",
        "settings.json",
    ]


def test_a_process_that_fails_is_reported_and_leaves_nothing(cache, monkeypatch):
    monkeypatch.setattr(splits, "_ALONE", 0)
    monkeypatch.setattr(splits, "_WORKER", "raise MemoryError('no room')")
    with pytest.raises(
        ChildProcessError, match="a process that renders scenes failed: MemoryError: no room"
    ):
        rendered_scenes(70, size=8, processes=2)
    assert whole_folders(cache) == []
    assert not list(cache.glob("*.building"))


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_a_killed_build_leaves_nothing_half_made(cache):
    process = subprocess.Popen([sys.executable, "-c", FOLLOWER], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"32\n"  # in the middle
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert [path.suffix for path in cache.iterdir() if path.is_dir()] == [".building"]
    made = rendered_scenes(40, size=16, seed=9)
    expected = render_scenes(sample_scenes(40, seed=9, visible=True), size=16)
    assert torch.equal(made.images, expected)
    assert not list(cache.glob("*.building"))


def test_no_scenes(cache):
    made = rendered_scenes(0, size=8)
    assert made.images.shape == (0, 3, 8, 8)
    assert len(made.scenes) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": -1}, "count must be at least 0"),
        ({"count": 1, "size": 0}, "size and samples at least 1"),
        ({"count": 1, "objects": (3, 11)}, "objects must be two rising numbers"),
        ({"count": 1, "processes": 0}, "processes must be at least 1, got 0"),
    ],
)
def test_rejects_bad_arguments(arguments, message, cache):
    with pytest.raises(ValueError, match=message):
        rendered_scenes(**arguments)


class Terminal:
    def __init__(self, is_terminal):
        self.is_terminal, self.text = is_terminal, ""

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_build_shows_how_far_it_is(is_terminal, monkeypatch):
    clock = iter([0.0, 0.1, 40.0, 80.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    terminal = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    report = splits._line_on_stderr()
    report(1, 400)  # too early to say anything
    report(200, 400)
    report(400, 400)
    lines = terminal.text.replace("\r", "\n").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    assert said == [
        "rendering scenes: 200 of 400, 40 s left",
        "rendering scenes: 400 of 400, 0 s left",
    ]
