"""Put the shards of a table together, as if they had been one run."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torchsets.lab.records import Cell, Run, Task, read_json
from torchsets.lab.typed import Json

_CHOICES = {"min": min, "max": max}


def merge_runs(runs: Mapping[str, Run], choices: Mapping[str, str]) -> Run:
    """Put the shards of one seed, by name, together.

    ``choices`` names columns whose number is the ``min`` or ``max`` over the shards.
    """
    parts = list(runs.values())
    names = [name for run in parts for name in run.figures]
    figures = {}
    for shard, run in runs.items():
        for name, figure in run.figures.items():
            if names.count(name) > 1:
                name, figure = f"{shard} {name}", replace(figure, title=f"{figure.title} ({shard})")
            figures[name] = figure
    tasks: dict[str, Task] = {}
    metrics: list[Mapping[str, Json]] = []
    for shard, run in runs.items():
        # What two shards trained both counts twice, and its curve is drawn once.
        drawn = {line.get("task") for line in metrics}
        metrics += [line for line in run.metrics if line.get("task") not in drawn]
        for task, about in run.tasks.items():
            tasks[f"{shard} {task}" if task in tasks else task] = about
    return replace(
        parts[0],
        folder=parts[0].folder.parent,
        config=_merge_configs([run.config for run in parts]),
        environments=sorted(
            (one for run in parts for one in run.environments), key=lambda one: one.started
        ),
        metrics=metrics,
        complete=all(run.complete for run in parts),
        tasks=tasks,
        descriptions={key: about for run in parts for key, about in run.descriptions.items()},
        cells=_merge_cells({name: run.cells for name, run in runs.items()}, choices),
        figures=figures,
        shards=sum(run.shards for run in parts),
    )


def merge_shards(runs: Sequence[Run]) -> list[Run]:
    """Put runs together that are shards of one table and seed; all others stay as they are."""
    groups: dict[tuple[object, ...], dict[str, Run]] = {}
    choices: dict[tuple[object, ...], Mapping[str, str]] = {}
    outcomes: dict[Path, list[_Outcome]] = {}
    for run in runs:
        parent = run.folder.absolute().parent
        if parent not in outcomes:
            outcomes[parent] = _read_outcomes(parent)
        key: tuple[object, ...] = (run.folder,)
        for outcome in outcomes[parent]:
            if run.folder.name in outcome.folders:
                key = (parent, outcome.table, run.scale, run.seed)
                choices[key] = outcome.merge
                break
        groups.setdefault(key, {})[run.folder.name] = run
    merged = []
    for key, parts in groups.items():
        run = next(iter(parts.values()))
        if key in choices:
            # A seed may have more shards than another: that is no difference of settings.
            same = [
                one
                for other, runs in groups.items()
                if other[:-1] == key[:-1]
                for one in runs.values()
            ]
            run = merge_runs(_rising(parts), choices[key])
            config = _merge_configs([one.config for one in same])
            run = replace(run, config=config | {"seed": run.seed})
        merged.append(run)
    return merged


def natural(name: str) -> list[tuple[int, str]]:
    """Sort n=4 before n=16, so that columns and figures rise."""
    return [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


def _rising(parts: Mapping[str, Run]) -> dict[str, Run]:
    return {name: parts[name] for name in sorted(parts, key=natural)}


@dataclass(frozen=True)
class _Outcome:
    """What the JSON file of a reproduced table says of its shards."""

    table: str
    folders: frozenset[str]
    merge: Mapping[str, str]


def _read_outcomes(folder: Path) -> list[_Outcome]:
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = read_json(path)
            shards = content.get("shards") or content.get("pieces") or []  # pieces: version 0.1
            folders = frozenset(str(shard["folder"]) for shard in shards)
            if folders:
                merge = {name: str(how) for name, how in dict(content.get("merge", {})).items()}
                found.append(_Outcome(str(content.get("table")), folders, merge))
        except (ValueError, TypeError, KeyError):  # some other file
            continue
    return found


def _merge_cells(shards: Mapping[str, Sequence[Cell]], choices: Mapping[str, str]) -> list[Cell]:
    places: dict[tuple[object, ...], dict[str, Cell]] = {}
    for shard, cells in shards.items():
        for cell in cells:
            place = (cell.table, cell.model, cell.column, cell.seed)
            places.setdefault(place, {})[shard] = cell
    merged = []
    for found in places.values():
        first = next(iter(found.values()))
        choose = _CHOICES.get(choices.get(first.column, ""))
        values = {cell.value for cell in found.values() if cell.value is not None}
        if len(values) < 2 or choose:
            value = choose(values) if choose and values else min(values, default=None)
            merged.append(replace(first, value=value))
        else:  # they have trained something else under one name: none may hide another
            merged += [
                replace(cell, model=f"{cell.model} ({shard})") for shard, cell in found.items()
            ]
    return merged


def _merge_configs(configs: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """Keep what all have in common; list the values of what differs."""
    merged = dict(configs[0])
    for name in merged:
        values = [config.get(name) for config in configs]
        if any(value != values[0] for value in values):
            listed = [part for value in values for part in _as_list(value)]
            unique = {json.dumps(part): part for part in listed}  # a part may be a list
            merged[name] = sorted(unique.values(), key=_rank)
    return merged


def _rank(part: Any) -> tuple[str, Any]:
    orderly = isinstance(part, (int, float, str))
    return str(type(part)), part if orderly else json.dumps(part)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
