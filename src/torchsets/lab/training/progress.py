"""How far a training is: a bar on a terminal, a line now and then elsewhere.

If the variable ``TORCHSETS_PROGRESS`` names a file, the progress goes there instead, as JSON, for a
process that watches several runs.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torchsets._progress import Show, now_and_then, show_steps
from torchsets.lab.training.processes import is_first

_SECONDS_BETWEEN_FILES = 1.0
_SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def show_progress(task: str, *, start: int, steps: int) -> Iterator[Show]:
    """Yield a function to call with (step, loss) as often as you like."""
    watched = os.environ.get("TORCHSETS_PROGRESS")
    if not is_first():
        yield lambda step, loss: None
    elif watched:
        yield _file_writer(Path(watched), task, start=start, steps=steps)
    else:
        with show_steps(task, start=start, steps=steps, seconds=_SECONDS_BETWEEN_LINES) as show:
            yield show


def _file_writer(path: Path, task: str, *, start: int, steps: int) -> Show:
    began = time.perf_counter()

    def show(step: int, loss: float, now: float) -> None:
        left = (steps - step) * (now - began) / max(1, step - start)
        about = {"task": task, "step": step, "steps": steps, "loss": loss, "seconds_left": left}
        temporary = path.with_name(path.name + ".writing")
        with suppress(OSError):
            temporary.write_text(json.dumps(about), encoding="utf-8")
            os.replace(temporary, path)

    return now_and_then(show, _SECONDS_BETWEEN_FILES)
