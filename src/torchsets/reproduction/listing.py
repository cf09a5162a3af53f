"""What ``torchsets reproduce --list`` says."""

import difflib
import textwrap

from torchsets.experiments import EXPERIMENTS, SCALES
from torchsets.experiments.tables import TABLES, Redrawn
from torchsets.reports import thesis_tables

_WIDTH = 100


def list_tables() -> str:
    """Describe every table: how long each scale takes, which data is missing, what is not yet."""
    width = max(map(len, TABLES)) + 2
    thesis = thesis_tables()
    lines = []
    for table in TABLES.values():
        times = ", ".join(f"{scale} {table.durations[scale]}" for scale in SCALES)
        note = "" if table.key in thesis else "  (tables of our own)"
        lines.append(f"{table.key:<{width}}{times}{note}")
        lines += [f"{'':<{width}}{line}" for line in describe_missing_data(table)]
    waiting = ", ".join(key for key in thesis if key not in TABLES)
    return "\n".join(
        [
            "time on two cores, one seed:",
            "",
            *lines,
            "",
            *textwrap.wrap(
                f"not yet: {waiting}",
                _WIDTH,
                subsequent_indent="  ",
                break_on_hyphens=False,
                break_long_words=False,
            ),
            "",
            "redraw one: torchsets reproduce TABLE [--scale smoke|cpu|full] [--seeds 0 1 2]",
        ]
    )


def describe_missing_data(table: Redrawn) -> list[str]:
    """Name the files that are missing and where to get them; empty if nothing is."""
    missing = table.missing_data()
    if not missing:
        return []
    return [
        *(f"missing: {path}" for path in missing),
        f"get {'it' if len(missing) == 1 else 'them'} from {EXPERIMENTS[table.experiment].source}",
    ]


def explain_unknown(key: str) -> str:
    """The message for a table that cannot be redrawn: not yet, or misspelt."""
    if key in thesis_tables():
        return f"table must be one that can be redrawn, got {key}, which is not implemented yet"
    nearest = difflib.get_close_matches(key, [*TABLES, *thesis_tables()], n=1, cutoff=0)[0]
    return (
        f"table must be one that torchsets reproduce --list shows, got {key!r}; "
        f"the nearest is {nearest!r}"
    )
