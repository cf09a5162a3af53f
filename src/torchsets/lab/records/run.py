"""Read a run folder back: typed, and checked at one door."""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchsets.lab.figures import Figure, from_record
from torchsets.lab.records.files import read_json, read_lines
from torchsets.lab.records.repair import can_start_in
from torchsets.lab.typed import Json, from_json, is_number


@dataclass(frozen=True)
class Cell:
    """One number of a table, named as the thesis names its row and column."""

    table: str
    model: str
    column: str
    seed: int | None
    value: float | None  # None: nan or infinite


@dataclass(frozen=True)
class Task:
    """A training that has ended, and how much of its time its data took."""

    steps: int
    seconds: float
    parameters: int
    data_seconds: float | None = None


@dataclass(frozen=True)
class Description:
    """What a table that the thesis does not have shows."""

    caption: str
    unit: str
    better: str | None = None


@dataclass(frozen=True)
class Hardware:
    """The machine of a run."""

    device: str
    processor: str | None = None
    cores: int | None = None
    threads: str | None = None
    processes: int = 1


@dataclass(frozen=True)
class Environment:
    """What a run was made with."""

    started: str
    command: str
    versions: dict[str, str | None]
    hardware: dict[str, Json]
    commit: str | None = None
    uncommitted_changes: bool | None = None
    code: str | None = None
    load: float | None = None

    @property
    def machine(self) -> Hardware:
        return from_json(Hardware, self.hardware, "hardware", strict=False)


@dataclass(frozen=True)
class RecordedFigure:
    """A figure with its texts; ``alt`` is for those who cannot see it."""

    title: str
    caption: str
    alt: str
    figure: Figure


@dataclass(frozen=True)
class Run:
    """A run folder as read back: everything that a report needs.

    ``tables`` are the keys of the thesis' tables that the run should fill; ``descriptions`` are
    those of its own tables. ``metrics`` are the lines of the learning curves, each with ``task``
    and ``step``. ``shards`` says of how many run folders it was put together.
    """

    folder: Path
    experiment: str
    scale: str
    config: dict[str, Json]
    tables: Sequence[str]
    environments: Sequence[Environment]
    metrics: Sequence[Mapping[str, Json]]
    complete: bool
    tasks: Mapping[str, Task]
    descriptions: Mapping[str, Description]
    cells: Sequence[Cell]
    figures: Mapping[str, RecordedFigure]
    shards: int = 1

    @property
    def seed(self) -> int | None:
        seed = self.config.get("seed")
        return seed if isinstance(seed, int) else None


@dataclass(frozen=True)
class Config:
    """The content of ``config.json``."""

    experiment: str
    scale: str
    tables: tuple[str, ...]
    config: dict[str, Json]


@dataclass(frozen=True)
class Result:
    """The content of ``result.json``."""

    complete: bool = False
    tasks: dict[str, Task] = field(default_factory=dict)
    tables: dict[str, Description] = field(default_factory=dict)
    results: tuple[Cell, ...] = ()
    data: dict[str, str] = field(default_factory=dict)


def read_run(folder: str | Path) -> Run:
    """Read a run folder; raise ``ValueError`` that names the file if one is not as it should be."""
    folder = Path(folder)
    described = read_config(folder)
    result = read_result(folder)
    figures = sorted(folder.glob("figures/*.json"))
    return Run(
        folder=folder,
        experiment=described.experiment,
        scale=described.scale,
        config=described.config,
        tables=described.tables,
        environments=read_environments(folder),
        metrics=read_metrics(folder),
        complete=result.complete,
        tasks=result.tasks,
        descriptions=result.tables,
        cells=result.results,
        figures={path.stem: _read_figure(path) for path in figures},
    )


def read_runs(paths: Sequence[str | Path]) -> list[Run]:
    """Read all run folders below the paths; one that cannot be read is a warning that names it."""
    runs = []
    for folder in find_runs(paths):
        try:
            runs.append(read_run(folder))
        except (ValueError, OSError) as error:
            warnings.warn(f"{folder} is left out: {error}", stacklevel=2)
    return runs


def read_config(folder: str | Path) -> Config:
    """Read the ``config.json`` of a run folder: experiment, scale, tables and config."""
    folder = Path(folder)
    path = folder / "config.json"
    if not path.is_file():
        begun = folder.is_dir() and any(folder.iterdir()) and can_start_in(folder)
        remedy = "; it was stopped before it began: start it again" if begun else ""
        raise ValueError(f"folder must be a run folder with a config.json, got {folder}{remedy}")
    return from_json(Config, read_json(path), str(path), strict=False)


def read_result(folder: Path) -> Result:
    """Read ``result.json``."""
    path = folder / "result.json"
    return from_json(Result, read_json(path), str(path), strict=False)


def read_environments(folder: Path) -> list[Environment]:
    """Read ``environment.json``, and one more for each resume, in their order."""
    numbered = [
        (int(match[1]), path)
        for path in folder.glob("environment-*.json")
        if (match := re.fullmatch(r"environment-(\d+)\.json", path.name))
    ]
    paths = [folder / "environment.json", *(path for _, path in sorted(numbered))]
    return [_read_environment(path) for path in paths]


def read_metrics(folder: Path) -> list[dict[str, Json]]:
    """Read the lines of the learning curves."""
    path = folder / "metrics.jsonl"
    lines = read_lines(path)
    for number, line in enumerate(lines, 1):
        values = [value for name, value in line.items() if name not in ("task", "step")]
        numbers = all(value is None or is_number(value) for value in values)
        step = line.get("step")
        counted = type(step) is int and is_number(step)
        if type(line.get("task")) is not str or not counted or not numbers:
            raise ValueError(f"{path} must have task, step and numbers in line {number}")
    return lines


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """List the run folders at or anywhere below the given paths, links included, sorted."""
    for path in paths:
        if not Path(path).is_dir():
            raise ValueError(f"path must be a folder, got {path}")
    found, seen = set(), set()
    for path in paths:
        for folder, folders, files in os.walk(path, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:  # a link to what was seen, or to a folder around it
                folders.clear()
                continue
            seen.add(real)
            if "config.json" in files:
                found.add(Path(folder))
                folders.clear()  # what is in there may vanish while the run writes it
    return sorted(found)


def _read_environment(path: Path) -> Environment:
    content = read_json(path)
    from_json(Hardware, content.get("hardware"), f"{path}: hardware", strict=False)
    return from_json(Environment, content, str(path), strict=False)


def _read_figure(path: Path) -> RecordedFigure:
    content = read_json(path)
    texts = {name: content.get(name) for name in ("title", "caption", "alt")}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{path} must have a text {name}, got {text!r}")
    figure = from_record(content.get("kind"), content.get("data"), str(path))
    return RecordedFigure(**texts, figure=figure)  # type: ignore[arg-type]  # checked above
