"""Killed, out of disk, changed in between: no run is lost, and its numbers end the same."""

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from torchsets.encoders import DeepSets
from torchsets.lab.cli import main
from torchsets.lab.figures import Line, Lines, Panel
from torchsets.lab.records import Recorder
from torchsets.lab.training import Settings, seed_everything, train
from torchsets.mlp import MLP
from torchsets.pooling import FSPool

KILLS = 10
RUN = ["run", "dspn-polygons", "models=mlp,lstm", "tasks=predict", "steps=6", "--scale", "smoke"]

# torch takes seconds to import, so one process imports it and forks the runs. The disk is made
# slow, so that many a kill comes while a file is being written.
FORKING = """
import os, random, runpy, signal, sys, time
from pathlib import Path
import torch._dynamo  # the first optimiser imports it

start_or_resume = runpy.run_path(sys.argv[1])["start_or_resume"]
root, seed, kills = Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])

def fork(folder):
    child = os.fork()
    if child:
        return child
    fsync = os.fsync
    os.fsync = lambda handle: (time.sleep(0.002), fsync(handle))
    try:
        start_or_resume(folder)
        os._exit(0)
    finally:
        sys.excepthook(*sys.exc_info())
        os._exit(1)

def is_saving(folder):
    # Unlike a glob, a walk goes on where a folder vanishes meanwhile: old checkpoints are deleted.
    return any("writing" in names for _, names, _ in os.walk(folder / "checkpoint"))

def stop_while_saving(child, folder):
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if is_saving(folder):
            os.kill(child, signal.SIGSTOP)
            os.waitid(os.P_PID, child, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if is_saving(folder):
                return
            os.kill(child, signal.SIGCONT)

def place(folder):
    if not (folder / "config.json").exists():
        return "start"
    if is_saving(folder):
        return "checkpoint"
    return "record" if list(folder.rglob("*.writing")) else "step"

began = time.monotonic()
assert os.waitpid(fork(root / "whole"), 0)[1] == 0
duration = time.monotonic() - began
moments, runs = random.Random(seed), 0
while kills:
    folder, ended, runs = root / f"killed {runs} \\u00e9", False, runs + 1
    while not ended:
        child = fork(folder)
        if kills:
            time.sleep(moments.uniform(0, duration))
            if kills % 2:
                stop_while_saving(child, folder)
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        ended = os.WIFEXITED(status)
        assert not ended or status == 0
        if not ended:
            kills -= 1
            print(place(folder), flush=True)
"""


def start_or_resume(folder):
    """A small experiment: two trainings with dropout, a number and a figure of each."""
    if (folder / "config.json").exists():
        recorder = Recorder.resume(folder)
    else:
        recorder = Recorder.start(folder, experiment="toy", scale="smoke", config={"seed": 0})
    with recorder:
        train_and_record(recorder)


def train_and_record(recorder):
    for size in (3, 5):
        seed_everything(size)
        encoder = DeepSets(MLP(2, 8, 8), FSPool(8), MLP(8, 8, 1))
        model = torch.nn.Sequential(encoder, torch.nn.Dropout(0.2))
        train(
            model,
            torch.optim.Adam(model.parameters(), lr=0.01),
            lambda sets, model=model: (model(sets) - sets.amax(dim=(1, 2))[:, None]).square().sum(),
            lambda step, generator, size=size: torch.rand(4, size, 2, generator=generator),
            recorder=recorder,
            task=f"n={size}/fspool",
            settings=Settings(20, record_every=3, evaluate_every=7, checkpoint_every=2),
            evaluate=lambda: {"chance": torch.rand(()).item()},
        )
        value = model(torch.ones(1, size, 2)).item()
        recorder.add_result("largest", model="FSPool", column=f"n={size}", value=value)
        texts = {"title": "t", "caption": "c", "alt": "a"}
        recorder.add_figure(f"n={size}", Lines([Panel([Line([0], [value])])]), **texts)
    recorder.finish()


def numbers(folder):
    result = json.loads((folder / "result.json").read_text())
    figures = {path.name: path.read_text() for path in folder.glob("figures/*")}
    curve = (folder / "metrics.jsonl").read_text()
    return result["complete"], result["results"], curve, figures


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The numbers of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    start_or_resume(folder)
    return numbers(folder)


@pytest.mark.slow
def test_runs_killed_at_random_moments_end_with_the_same_numbers(tmp_path):
    command = [sys.executable, "-c", FORKING, __file__, str(tmp_path), "0", str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    places = Counter(done.stdout.split())
    assert places.total() == KILLS
    assert places["checkpoint"] >= KILLS // 2, places  # every other kill waits for one
    killed = sorted(tmp_path.glob("killed *"))
    assert len(killed) > 1
    for folder in killed:
        assert numbers(folder) == numbers(tmp_path / "whole")


class FullFile(io.FileIO):
    """A file on a disk that becomes full in the middle of a write."""

    def write(self, data):
        super().write(bytes(data)[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(monkeypatch, name, *, after=0):
    """Let writes fail into files whose name starts so, after some that succeed."""
    opened, left = io.open, [after]

    def open_on_full_disk(path, mode="r", buffering=-1, *rest, **options):
        if mode == "r" or mode == "rb" or not Path(path).name.startswith(name):
            return opened(path, mode, buffering, *rest, **options)
        if left[0] > 0:
            left[0] -= 1
            return opened(path, mode, buffering, *rest, **options)
        raw = FullFile(path, mode.replace("b", ""))
        return raw if buffering == 0 else io.BufferedWriter(raw) if "b" in mode else text(raw)

    monkeypatch.setattr(io, "open", open_on_full_disk)


def text(raw):
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("environment.json", 0),
        ("result.json", 0),
        ("config.json", 0),
        ("metrics.jsonl", 0),
        ("metrics.jsonl", 9),
        ("tensors.safetensors", 0),
        ("tensors.safetensors", 7),
        ("state.json", 3),
        ("manifest.json", 3),
        ("result.json", 1),
        ("result.json", 4),
        ("n=3.json", 0),
        ("n=5.json", 0),
    ],
)
def test_a_disk_that_becomes_full_is_told_and_loses_nothing(
    name, after, whole, tmp_path, monkeypatch
):
    told = r"no space left while writing .* \(No space left .*: free some space and resume"
    with monkeypatch.context() as full:
        fill_disk(full, name, after=after)
        with pytest.raises(OSError, match=told) as error:
            start_or_resume(tmp_path / "run")
    assert name in str(error.value) or "checkpoint" in str(error.value)
    assert not list(tmp_path.rglob("*writing"))  # half a file would only take room
    start_or_resume(tmp_path / "run")
    assert numbers(tmp_path / "run") == whole


@pytest.mark.parametrize("name", [".lock", "environment-2.json"])
def test_a_disk_that_is_full_when_a_run_is_resumed(name, whole, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with monkeypatch.context() as full:
        fill_disk(full, "state.json", after=3)
        with pytest.raises(OSError, match="no space left while writing"):
            start_or_resume(folder)
    with monkeypatch.context() as full:
        if name == ".lock":
            full.setattr(os, "write", refuse_to_write)
        else:
            fill_disk(full, name)
        with pytest.raises(OSError, match="no space left while writing"):
            start_or_resume(folder)
    start_or_resume(folder)
    assert numbers(folder) == whole


def refuse_to_write(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of a quarter of a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount a small file system (root, not in a container)")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # a failed test may hold it


@pytest.mark.parametrize("room", [0, 4, 8, 12, 24, 48, 64, 96])
def test_on_a_really_full_disk_nothing_is_lost(room, whole, small_disk):
    ballast, folder = small_disk / "ballast", small_disk / "run"
    ballast.write_bytes(b"x" * 1024 * (256 - room))
    with pytest.raises(OSError, match=r"no space left while writing .*No space left on device"):
        start_or_resume(folder)
    ballast.unlink()
    start_or_resume(folder)
    assert numbers(folder) == whole


def test_the_command_line_tells_of_a_full_disk_in_one_line_and_how_to_resume(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    main([*RUN, "--out", "whole"])
    with monkeypatch.context() as full:
        fill_disk(full, "tensors.safetensors", after=1)
        with pytest.raises(SystemExit, match="2"):
            main([*RUN, "--out", "my run"])
    message = capsys.readouterr().err
    assert message.startswith("error: no space left while writing my run/checkpoint/predict n=4/")
    assert message.endswith("; resume with: torchsets run --resume 'my run'\n")
    assert message.count("\n") == 1
    main(["run", "--resume", "my run"])
    assert numbers(tmp_path / "my run") == numbers(tmp_path / "whole")


READING = """
import sys
from pathlib import Path
from torchsets.lab.records import find_runs, read_run

print("reading", flush=True)
seen = set()
while not any(complete for _, complete in seen):
    for run in map(read_run, find_runs([sys.argv[1]])):
        seen.add((len(run.metrics), run.complete))
print(len(seen))
"""


def test_a_run_can_be_read_at_any_moment_while_it_is_written(tmp_path):
    command = [sys.executable, "-c", READING, str(tmp_path)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "reading\n"
    try:
        start_or_resume(tmp_path / "run")
        states = reader.communicate(timeout=120)[0]
    finally:
        reader.kill()
    assert reader.returncode == 0
    assert int(states) > 2


def test_a_checkpoint_never_reaches_the_disk_before_the_curve_up_to_it(tmp_path, monkeypatch):
    """Else the lines before it would be missing for good when the power goes."""
    fsync, replace, synced, checked = os.fsync, os.replace, {}, []
    curve = tmp_path / "run" / "metrics.jsonl"

    def remember(handle):
        synced[os.fstat(handle).st_ino] = os.fstat(handle).st_size
        fsync(handle)

    def check(source, target):
        if Path(source).name == "writing" and curve.exists():
            checked.append(synced.get(curve.stat().st_ino) == curve.stat().st_size)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", remember)
    monkeypatch.setattr(os, "replace", check)
    start_or_resume(tmp_path / "run")
    assert len(checked) > 10
    assert all(checked)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_two_requests_to_stop_end_at_once_and_lose_nothing(number, whole, tmp_path, monkeypatch):
    folder, fsync, calls = tmp_path / "run", os.fsync, []

    def interrupted(handle):
        calls.append(handle)
        if len(calls) == 40:  # in the middle of a checkpoint
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
        return fsync(handle)

    with monkeypatch.context() as slow:
        slow.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            start_or_resume(folder)
    assert len(calls) == 40  # not one more write
    start_or_resume(folder)
    assert numbers(folder) == whole


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """A run that stopped half way."""
    folder = tmp_path / "run"
    with monkeypatch.context() as full:
        fill_disk(full, "state.json", after=14)
        with pytest.raises(OSError, match="no space left while writing"):
            start_or_resume(folder)
    return folder


def test_a_run_may_move_between_stop_and_resume(stopped, whole, tmp_path):
    moved = tmp_path / "elsewhere" / "größer & \N{SNOWMAN}"
    moved.parent.mkdir()
    stopped.rename(moved)
    start_or_resume(moved)
    assert numbers(moved) == whole


def test_a_run_may_be_resumed_through_a_link(stopped, whole, tmp_path):
    (tmp_path / "link").symlink_to(stopped)
    start_or_resume(tmp_path / "link")
    assert numbers(stopped) == whole


def test_a_copy_of_a_stopped_run_is_resumed_by_itself(stopped, whole, tmp_path):
    (stopped / ".lock").write_text('{"pid": 1, "host": "old"}')  # as kill -9 leaves it
    shutil.copytree(stopped, tmp_path / "copy")
    start_or_resume(tmp_path / "copy")
    assert numbers(tmp_path / "copy") == whole


def test_a_clock_that_goes_backwards_does_not_matter(stopped, whole, monkeypatch):
    for path in stopped.rglob("*"):
        os.utime(path, (4e9, 4e9))  # the year 2096
    start_or_resume(stopped)
    assert numbers(stopped) == whole


@pytest.mark.parametrize("damage", [b"", b'{"schema_version": 1, "compl', b"\0" * 50, None])
def test_a_broken_result_is_moved_aside_and_recreated(damage, stopped, whole):
    path = stopped / "result.json"
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.warns(UserWarning, match=r"result\.json is broken .*; it will be recreated"):
        start_or_resume(stopped)
    assert numbers(stopped) == whole
    if damage is not None:
        assert (stopped / "result.json.broken").read_bytes() == damage


def test_a_broken_figure_is_recreated(stopped, whole):
    (stopped / "figures" / "n=3.json").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"n=3\.json is broken .*; it will be recreated"):
        start_or_resume(stopped)
    (stopped / "figures" / "n=3.json.broken").unlink()
    assert numbers(stopped) == whole


def test_a_read_only_folder_is_an_error_and_stays_as_it_is(stopped, whole, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in stopped.rglob("*")}
    opened = os.open

    def refuse(path, flags, *rest, **options):  # root may write anywhere
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *rest, **options)

    with monkeypatch.context() as read_only:
        read_only.setattr(os, "open", refuse)
        with pytest.raises(OSError, match=r"cannot write .*: Read-only"):
            start_or_resume(stopped)
    assert {path: path.stat().st_mtime_ns for path in stopped.rglob("*")} == before
    start_or_resume(stopped)
    assert numbers(stopped) == whole


def test_a_changed_configuration_is_told_by_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main([*RUN, "--out", "run"])
    before = numbers(tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    original = path.read_text()
    described = json.loads(original)
    described["config"] |= {"learning_rate": 0.5, "steps": 7, "device": "cpu"}
    path.write_text(json.dumps(described))
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--resume", "run"])
    message = capsys.readouterr().err
    assert "got learning_rate=0.5 instead of 0.001, steps=7 instead of 6;" in message
    assert message.count("\n") == 1
    assert numbers(tmp_path / "run")[1:] == before[1:]
    described["config"] = json.loads(original)["config"] | {"width": 3}
    path.write_text(json.dumps(described))
    with pytest.raises(SystemExit, match="2"):
        main(["run", "--resume", "run"])
    assert "must have the fields of dspn-polygons, got also width" in capsys.readouterr().err
    path.write_text(original)
    main(["run", "--resume", "run"])
    assert numbers(tmp_path / "run") == before
