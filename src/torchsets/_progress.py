"""How far something is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from torchsets._extras import import_extra

_SECONDS_BETWEEN_UPDATES = 0.2

Show = Callable[[int, float], None]


@contextmanager
def show_steps(
    task: str, *, start: int, steps: int, unit: str = "step", seconds: float = 30.0
) -> Iterator[Show]:
    """Yield a function to call with (step, loss) as often as you like.

    Without a terminal a line comes at most every so many seconds, so a short training is silent.
    """
    if sys.stderr.isatty() and _has_rich():
        with _bar(task, start=start, steps=steps, unit=unit) as show:
            yield show
    else:
        yield _line_writer(task, start=start, steps=steps, unit=unit, seconds=seconds)


def now_and_then(
    show: Callable[[int, float, float], None],
    seconds: float,
    *,
    shown: float = 0.0,
    last: int | None = None,
) -> Show:
    """Call ``show(step, loss, now)`` at most every so many seconds, and at the last step."""

    def show_if_due(step: int, loss: float) -> None:
        nonlocal shown
        now = time.perf_counter()
        if now - shown > seconds or step == last:
            shown = now
            show(step, loss, now)

    return show_if_due


def _has_rich() -> bool:
    try:
        import_extra("rich.progress", "app")
    except ImportError:  # a training must not end because nobody can watch it
        return False
    return True


@contextmanager
def _bar(task: str, *, start: int, steps: int, unit: str) -> Iterator[Show]:
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
        began = time.perf_counter()

        def show(step: int, loss: float, now: float) -> None:
            speed = (step - start) / max(now - began, 1e-9)  # the first call may come at once
            bar.update(row, completed=step, loss=f"loss {loss:.2e}, {speed:.0f} {unit}s/s")

        yield now_and_then(show, _SECONDS_BETWEEN_UPDATES, last=steps)


def _line_writer(task: str, *, start: int, steps: int, unit: str, seconds: float) -> Show:
    began = time.perf_counter()

    def show(step: int, loss: float, now: float) -> None:
        left = (steps - step) * (now - began) / max(1, step - start)
        line = f"{task}: {unit} {step} of {steps}, loss {loss:.2e}, {left:.0f} s left"
        with suppress(OSError):  # the terminal or pipe may be closed
            print(line, file=sys.stderr, flush=True)

    return now_and_then(show, seconds, shown=began)
