"""Reproduce a table of the thesis with one command. The watching process needs no torch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchsets.lab.experiments import Experiment, find_table
from torchsets.lab.records.files import explained
from torchsets.lab.reproduction.folders import wait_for_places
from torchsets.lab.reproduction.listing import list_tables
from torchsets.lab.reproduction.outcome import write_outcome
from torchsets.lab.reproduction.processes import Job, View, run_jobs
from torchsets.lab.reproduction.shards import Shard, plan_shards
from torchsets.lab.reproduction.view import open_view

__all__ = ["Job", "Reproduction", "Shard", "list_tables", "plan_shards", "reproduce"]


@dataclass(frozen=True)
class Reproduction:
    """What came out.

    Attributes:
        text: The table, ours beside the thesis'.
        files: What was written.
        failed: Shards that ended with an error.
        stopped: Whether it was stopped before all shards were done.
    """

    text: str
    files: list[Path]
    failed: list[Job]
    stopped: bool


def reproduce(
    key: str,
    *,
    scale: str = "cpu",
    out: Path | None = None,
    overrides: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    jobs: int | None = None,
) -> Reproduction:
    """Run what is not recorded yet of a table, and write the table.

    Args:
        key: Of a table that ``torchsets reproduce --list`` shows.
        scale: One of ``SCALES``.
        out: Folder of the shards' run folders and of the table. None: one in ``runs/reproduce``.
        overrides: Changed fields, each ``field=value``.
        seeds: Seeds to run; None: as many as the table has at this scale.
        jobs: Shards at a time; None: as many as there are cores.
    """
    table, experiment = find_table(key)
    shards = plan_shards(table, experiment, overrides, scale=scale, seeds=seeds)
    out = out or default_folder(experiment.name, scale)
    with explained(out):
        out.mkdir(parents=True, exist_ok=True)
    with open_view() as view:
        places = wait_for_places(shards, out, say=view.say)
        planned = [
            Job(shard, place, out / "logs" / f"{place.folder.name}.txt")
            for shard, place in zip(shards, places, strict=True)
        ]
        for job in planned:
            if job.place.remark:
                view.say(job.place.remark)
            if job.place.state == "done":
                job.state, job.recorded = "done", True
        recorded = sum(job.recorded for job in planned)
        count = f"{len(planned)} shard{'s' if len(planned) > 1 else ''}"
        view.say(f"{table.key}: {count} in {out}, {recorded} recorded already")
        _fetch_data(experiment, [job.shard for job in planned if not job.recorded], view)
        stopped = run_jobs(planned, workers=jobs or _cores(), view=view)
    stopped = stopped and any(job.state in ("stopped", "waiting") for job in planned)
    text, files = write_outcome(table, planned, out, overrides=overrides, page=not stopped)
    failed = [job for job in planned if job.state == "failed"]
    return Reproduction(text, files, failed, stopped)


def default_folder(experiment: str, scale: str) -> Path:
    """Return the folder that a reproduction uses if nobody names one."""
    return Path("runs/reproduce") / f"{experiment}-{scale}"


def _fetch_data(experiment: Experiment[Any], shards: Sequence[Shard], view: View) -> None:
    """Download missing data once, before any shard starts; an error says what belongs where."""
    needed = {
        dataset.name: dataset
        for shard in shards
        for dataset in experiment.datasets(shard.config, shard.scale)
    }
    for dataset in needed.values():
        if dataset.missing():
            view.say(f"downloading {dataset.name} to {dataset.path('')}")
            dataset.fetch()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
