"""Write and read a run folder: what was run, how it went, what came out. Needs no torch.

A run folder holds ``config.json``, ``environment.json`` (one more for each resume),
``metrics.jsonl``, ``result.json``, ``figures/NAME.json`` and ``checkpoint/``. Whole files are
replaced in one step, so a reader or a crash sees the old file or the new one, never half of one.
One process writes at a time; while it does, ``.lock`` names it.
"""

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchsets.lab.records.environment import describe_environment
from torchsets.lab.records.files import (
    append_line,
    damage,
    drop_unfinished_line,
    explained,
    finite,
    read_json,
    read_lines,
    sync,
    write_atomically,
    write_json,
)
from torchsets.lab.records.lock import LOCK_FILE, FolderLock

__all__ = [
    "Recorder",
    "Run",
    "can_start_in",
    "describe_environment",
    "find_runs",
    "read_config",
    "read_json",
    "read_run",
    "write_atomically",
    "write_json",
]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.=+-]*")
_BEGINNING = re.compile(  # what a start leaves that was killed before its end
    r"\.lock|(environment|result)\.json|(environment|result|config)\.json\.\d+\.writing"
)


@dataclass(frozen=True)
class Run:
    """A run folder as read back: everything that a report needs."""

    folder: Path
    experiment: str
    scale: str
    config: dict[str, Any]
    tables: list[str]
    environments: list[dict[str, Any]]
    metrics: list[dict[str, Any]]
    result: dict[str, Any]
    figures: dict[str, dict[str, Any]]

    @property
    def seed(self) -> int | None:
        seed = self.config.get("seed")
        return seed if isinstance(seed, int) else None


class Recorder:
    """Writes one run folder. Make one with :meth:`start` or :meth:`resume`.

    It is the only writer until it is finished or its process ends: another process gets an error
    that names this one. In the same process a newer recorder takes the folder over.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> recorder = Recorder.start(folder, experiment="toy", scale="smoke", config={"seed": 1})
        >>> recorder.add_metrics("fspool", 10, {"loss": 0.5})
        >>> recorder.add_result("fspool/mnist", model="FSPool", column="accuracy", value=99.0)
        >>> recorder.finish()
        >>> run = read_run(folder)
        >>> run.result["results"][0]["value"], run.result["complete"]
        (99.0, True)
    """

    def __init__(
        self,
        folder: Path,
        experiment: str,
        config: Mapping[str, Any],
        result: dict[str, Any],
        lock: FolderLock | None,
    ) -> None:
        self.folder = folder
        self.experiment = experiment
        self.config: dict[str, Any] = json.loads(json.dumps(finite(config)))  # as it is read back
        self._result = result
        self._lock = lock  # None: writes nothing

    @classmethod
    def start(
        cls,
        folder: str | Path,
        *,
        experiment: str,
        scale: str,
        config: Mapping[str, Any],
        tables: Sequence[str] = (),
        device: str = "cpu",
        code: str | None = None,
    ) -> "Recorder":
        """Make a new run folder; it must not exist yet, or be empty.

        ``tables`` are the keys of the thesis' tables that the run should fill: a report shows
        them even if the run never gets there. ``code`` is a digest of the experiment's sources.
        """
        folder = Path(folder)
        lock = _lock_new(folder)
        result = _empty_result()
        recorder = cls(folder, experiment, config, result, lock)
        described = {
            "experiment": experiment,
            "scale": scale,
            "tables": list(tables),
            "config": recorder.config,
        }
        write_json(folder / "environment.json", describe_environment(device, code))
        write_json(folder / "result.json", result)
        write_json(folder / "config.json", described)  # last: a folder with a config is a run
        return recorder

    @classmethod
    def resume(
        cls, folder: str | Path, *, device: str = "cpu", code: str | None = None
    ) -> "Recorder":
        """Go on writing into the folder of a run that was stopped.

        What a crash has left unfinished is removed. A broken ``result.json`` or figure is put
        aside with a warning: the run makes it again.
        """
        folder = Path(folder)
        read_config(folder)  # so that nothing is written into what is no run
        with explained(folder):
            lock = FolderLock(folder)
            _repair(folder)
        run = read_run(folder)
        again = 1 + len(run.environments)
        write_json(folder / f"environment-{again}.json", describe_environment(device, code))
        return cls(folder, run.experiment, run.config, {**run.result, "complete": False}, lock)

    @classmethod
    def silent(
        cls, folder: str | Path, *, experiment: str, config: Mapping[str, Any]
    ) -> "Recorder":
        """Return one that takes everything and writes nothing: of several processes one writes."""
        return cls(Path(folder), experiment, config, _empty_result(), lock=None)

    @property
    def tasks(self) -> dict[str, dict[str, Any]]:
        """What :meth:`add_task` has recorded so far, by task."""
        return dict(self._result["tasks"])

    def add_metrics(self, task: str, step: int, values: Mapping[str, float]) -> None:
        """Append one line of the learning curve of a task."""
        if not self._may_write():
            return
        line = json.dumps({"task": task, "step": step, **finite(dict(values))})
        append_line(self.folder / "metrics.jsonl", line)

    def rewind(self, task: str, step: int) -> None:
        """Forget what a task recorded after ``step``: it goes on from there."""
        if not self._may_write():
            return
        path = self.folder / "metrics.jsonl"
        lines = read_lines(path)
        kept = [line for line in lines if line["task"] != task or line["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)

    def sync(self) -> None:
        """Bring the learning curves to the disk: a checkpoint must not outlive their lines."""
        path = self.folder / "metrics.jsonl"
        if self._may_write() and path.exists():
            with explained(path):
                sync(path)

    def add_task(
        self,
        task: str,
        *,
        steps: int,
        seconds: float,
        parameters: int,
        data_seconds: float | None = None,
    ) -> None:
        """Record that a task has been trained, how long it took, and how much of that its data."""
        about = {"steps": steps, "seconds": round(seconds, 3), "parameters": parameters}
        if data_seconds is not None:
            about["data_seconds"] = round(data_seconds, 3)
        self._result["tasks"][task] = about
        self._write_result()

    def add_table(self, key: str, *, caption: str, unit: str, better: str | None = None) -> None:
        """Describe a table of results that the thesis does not have."""
        self._result["tables"][key] = {"caption": caption, "unit": unit, "better": better}
        self._write_result()

    def add_data(self, name: str, digest: str) -> None:
        """Record which data the run uses; a resumed run must have the same.

        Raises:
            ValueError: If the run began with other data of that name. Nothing is lost.
        """
        known = self._result.setdefault("data", {}).setdefault(name, digest)
        if known != digest:
            raise ValueError(
                f"{name} must be the data that the run in {self.folder} began with, got other data "
                f"({digest} instead of {known}): its files have changed; put them back and go on, "
                "or start a new run"
            )
        self._write_result()

    def add_result(
        self, table: str, *, model: str, column: str, value: float, seed: int | None = None
    ) -> None:
        """Record one number: a cell of a table, named as the thesis names it.

        The same cell recorded again, as a resumed run does, replaces the earlier one.
        """
        seed = self.config.get("seed") if seed is None else seed
        cell = {"table": table, "model": model, "column": column, "seed": seed}
        results = [
            result
            for result in self._result["results"]
            if any(result[key] != wanted for key, wanted in cell.items())
        ]
        self._result["results"] = [*results, {**cell, "value": value}]
        self._write_result()

    def add_figure(
        self, name: str, *, kind: str, title: str, caption: str, alt: str, data: Mapping[str, Any]
    ) -> None:
        """Record a figure as data; ``torchsets.lab.reports`` draws it (see its kinds)."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"name must be letters, digits and -_.=+, got {name!r}")
        if not self._may_write():
            return
        texts = {"kind": kind, "title": title, "caption": caption, "alt": alt}
        path = self.folder / "figures" / f"{name}.json"
        with explained(path):
            path.parent.mkdir(exist_ok=True)
        write_json(path, {**texts, "data": data}, indent=None)

    def finish(self) -> None:
        """Mark the run as complete and let go of its folder."""
        self._result["complete"] = True
        self._write_result()
        if self._lock is not None:
            self._lock.release()

    def _write_result(self) -> None:
        if self._may_write():
            write_json(self.folder / "result.json", self._result)

    def _may_write(self) -> bool:
        if self._lock is not None and not self._lock.held:
            raise ValueError(
                f"recorder must hold its folder, got one that has let go of {self.folder}: it is "
                "finished, or a newer one took over, or it was made in another process"
            )
        return self._lock is not None


def read_run(folder: str | Path) -> Run:
    """Read a run folder; raise ``ValueError`` if it is none, or of a newer schema."""
    folder = Path(folder)
    described = read_config(folder)
    return Run(
        folder=folder,
        experiment=described["experiment"],
        scale=described["scale"],
        config=described["config"],
        tables=described["tables"],
        environments=[read_json(path) for path in _environment_files(folder)],
        metrics=read_lines(folder / "metrics.jsonl"),
        result=read_json(folder / "result.json"),
        figures={path.stem: read_json(path) for path in sorted(folder.glob("figures/*.json"))},
    )


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read the ``config.json`` of a run folder: experiment, scale, tables and config."""
    folder = Path(folder)
    path = folder / "config.json"
    if not path.is_file():
        begun = folder.is_dir() and any(folder.iterdir()) and can_start_in(folder)
        remedy = "; it was stopped before it began: start it again" if begun else ""
        raise ValueError(f"folder must be a run folder with a config.json, got {folder}{remedy}")
    described = read_json(path)
    missing = {"experiment", "scale", "tables", "config"} - set(described)
    if missing:
        raise ValueError(f"{path} must have all its entries, got none for {min(missing)}")
    return described


def can_start_in(folder: Path) -> bool:
    """Whether there is nothing in a folder, or only what a start that was killed has left."""
    return not folder.exists() or all(
        _BEGINNING.fullmatch(path.name) and (path.suffix != ".json" or damage(path) is None)
        for path in folder.iterdir()
    )


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """List the run folders at or anywhere below the given paths, sorted by name."""
    for path in paths:
        if not Path(path).is_dir():
            raise ValueError(f"path must be a folder, got {path}")
    found = set()
    for path in paths:
        for folder, folders, files in os.walk(path):
            if "config.json" in files:
                found.add(Path(folder))
                folders.clear()  # what is in there may vanish while the run writes it
    return sorted(found)


def _lock_new(folder: Path) -> FolderLock:
    """Make the folder, and lock it if there is nothing in it."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = None
        if (folder / LOCK_FILE).exists() or can_start_in(folder):
            lock = FolderLock(folder)  # first, so that the error names who is writing here
        if lock is None or not can_start_in(folder):
            raise ValueError(f"folder must be new or empty, got {folder}; go on with --resume")
    return lock


def _repair(folder: Path) -> None:
    """Remove what a crash left half written, and put broken files aside that are made again."""
    drop_unfinished_line(folder / "metrics.jsonl")
    for leftover in (*folder.glob("*.writing"), *folder.glob("figures/*.writing")):
        leftover.unlink()
    for path in (folder / "result.json", *sorted(folder.glob("figures/*.json"))):
        broken = damage(path)
        if broken is not None:
            warnings.warn(f"{path} is broken ({broken}); it is made again", stacklevel=3)
            if path.exists():
                os.replace(path, path.with_name(path.name + ".broken"))
    if not (folder / "result.json").exists():
        write_json(folder / "result.json", _empty_result())


def _empty_result() -> dict[str, Any]:
    return {"complete": False, "tasks": {}, "tables": {}, "results": []}


def _environment_files(folder: Path) -> list[Path]:
    found = [
        (int(match[1]), path)
        for path in folder.glob("environment-*.json")
        if (match := re.fullmatch(r"environment-(\d+)\.json", path.name))
    ]
    return [folder / "environment.json", *(path for _, path in sorted(found))]
