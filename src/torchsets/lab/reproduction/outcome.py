"""The table from what the pieces have recorded: as text, as JSON and as a page."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torchsets.lab.experiments.tables import TABLES, Redrawn
from torchsets.lab.records import Run, read_json, read_run, write_atomically, write_json
from torchsets.lab.reports import collect_tables, table_as_text, write_report
from torchsets.lab.reproduction.processes import Job
from torchsets.lab.reproduction.view import duration

_CHOICES = {"min": min, "max": max}


def write_outcome(
    table: Redrawn,
    jobs: Sequence[Job],
    out: Path,
    *,
    words: Sequence[str] = (),
    page: bool = True,
) -> tuple[str, list[Path]]:
    """Write ``KEY.txt``, ``KEY.json`` and ``KEY.html`` into ``out``; return the text and the files.

    What is missing yet is shown as missing; ``words`` are the fields that were changed. Without
    ``page`` there is no HTML, which takes seconds.
    """
    by_seed: dict[int, dict[str, Run]] = {}
    for job in sorted(jobs, key=lambda job: _natural(job.piece.name)):
        if (job.place.folder / "config.json").exists():
            runs = by_seed.setdefault(job.piece.config["seed"], {})
            runs[job.piece.name] = read_run(job.place.folder)
    merged = [merge_runs(runs, table.merge) for runs in by_seed.values()]
    tables = [found for found in collect_tables(merged) if table.shows(found.key)]
    begun = [found for found in tables if any(row.ours is not None for row in found.rows)]
    shown = [table_as_text(found, all_rows=True) for found in begun]
    text = "\n\n".join(shown) or f"{table.key}: no number is recorded yet"
    text = f"{text}\n\n{_about(jobs, merged, words)}\n"
    stem = table.key.replace("/", "-")
    paths = [out / f"{stem}.{kind}" for kind in ("txt", "json", "html")]
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(paths[0], text)
    write_json(paths[1], _as_json(table, jobs, tables))
    if page and merged:
        write_report(merged, paths[2])
    return text, paths if page and merged else paths[:2]


def _about(jobs: Sequence[Job], merged: Sequence[Run], words: Sequence[str]) -> str:
    done = sum(job.state == "done" for job in jobs)
    seeds = sorted({job.piece.config["seed"] for job in jobs})
    tasks = [about for run in merged for about in run.result["tasks"].values()]
    trained = duration(sum(about["seconds"] for about in tasks))
    listed = ", ".join(map(str, seeds))
    lines = [
        f"scale {jobs[0].piece.scale}, {'seeds' if len(seeds) > 1 else 'seed'} {listed}; "
        f"{len(tasks)} trainings, {trained} in all"
    ]
    if done < len(jobs):
        lines.insert(0, f"NOT COMPLETE: {done} of {len(jobs)} pieces are done")
    if words:
        lines.append(f"changed: {' '.join(words)}")
    if len(merged) > 1:
        lines.append("ours: mean and sample standard deviation over the seeds")
    return "\n".join(lines)


def merge_runs(runs: Mapping[str, Run], choices: Mapping[str, str]) -> Run:
    """Put the pieces of one seed together, as if they had been one run.

    ``choices`` names columns whose number is the ``min`` or ``max`` over the pieces.
    """
    parts = list(runs.values())
    names = [name for run in parts for name in run.figures]
    figures = {
        (f"{piece} {name}" if names.count(name) > 1 else name): (
            {**figure, "title": f"{figure['title']} ({piece})"} if names.count(name) > 1 else figure
        )
        for piece, run in runs.items()
        for name, figure in run.figures.items()
    }
    result = {
        "complete": all(run.result["complete"] for run in parts),
        "tasks": {task: about for run in parts for task, about in run.result["tasks"].items()},
        "tables": {key: about for run in parts for key, about in run.result["tables"].items()},
        "results": _merge_results(
            [cell for run in parts for cell in run.result["results"]], choices
        ),
    }
    return replace(
        parts[0],
        folder=parts[0].folder.parent,
        config=_merge_configs([run.config for run in parts]),
        metrics=[line for run in parts for line in run.metrics],
        result=result,
        figures=figures,
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort n=4 before n=16, so that columns and figures rise."""
    return [(int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def merge_pieces(runs: Sequence[Run]) -> list[Run]:
    """Put runs together that are pieces of one table and seed; all others stay as they are."""
    groups: dict[tuple[Any, ...], dict[str, Run]] = {}
    tables: dict[tuple[Any, ...], Redrawn] = {}
    for run in runs:
        table = _table_of(run.folder)
        key: tuple[Any, ...] = (run.folder,)
        if table is not None:
            key = (run.folder.parent, table.key, run.scale, run.seed)
            tables[key] = table
        groups.setdefault(key, {})[run.folder.name] = run
    return [
        merge_runs(parts, tables[key].merge) if key in tables else next(iter(parts.values()))
        for key, parts in groups.items()
    ]


def _table_of(folder: Path) -> Redrawn | None:
    """The table that a run folder is a piece of, as the JSON file beside it says."""
    for path in sorted(folder.absolute().parent.glob("*.json")):
        try:
            content = read_json(path)
        except ValueError:  # some other file
            continue
        if folder.name in (piece["folder"] for piece in content.get("pieces", [])):
            return TABLES.get(content["table"])
    return None


def _merge_results(
    results: Sequence[dict[str, Any]], choices: Mapping[str, str]
) -> list[dict[str, Any]]:
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for result in results:
        key = tuple(result[name] for name in ("table", "model", "column", "seed"))
        cells.setdefault(key, []).append(result)
    merged = []
    for found in cells.values():
        choose = _CHOICES.get(choices.get(found[0]["column"], ""))
        # Where pieces overlap without a choice they have trained the same: the first stands.
        value = choose(cell["value"] for cell in found) if choose else found[0]["value"]
        merged.append({**found[0], "value": value})
    return merged


def _merge_configs(configs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Keep what all have in common; list the values of what differs."""
    merged = dict(configs[0])
    for name in merged:
        values = [config[name] for config in configs]
        if any(value != values[0] for value in values):
            listed = [part for value in values for part in _as_list(value)]
            merged[name] = sorted(dict.fromkeys(listed), key=lambda part: (str(type(part)), part))
    return merged


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _as_json(table: Redrawn, jobs: Sequence[Job], tables: Sequence[Any]) -> dict[str, Any]:
    pieces = [
        {
            "name": job.piece.name,
            "folder": job.place.folder.name,
            "state": job.state,
            "config": job.piece.config,
        }
        for job in jobs
    ]
    return {
        "table": table.key,
        "experiment": table.experiment,
        "scale": jobs[0].piece.scale,
        "complete": all(job.state == "done" for job in jobs),
        "tables": [asdict(found) for found in tables],
        "pieces": pieces,
    }
