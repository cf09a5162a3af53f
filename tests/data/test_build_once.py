import os
import signal
import subprocess
import sys
import time

import pytest

from torchsets.data.build_once import build_once

BUILDER = """
import runpy, sys, time
from pathlib import Path

build_once = runpy.run_path(sys.argv[4])["build_once"]  # without torch, which takes its time

def build(folder):
    (folder / "first").write_text("1")
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    time.sleep(float(sys.argv[3]))
    (folder / "second").write_text("2")

build_once(Path(sys.argv[1]), build)
print("done")
"""


def start(folder, log, seconds):
    code = sys.modules["torchsets.data.build_once"].__file__
    command = [sys.executable, "-c", BUILDER, str(folder), str(log), str(seconds), code]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def wait_for(path):
    limit = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_builds_only_what_is_missing(tmp_path):
    calls = []

    def build(folder):
        calls.append(folder)
        (folder / "file").write_text("content")

    folder = tmp_path / "deep" / "made"
    for _ in range(2):
        assert (build_once(folder, build) / "file").read_text() == "content"
    assert len(calls) == 1
    assert sorted(path.name for path in folder.parent.iterdir()) == ["made", "made.lock"]


def test_a_failed_build_leaves_nothing(tmp_path):
    def build(folder):
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_once(tmp_path / "made", build)
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]


@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_two_processes_build_once_and_a_killed_one_leaves_nothing_half_made(tmp_path):
    folder, log = tmp_path / "made", tmp_path / "log"
    killed = start(folder, log, 60)
    wait_for(log)
    waiting = [start(folder, log, 0), start(folder, log, 0)]
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not folder.exists()
    for process in waiting:
        assert process.communicate(timeout=60)[0] == b"done\n"
    assert log.read_text() == "built\n" * 2  # the killed one, and one of the two that waited
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
    assert not (tmp_path / "made.building").exists()
    killed.stdout.close()
