"""One process writes into a run folder at a time, and a lock ends with its process."""

import errno
import os
import platform
import signal
import subprocess
import sys

import pytest

from torchsets.lab.cli import main
from torchsets.lab.figures import Lines
from torchsets.lab.records import Recorder, can_start_in, find_runs, lock, read_run

WHAT = {"experiment": "polygons", "scale": "smoke", "config": {"seed": 0}}
FIGURE = {"title": "", "caption": "", "alt": ""}
HOLD = """
import sys
from torchsets.lab.records import Recorder

how, folder, then = sys.argv[1:]
what = {"experiment": "polygons", "scale": "smoke", "config": {"seed": 0}}
recorder = Recorder.start(folder, **what) if how == "start" else Recorder.resume(folder)
print("held", flush=True)
sys.stdin.readline()
if then == "finish":
    recorder.finish()
    print("finished", flush=True)
    sys.stdin.readline()
"""
RACE = """
import sys
from torchsets.lab.records import Recorder

sys.stdin.readline()
try:
    recorder = Recorder.start(sys.argv[1], experiment="polygons", scale="smoke", config={})
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
        Recorder.start(folder, **WHAT).close()
    process = hold(launch, first, folder)
    told = rf"run is being written by process {process.pid} on {platform.node()}; wait for it or"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OSError, match=told):
        Recorder.start(folder, **WHAT) if second == "start" else Recorder.resume(folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_the_command_line_tells_it_in_one_line(folder, launch, capsys):
    process = hold(launch, "start", folder)
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--resume", str(folder)])
    message = capsys.readouterr().err
    assert f"is being written by process {process.pid} on " in message
    assert message.count("\n") == 1


def test_a_killed_process_leaves_no_lock(folder, launch):
    process = hold(launch, "start", folder)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (folder / ".lock").exists()  # only the file
    Recorder.resume(folder).finish()


@pytest.mark.parametrize("then", ["end", "finish"])
def test_a_process_that_ends_or_finishes_lets_others_write(then, folder, launch):
    process = hold(launch, "start", folder, then)
    process.stdin.write("\n")
    process.stdin.flush()
    if then == "finish":
        assert process.stdout.readline() == "finished\n"
        assert process.poll() is None
    else:
        process.wait()
    Recorder.resume(folder).close()


def test_of_many_that_start_at_once_one_wins(folder, launch):
    racers = [launch(RACE, folder) for _ in range(6)]
    for racer in racers:
        racer.stdin.write("\n")
        racer.stdin.flush()
    outcomes = [racer.stdout.readline() for racer in racers]
    winners = [racer for racer, line in zip(racers, outcomes, strict=True) if line == "won\n"]
    assert len(winners) == 1, outcomes
    refusals = [line for line in outcomes if line != "won\n"]
    assert all("is being written by" in line for line in refusals)
    assert read_run(folder).experiment == "polygons"


def test_in_one_process_a_second_recorder_is_refused_until_the_first_is_closed(folder):
    with Recorder.start(folder, **WHAT) as first:
        with pytest.raises(BlockingIOError, match="run is already open in this process; finish or"):
            Recorder.resume(folder)
        first.add_metrics("a", 1, {"loss": 0.5})
    with pytest.raises(ValueError, match="this recorder no longer owns"):
        first.add_metrics("a", 2, {"loss": 0.5})
    Recorder.resume(folder).add_metrics("a", 2, {"loss": 0.25})
    assert [line["loss"] for line in read_run(folder).metrics] == [0.5, 0.25]


def test_a_recorder_that_nobody_has_any_more_holds_nothing(folder):
    recorder = Recorder.start(folder, **WHAT)
    del recorder
    Recorder.resume(folder)


@pytest.mark.parametrize(
    "write",
    [
        lambda recorder: recorder.add_metrics("a", 1, {"loss": 0.5}),
        lambda recorder: recorder.rewind("a", 0),
        lambda recorder: recorder.sync(),
        lambda recorder: recorder.add_task("a", steps=1, seconds=1.0, parameters=1),
        lambda recorder: recorder.add_table("t", caption="c", unit="%"),
        lambda recorder: recorder.add_result("t", model="m", column="c", value=1.0),
        lambda recorder: recorder.add_figure("f", Lines([]), **FIGURE),
        lambda recorder: recorder.finish(),
    ],
)
def test_a_finished_recorder_writes_no_more(write, folder):
    recorder = Recorder.start(folder, **WHAT)
    recorder.add_metrics("a", 1, {"loss": 0.5})
    recorder.finish()
    with pytest.raises(ValueError, match=r"no longer owns .*: it is finished or closed"):
        write(recorder)


def test_a_silent_recorder_takes_no_lock(folder, launch):
    hold(launch, "start", folder)
    recorder = Recorder.silent(folder)
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
    with pytest.raises(ValueError, match="is not empty; choose another folder, or use --resume"):
        Recorder.start(folder, **WHAT)
    assert [path.name for path in folder.iterdir()] == [name]


def test_without_locks_in_the_file_system_there_is_a_warning(folder, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match=r"cannot be locked \(No locks available\): make sure"):
        recorder = Recorder.start(folder, **WHAT)
    recorder.finish()


def test_without_locks_in_the_system_it_works_unprotected(folder, launch, monkeypatch):
    hold(launch, "start", folder)
    monkeypatch.setattr(lock, "fcntl", None)
    Recorder.resume(folder).finish()
