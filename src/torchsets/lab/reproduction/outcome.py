"""The table from what the shards have recorded: as text, as JSON and as a page."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from torchsets.lab.experiments import Table
from torchsets.lab.records import Run, read_run, write_atomically, write_json
from torchsets.lab.reports import (
    collect_tables,
    duration,
    merge_runs,
    table_as_text,
    write_report,
)
from torchsets.lab.reports.shards import natural
from torchsets.lab.reproduction.processes import Job
from torchsets.lab.typed import Json


def write_outcome(
    table: Table,
    jobs: Sequence[Job],
    out: Path,
    *,
    overrides: Sequence[str] = (),
    page: bool = True,
) -> tuple[str, list[Path]]:
    """Write ``KEY.txt``, ``KEY.json`` and ``KEY.html`` into ``out``; return the text and the files.

    What is missing yet is shown as missing. Without ``page`` there is no HTML, which takes seconds.
    """
    merged = [merge_runs(runs, table.merge) for runs in _read_shards(jobs).values()]
    if merged and (derived := table.derived(merged)):
        # What older shards recorded of these tables alone is not what all of them say together.
        tables = {cell.table for cell in derived}
        merged = [
            replace(run, cells=[cell for cell in run.cells if cell.table not in tables])
            for run in merged
        ]
        merged[0] = replace(merged[0], cells=[*merged[0].cells, *derived])
    found = [one for one in collect_tables(merged) if table.shows(one.key)]
    begun = [one for one in found if any(row.ours is not None for row in one.rows)]
    text = "\n\n".join(table_as_text(one, all_rows=True) for one in begun)
    text = text or f"{table.key}: no number is recorded yet"
    text = f"{text}\n\n{_about(jobs, merged, overrides)}\n"
    stem = table.key.replace("/", "-")
    paths = [out / f"{stem}.{kind}" for kind in ("txt", "json", "html")]
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(paths[0], text)
    content = {**_describe(table, jobs), "tables": [asdict(one) for one in found]}
    write_json(paths[1], content)
    if page and merged:
        write_report(merged, paths[2])
    return text, paths if page and merged else paths[:2]


def _read_shards(jobs: Sequence[Job]) -> dict[int, dict[str, Run]]:
    """What is recorded, by seed and shard; one that cannot be read is a warning."""
    by_seed: dict[int, dict[str, Run]] = {}
    for job in sorted(jobs, key=lambda job: natural(job.shard.name)):
        if (job.place.folder / "config.json").exists():
            try:
                run = read_run(job.place.folder)
            except (ValueError, OSError) as error:
                warnings.warn(f"{job.shard.name} is left out: {error}", stacklevel=4)
            else:
                by_seed.setdefault(job.shard.seed, {})[job.shard.name] = run
    return by_seed


def _about(jobs: Sequence[Job], merged: Sequence[Run], overrides: Sequence[str]) -> str:
    done = sum(job.state == "done" for job in jobs)
    seeds = sorted({job.shard.seed for job in jobs})
    tasks = [task for run in merged for task in run.tasks.values()]
    trained = duration(sum(task.seconds for task in tasks))
    listed = ", ".join(map(str, seeds))
    lines = [
        f"scale {jobs[0].shard.scale}, {'seeds' if len(seeds) > 1 else 'seed'} {listed}; "
        f"{len(tasks)} trainings, {trained} in total"
    ]
    if done < len(jobs):
        lines.insert(0, f"NOT COMPLETE: {done} of {len(jobs)} shards are done")
    if overrides:
        lines.append(f"changed: {' '.join(overrides)}")
    if len(merged) > 1:
        lines.append("ours: mean and sample standard deviation over the seeds")
    return "\n".join(lines)


def _describe(table: Table, jobs: Sequence[Job]) -> dict[str, Json]:
    shards = [
        {
            "name": job.shard.name,
            "folder": job.place.folder.name,
            "state": job.state,
            "config": job.shard.config,
        }
        for job in jobs
    ]
    return {
        "table": table.key,
        "experiment": jobs[0].shard.experiment,
        "scale": jobs[0].shard.scale,
        "complete": all(job.state == "done" for job in jobs),
        "merge": table.merge,
        "shards": shards,
    }
