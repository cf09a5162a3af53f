"""What ``torchsets reproduce --list`` says."""

import difflib
import textwrap

from torchsets.lab.experiments import EXPERIMENTS, SCALES
from torchsets.lab.experiments.tables import TABLES, Redrawn
from torchsets.lab.reports import thesis_tables

_WIDTH = 100


def list_tables() -> str:
    """Describe every table: how long each scale takes, which data is missing, what is not yet."""
    width = max(map(len, TABLES)) + 2
    thesis = thesis_tables()
    lines = ["time on two cores, one seed:", ""]
    lacking: dict[tuple[str, ...], list[str]] = {}
    for table in TABLES.values():
        times = ", ".join(f"{scale} {table.durations[scale]}" for scale in SCALES)
        note = "" if table.key in thesis else "  (tables of our own)"
        missing = tuple(describe_missing_data(table))
        if missing:
            note = "  (data is missing)"
            lacking.setdefault(missing, []).append(table.key)
        lines.append(f"{table.key:<{width}}{times}{note}")
    for missing, keys in lacking.items():
        lines += ["", *_wrap(f"missing for {', '.join(keys)}, scales cpu and full:")]
        lines += [f"  {line}" for line in missing]
    waiting = ", ".join(key for key in thesis if key not in TABLES)
    lines += ["", *_wrap(f"not yet: {waiting}"), ""]
    lines.append("redraw one: torchsets reproduce TABLE [--scale smoke|cpu|full] [--seeds 0 1 2]")
    return "\n".join(lines)


def describe_missing_data(table: Redrawn) -> list[str]:
    """Name the files that are missing and where to get them; empty if nothing is."""
    missing = [str(path) for path in table.missing_data()]
    return [*missing, f"from {EXPERIMENTS[table.experiment].source}"] if missing else []


def explain_unknown(key: str) -> str:
    """The message for a table that cannot be redrawn: not yet, or misspelt."""
    if key in thesis_tables():
        return f"table must be one that can be redrawn, got {key}, which is not implemented yet"
    nearest = difflib.get_close_matches(key, [*TABLES, *thesis_tables()], n=1, cutoff=0)[0]
    return (
        f"table must be one that torchsets reproduce --list shows, got {key!r}; "
        f"the nearest is {nearest!r}"
    )


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )
