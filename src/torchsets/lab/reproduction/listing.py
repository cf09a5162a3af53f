"""What ``torchsets reproduce --list`` says."""

import textwrap
from typing import Any

from torchsets._catalogue import DATASETS
from torchsets.lab.experiments import SCALES, Experiment, tables
from torchsets.lab.reports import thesis_tables

_WIDTH = 100


def list_tables() -> str:
    """Describe every table: what it shows, how long it takes, which data is missing."""
    thesis = thesis_tables()
    lines = ["time on two cores, one seed:", ""]
    lacking: dict[tuple[str, ...], list[str]] = {}
    for key, (table, experiment) in tables().items():
        about = thesis.get(key)
        where = about.source if about else "not in the thesis"
        times = ", ".join(f"{scale} {table.takes[scale]}" for scale in SCALES)
        missing = tuple(describe_missing_data(experiment))
        note = "  (data is missing)" if missing else ""
        lines.append(f"{key}  ({where})")
        lines += _wrap(about.caption if about else experiment.summary, indent="    ")
        lines.append(f"    {times}{note}")
        if missing:
            lacking.setdefault(missing, []).append(key)
    for missing, keys in lacking.items():
        lines += ["", *_wrap(f"missing for {', '.join(keys)}, scales cpu and full:")]
        lines += [f"  {line}" for line in missing]
    waiting = ", ".join(key for key in thesis if key not in tables())
    lines += ["", *_wrap(f"not implemented: {waiting}"), ""]
    lines.append("reproduce one: torchsets reproduce TABLE [--scale smoke|cpu|full] [--seeds 0 1]")
    return "\n".join(lines)


def describe_missing_data(experiment: Experiment[Any]) -> list[str]:
    """Name the files that are missing and where to get them; empty if nothing is."""
    lines = []
    for name in experiment.data:
        missing = [str(path) for path in DATASETS[name].missing()]
        sources = f"from {' or '.join(DATASETS[name].mirrors)} (downloaded on first use)"
        lines += [*missing, sources] if missing else []
    return lines


def _wrap(text: str, *, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_on_hyphens=False,
        break_long_words=False,
    )
