"""Redraw a table of the thesis with one command. The watching process needs no torch."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torchsets.lab.experiments.tables import Redrawn
from torchsets.lab.reproduction.folders import find_places
from torchsets.lab.reproduction.listing import describe_missing_data, explain_unknown, list_tables
from torchsets.lab.reproduction.outcome import merge_pieces, merge_runs, write_outcome
from torchsets.lab.reproduction.pieces import Piece, plan_elsewhere, plan_pieces
from torchsets.lab.reproduction.processes import Job, run_jobs
from torchsets.lab.reproduction.view import open_view

__all__ = [
    "Job",
    "Piece",
    "Reproduction",
    "explain_unknown",
    "list_tables",
    "merge_pieces",
    "merge_runs",
    "plan_pieces",
    "reproduce",
]


@dataclass(frozen=True)
class Reproduction:
    """What came out.

    Attributes:
        text: The table, ours beside the thesis'.
        files: What was written.
        failed: Pieces that ended with an error.
        stopped: Whether it was stopped before all pieces were done.
    """

    text: str
    files: list[Path]
    failed: list[Job]
    stopped: bool


def reproduce(
    table: Redrawn,
    *,
    scale: str,
    out: Path,
    words: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    jobs: int | None = None,
) -> Reproduction:
    """Run what is not recorded yet of a table, and write the table.

    Args:
        table: An entry of ``TABLES``.
        scale: One of ``SCALES``.
        out: Folder of the pieces' run folders and of the table.
        words: Changed fields, each ``field=value``.
        seeds: Seeds to run; None: as many as the table has at this scale.
        jobs: Pieces at a time; None: as many as there are cores.
    """
    with open_view() as view:
        for line in describe_missing_data(table) if scale != "smoke" else []:
            view.say(f"missing: {line}")
        pieces = plan_elsewhere(table, words, scale, seeds)
        planned = [
            Job(piece, place, out / "logs" / f"{place.folder.name}.txt")
            for piece, place in zip(pieces, find_places(pieces, out), strict=True)
        ]
        for job in planned:
            if job.place.remark:
                view.say(job.place.remark)
            if job.place.state == "done":
                job.state, job.recorded = "done", True
        recorded = sum(job.recorded for job in planned)
        count = f"{len(planned)} piece{'s' if len(planned) > 1 else ''}"
        view.say(f"{table.key}: {count} in {out}, {recorded} recorded already")
        stopped = run_jobs(planned, workers=jobs or _cores(), view=view)
    stopped = stopped and any(job.state in ("stopped", "waiting") for job in planned)
    text, files = write_outcome(table, planned, out, words=words, page=not stopped)
    failed = [job for job in planned if job.state == "failed"]
    return Reproduction(text, files, failed, stopped)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
