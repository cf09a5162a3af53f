"""One process writes into a run folder at a time, and a lock ends with its process."""

import errno
import os
import platform
import signal
import subprocess
import sys

import pytest

from torchsets import _locks
from torchsets.lab.cli import main
from torchsets.lab.records import Recorder, can_start_in, find_runs, read_run

WHAT = {"experiment": "digits", "scale": "smoke", "config": {"seed": 0}}
HOLD = """
import sys
from torchsets.lab.records import Recorder

how, folder, then = sys.argv[1:]
what = {"experiment": "digits", "scale": "smoke", "config": {"seed": 0}}
recorder = Recorder.start(folder, **what) if how == "start" else Recorder.resume(folder)
print("held", flush=True)
sys.stdin.readline()
if then == "finish":
    recorder.finish()
    print("finished", flush=True)
    sys.stdin.readline()
"""
FORKED = """
import os, sys, time
from torchsets.lab.records import Recorder

recorder = Recorder.start(sys.argv[1], experiment="digits", scale="smoke", config={})
child = os.fork()
if child == 0:
    try:
        recorder.add_metrics("a", 1, {"loss": 0.5})
        print(os.getpid(), "has written", flush=True)
    except ValueError as error:
        print(os.getpid(), error, flush=True)
    time.sleep(600)  # a worker that outlives its parent
time.sleep(600)
"""
RACE = """
import sys
from torchsets.lab.records import Recorder

sys.stdin.readline()
try:
    recorder = Recorder.start(sys.argv[1], experiment="digits", scale="smoke", config={})
    print("won", flush=True)
    sys.stdin.readline()
except (OSError, ValueError) as error:
    print(error, flush=True)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture
def launch():
    """Start a script and wait for its first line; end it with the test."""
    started = []

    def start(script, *arguments):
        command = [sys.executable, "-c", script, *map(str, arguments)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def hold(launch, how, folder, then="end"):
    process = launch(HOLD, how, folder, then)
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("first", ["start", "resume"])
@pytest.mark.parametrize("second", ["start", "resume"])
def test_the_second_process_is_told_who_is_writing(first, second, folder, launch):
    if first == "resume":
        Recorder.start(folder, **WHAT)
    process = hold(launch, first, folder)
    told = (
        rf"folder must be written by one process at a time, got .*run, which process {process.pid} "
        rf"on {platform.node()} is writing to"
    )
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OSError, match=told):
        Recorder.start(folder, **WHAT) if second == "start" else Recorder.resume(folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_command_line_tells_it_in_one_line(folder, launch, capsys):
    process = hold(launch, "start", folder)
    with pytest.raises(SystemExit, match="2"):
        main(["run", "digits", "--resume", str(folder)])
    message = capsys.readouterr().err
    assert message.startswith("error: folder must be written by one process at a time")
    assert f"process {process.pid} on " in message
    assert message.count("\n") == 1


def test_a_killed_process_leaves_no_lock(folder, launch):
    process = hold(launch, "start", folder)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / ".lock").exists()  # only the file
    Recorder.resume(folder).finish()
    assert not (folder / ".lock").exists()


@pytest.mark.parametrize("then", ["end", "finish"])
def test_a_process_that_ends_or_finishes_removes_the_file(then, folder, launch):
    process = hold(launch, "start", folder, then)
    process.stdin.write("\n")
    process.stdin.flush()
    if then == "finish":
        assert process.stdout.readline() == "finished\n"
        assert process.poll() is None
    else:
        process.wait()
    assert not (folder / ".lock").exists()
    Recorder.resume(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_neither_writes_nor_keeps_the_lock(folder, launch):
    process = launch(FORKED, folder)
    worker, message = process.stdout.readline().split(maxsplit=1)
    try:
        assert "recorder must hold its folder" in message
        with pytest.raises(OSError, match=f"process {process.pid} on"):
            Recorder.resume(folder)
        process.send_signal(signal.SIGKILL)
        process.wait()
        Recorder.resume(folder)  # although the worker still runs
    finally:
        os.kill(int(worker), signal.SIGKILL)


def test_of_many_that_start_at_once_one_wins(folder, launch):
    racers = [launch(RACE, folder) for _ in range(6)]
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    outcomes = [racer.stdout.readline() for racer in racers]
    winners = [racer for racer, line in zip(racers, outcomes, strict=True) if line == "won\n"]
    assert len(winners) == 1, outcomes
    refusals = [line for line in outcomes if line != "won\n"]
    assert all("folder must be written by one process at a time" in line for line in refusals)
    assert read_run(folder).experiment == "digits"


def test_in_one_process_the_newer_recorder_takes_over(folder):
    older = Recorder.start(folder, **WHAT)
    newer = Recorder.resume(folder)
    with pytest.raises(ValueError, match=r"recorder must hold its folder, got .* a newer one took"):
        older.add_metrics("a", 1, {"loss": 0.5})
    newer.add_metrics("a", 1, {"loss": 0.25})
    assert [line["loss"] for line in read_run(folder).metrics] == [0.25]


@pytest.mark.parametrize(
    "write",
    [
        lambda recorder: recorder.add_metrics("a", 1, {"loss": 0.5}),
        lambda recorder: recorder.rewind("a", 0),
        lambda recorder: recorder.sync(),
        lambda recorder: recorder.add_task("a", steps=1, seconds=1.0, parameters=1),
        lambda recorder: recorder.add_table("t", caption="c", unit="%"),
        lambda recorder: recorder.add_result("t", model="m", column="c", value=1.0),
        lambda recorder: recorder.add_figure("f", kind="k", title="", caption="", alt="", data={}),
        lambda recorder: recorder.finish(),
    ],
)
def test_a_finished_recorder_writes_no_more(write, folder):
    recorder = Recorder.start(folder, **WHAT)
    recorder.finish()
    with pytest.raises(ValueError, match=r"recorder must hold its folder, got .* it is finished"):
        write(recorder)


def test_a_silent_recorder_takes_no_lock(folder, launch):
    hold(launch, "start", folder)
    recorder = Recorder.silent(folder, experiment="digits", config={"seed": 0})
    recorder.add_metrics("a", 1, {"loss": 0.5})
    recorder.sync()
    recorder.finish()
    assert not (folder / "metrics.jsonl").exists()


def test_the_lock_is_not_in_the_way_of_readers(folder, launch):
    hold(launch, "start", folder)
    assert find_runs([folder]) == [folder]
    assert read_run(folder).config == {"seed": 0}


def test_a_folder_whose_start_was_killed_can_be_started_in(folder):
    recorder = Recorder.start(folder, **WHAT)
    (folder / "config.json").rename(folder / "config.json.123.writing")
    del recorder
    (folder / ".lock").write_text("")
    with pytest.raises(ValueError, match=r"config\.json, got .*; it was stopped before it began"):
        Recorder.resume(folder)
    assert can_start_in(folder)
    Recorder.start(folder, **WHAT)
    assert not can_start_in(folder)


@pytest.mark.parametrize("name", ["result.json", "notes.txt"])
def test_what_somebody_else_wrote_is_not_overwritten(name, folder):
    folder.mkdir()
    (folder / name).write_text("[1, 2]")
    with pytest.raises(ValueError, match="folder must be new or empty"):
        Recorder.start(folder, **WHAT)
    assert [path.name for path in folder.iterdir()] == [name]


def test_a_lock_file_that_is_removed_by_hand_is_not_mixed_up(folder):
    older = Recorder.start(folder, **WHAT)
    (folder / ".lock").unlink()
    newer = Recorder.resume(folder)
    del older  # must not remove the file of the newer one
    assert (folder / ".lock").exists()
    newer.finish()


def test_a_lock_file_that_its_holder_just_removed_is_opened_again(folder, monkeypatch):
    opened, seen = os.open, []

    def open_late(path, *rest, **options):
        handle = opened(path, *rest, **options)
        if str(path).endswith(".lock") and not seen:
            seen.append(path)
            os.unlink(path)  # the last holder ends between our open and our lock
        return handle

    monkeypatch.setattr(os, "open", open_late)
    recorder = Recorder.start(folder, **WHAT)
    assert seen
    assert (folder / ".lock").exists()
    recorder.finish()


def test_without_locks_in_the_file_system_there_is_a_warning(folder, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(_locks.fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match=r"cannot be locked \(No locks available\): make sure"):
        recorder = Recorder.start(folder, **WHAT)
    recorder.finish()


def test_without_locks_in_the_system_it_works_unprotected(folder, launch, monkeypatch):
    hold(launch, "start", folder)
    monkeypatch.setattr(_locks, "fcntl", None)
    Recorder.resume(folder).finish()
