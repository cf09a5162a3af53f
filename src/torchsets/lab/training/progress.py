"""A progress bar with loss and speed on a terminal; silence elsewhere.

If the variable ``TORCHSETS_PROGRESS`` names a file, the progress goes there instead, as JSON, for a
process that watches several runs.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchsets._extras import import_extra
from torchsets.lab.training.processes import is_first

_SECONDS_BETWEEN_UPDATES = 0.2
_SECONDS_BETWEEN_FILES = 1.0


@contextmanager
def show_progress(task: str, *, start: int, steps: int) -> Iterator[Callable[[int, float], None]]:
    """Yield a function to call with (step, loss) as often as one likes."""
    watched = os.environ.get("TORCHSETS_PROGRESS")
    if watched and is_first():
        yield _file_writer(Path(watched), task, start=start, steps=steps)
        return
    if not (sys.stderr.isatty() and is_first()):
        yield lambda step, loss: None
        return
    rich = import_extra("rich.progress", "app")
    console = import_extra("rich.console", "app").Console(stderr=True)
    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(bar_width=12),
        rich.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        rich.TextColumn("{task.fields[loss]}"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console) as bar:
        row = bar.add_task(task, total=steps, completed=start, loss="")
        began, shown = time.perf_counter(), 0.0

        def show(step: int, loss: float) -> None:
            nonlocal shown
            now = time.perf_counter()
            if now - shown > _SECONDS_BETWEEN_UPDATES or step == steps:
                shown = now
                speed = (step - start) / max(now - began, 1e-9)  # the first call may come at once
                bar.update(row, completed=step, loss=f"loss {loss:.2e}, {speed:.0f} steps/s")

        yield show


def _file_writer(path: Path, task: str, *, start: int, steps: int) -> Callable[[int, float], None]:
    began, written = time.perf_counter(), 0.0

    def show(step: int, loss: float) -> None:
        nonlocal written
        now = time.perf_counter()
        if now - written < _SECONDS_BETWEEN_FILES:
            return
        written = now
        left = (steps - step) * (now - began) / max(1, step - start)
        about = {"task": task, "step": step, "steps": steps, "loss": loss, "seconds_left": left}
        temporary = path.with_name(path.name + ".writing")
        with suppress(OSError):  # a training must not end because nobody can watch it
            temporary.write_text(json.dumps(about), encoding="utf-8")
            os.replace(temporary, path)

    return show
