"""Run shards side by side, each in a process of its own with one thread."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torchsets.lab.reproduction.folders import Place
from torchsets.lab.reproduction.shards import Shard
from torchsets.lab.signals import stop_requests
from torchsets.lab.typed import Json

_SECONDS_BETWEEN_LOOKS = 0.1
_PR_SET_PDEATHSIG = 1  # of Linux' prctl
_STOPPED = (130, -signal.SIGINT, -signal.SIGTERM, -signal.SIGKILL)


@dataclass
class Job:
    """A shard, its folder, and how far it is.

    Attributes:
        shard: What to run.
        place: Where.
        log: A file for what its process prints.
        state: "waiting", "running", "done", "failed" or "stopped".
        recorded: Whether it was done before this call.
    """

    shard: Shard
    place: Place
    log: Path
    state: str = "waiting"
    recorded: bool = False
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    seconds: float = 0.0

    @property
    def progress_file(self) -> Path:
        return self.log.with_suffix(".json")

    @property
    def config_file(self) -> Path:
        return self.log.with_suffix(".config.json")

    def read_progress(self) -> dict[str, Json]:
        """Task, step, steps, loss and seconds_left of the current training; empty before it."""
        try:
            progress: dict[str, Json] = json.loads(self.progress_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return progress

    def last_lines(self, count: int = 6) -> list[str]:
        """The end of its log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        return [line for line in text.splitlines() if line.strip()][-count:]


class View(Protocol):
    """Receives progress."""

    def started(self, job: Job) -> None: ...
    def ended(self, job: Job) -> None: ...
    def show(self, jobs: Sequence[Job]) -> None: ...
    def say(self, line: str) -> None: ...


def run_jobs(jobs: Sequence[Job], *, workers: int, view: View) -> bool:
    """Run all jobs that wait, ``workers`` at a time, in their order; True if it was stopped.

    The first Ctrl-C is passed on to the shards, which save and stop. The second ends them at once.
    """
    running: list[Job] = []
    asked = 0
    with stop_requests() as requests:
        try:
            while running or (not requests and any(job.state == "waiting" for job in jobs)):
                for job in jobs:
                    if job.state == "waiting" and len(running) < workers and not requests:
                        _start(job)
                        _tell(view.started, job)
                        running.append(job)
                if len(requests) > asked:
                    asked = len(requests)
                    _stop(running, at_once=asked > 1, view=view)
                running = [job for job in running if not _ended(job, bool(requests), view)]
                _tell(view.show, jobs)
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            for job in running:  # only if the watching itself has failed
                if job.process is not None:
                    job.process.kill()
                    job.process.wait()
        return bool(requests)


def _start(job: Job) -> None:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    job.progress_file.unlink(missing_ok=True)
    if job.place.state == "stopped":
        command = ["run", "--resume", str(job.place.folder)]
    else:
        job.config_file.write_text(json.dumps(job.shard.config), encoding="utf-8")
        command = ["run", job.shard.experiment, "--config", str(job.config_file)]
        command += ["--scale", job.shard.scale, "--out", str(job.place.folder)]
    with job.log.open("ab") as log:
        job.process = subprocess.Popen(
            [sys.executable, "-m", "torchsets", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "TORCHSETS_PROGRESS": str(job.progress_file.resolve()),
            },
            start_new_session=True,  # a terminal's Ctrl-C comes to us alone, and is passed on
            preexec_fn=_follow_watcher(),
        )
    job.state, job.started = "running", time.monotonic()


def _follow_watcher() -> Callable[[], None] | None:
    """Let a shard save and stop when its watcher is killed, where the system can tell it."""
    if sys.platform != "linux":
        return None
    prctl, watcher = ctypes.CDLL(None).prctl, os.getpid()

    def follow() -> None:  # in the new process, before its program begins
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != watcher:  # killed a moment ago
            os._exit(1)

    return follow


def _stop(running: Sequence[Job], *, at_once: bool, view: View) -> None:
    for job in running:  # first: if the terminal was closed, nothing can be said
        if job.process is not None:
            job.process.send_signal(signal.SIGKILL if at_once else signal.SIGINT)
    now, soon = "ending now", "stopping: what is running saves first; again to end now"
    _tell(view.say, now if at_once else soon)


def _ended(job: Job, stopping: bool, view: View) -> bool:
    code = job.process.poll() if job.process is not None else None
    job.seconds = time.monotonic() - job.started
    if code is None:
        return False
    if code == 0:
        job.state = "done"
    else:
        job.state = "stopped" if stopping and code in _STOPPED else "failed"
    job.progress_file.unlink(missing_ok=True)
    _tell(view.ended, job)
    return True


def _tell(call: Callable[[Any], None], what: Any) -> None:
    """Say it, unless the terminal is gone."""
    with contextlib.suppress(OSError):
        call(what)
