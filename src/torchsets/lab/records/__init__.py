"""A run folder: what was run, how it went, what came out. Needs no torch.

A run folder holds ``config.json``, ``environment.json`` (one more for each resume),
``metrics.jsonl``, ``result.json``, ``figures/NAME.json`` and ``checkpoint/``. Whole files are
replaced in one step, so a reader or a crash sees the old file or the new one, never half of one.
One process writes at a time; ``.lock`` names the last one that did.
"""

from torchsets.lab.records.environment import describe_environment
from torchsets.lab.records.files import read_json, write_atomically, write_json
from torchsets.lab.records.recorder import Recorder
from torchsets.lab.records.repair import can_start_in
from torchsets.lab.records.run import (
    Cell,
    Description,
    Environment,
    RecordedFigure,
    Run,
    Task,
    find_runs,
    read_config,
    read_run,
    read_runs,
)

__all__ = [
    "Cell",
    "Description",
    "Environment",
    "RecordedFigure",
    "Recorder",
    "Run",
    "Task",
    "can_start_in",
    "describe_environment",
    "find_runs",
    "read_config",
    "read_json",
    "read_run",
    "read_runs",
    "write_atomically",
    "write_json",
]
