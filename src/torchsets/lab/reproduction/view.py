"""One view of all shards: live rows on a terminal, a line now and then elsewhere."""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, TextIO

from torchsets._extras import import_extra
from torchsets.lab.reports import duration
from torchsets.lab.reproduction.processes import Job, View

_SECONDS_BETWEEN_LINES = 120
_SECONDS_BETWEEN_PICTURES = 0.25
_BAR = 12


def open_view() -> contextlib.AbstractContextManager[View]:
    """A live table on stderr if that is a terminal and rich is installed, lines otherwise."""
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):  # nothing must end because nobody can watch it
            return LiveView()
    return LineView(sys.stderr)


class LineView:
    """Lines: each start and end, and every two minutes how far all are."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.began = self.shown = time.monotonic()

    def __enter__(self) -> "LineView":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def started(self, job: Job) -> None:
        self.say(f"{'resume' if job.place.state == 'stopped' else 'start':<8}{job.shard.name}")

    def ended(self, job: Job) -> None:
        self.say(_end_line(job))

    def show(self, jobs: Sequence[Job]) -> None:
        if time.monotonic() - self.shown > _SECONDS_BETWEEN_LINES:
            self.shown = time.monotonic()
            self.say(_summary(jobs, time.monotonic() - self.began))
            for job in jobs:
                if job.state == "running":
                    name, task, _, *numbers = _cells(job)
                    self.say(f"        {name}  {task}  {', '.join(filter(None, numbers))}".rstrip())

    def say(self, line: str) -> None:
        self.stream.write(line + "\n")
        self.stream.flush()


class LiveView:
    """A table of the running shards that is drawn anew, with the ended ones above it."""

    def __init__(self) -> None:
        console = import_extra("rich.console", "app").Console(stderr=True, highlight=False)
        self.text_class = import_extra("rich.text", "app").Text
        self.live: Any = import_extra("rich.live", "app").Live(
            console=console, auto_refresh=False, transient=True
        )
        self.began, self.shown = time.monotonic(), 0.0

    def __enter__(self) -> "LiveView":
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):  # the terminal may be closed
            self.live.stop()

    def started(self, job: Job) -> None:
        pass  # it appears in the table

    def ended(self, job: Job) -> None:
        self.say(_end_line(job))

    def show(self, jobs: Sequence[Job]) -> None:
        if time.monotonic() - self.shown < _SECONDS_BETWEEN_PICTURES:
            return
        self.shown = time.monotonic()
        running = [_cells(job) for job in jobs if job.state == "running"]
        lines = [*_fit(running, self.live.console.width), _summary(jobs, self.shown - self.began)]
        text = self.text_class("\n".join(lines), no_wrap=True, overflow="crop")
        self.live.update(text, refresh=True)

    def say(self, line: str) -> None:
        self.live.console.print(line, markup=False, soft_wrap=True)


def _end_line(job: Job) -> str:
    return f"{job.state:<8}{job.shard.name}  {duration(job.seconds)}"


def _summary(jobs: Sequence[Job], seconds: float) -> str:
    counts = Counter(job.state for job in jobs)
    parts = [f"{counts['done']} of {len(jobs)} done"]
    parts += [f"{counts[state]} {state}" for state in ("running", "waiting", "failed", "stopped")]
    shown = [part for part in parts if not part.startswith("0 ") or part == parts[0]]
    return f"{', '.join(shown)}; {duration(seconds)}"


def _cells(job: Job) -> tuple[str, ...]:
    progress = job.read_progress()
    if not progress:
        return job.shard.name, "beginning", "", "", "", ""
    step, steps = progress["step"], progress["steps"]
    filled = round(_BAR * step / max(1, steps))
    return (
        job.shard.name,
        progress["task"],
        "━" * filled + "╌" * (_BAR - filled),
        f"{step}/{steps}",
        f"loss {progress['loss']:.2e}",
        f"{duration(progress['seconds_left'])} left",
    )


def _fit(rows: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """Align the cells; where there is no room drop the bar, then shorten names and tasks.

    Example:
        >>> _fit([("seed=0", "mlp-hungarian", "━━", "1/10", "loss 1", "3 s left")], 42)
        ['seed=0  mlp-hun…  1/10  loss 1  3 s left']
    """

    def total() -> int:
        return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))

    if rows and total() > width:
        rows = [row[:2] + row[3:] for row in rows]
    for column in (1, 0):
        longest = max((len(row[column]) for row in rows), default=0)
        room = max(6, longest - max(0, total() - width))
        rows = [(*row[:column], _shorten(row[column], room), *row[column + 1 :]) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
