"""Write and read a run folder: what was run, how it went, what came out. Needs no torch.

A run folder holds ``config.json``, ``environment.json`` (one more for each resume),
``metrics.jsonl``, ``result.json``, ``figures/NAME.json`` and ``checkpoint/``. Whole files are
replaced in one step, so a reader or a crash sees the old file or the new one, never half of one.
"""

import json
import math
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
_PACKAGES = ("torchsets", "torch", "numpy", "scipy", "safetensors", "lapx", "scikit-learn")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.=+-]*")


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

    def __init__(self, folder: Path, experiment: str, config: dict[str, Any], result: Any) -> None:
        self.folder = folder
        self.experiment = experiment
        self.config = config
        self._result = result
        self._writes = True

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
        try:
            folder.mkdir(parents=True, exist_ok=True)
            occupied = any(folder.iterdir())
        except OSError as error:
            raise OSError(f"folder must be a place that can be written to, got {error}") from error
        if occupied:
            raise ValueError(f"folder must be new or empty, got {folder}; go on with --resume")
        result = {"complete": False, "tasks": {}, "tables": {}, "results": []}
        recorder = cls(folder, experiment, dict(config), result)
        described = {
            "experiment": experiment,
            "scale": scale,
            "tables": list(tables),
            "config": dict(config),
        }
        write_json(folder / "environment.json", describe_environment(device, code))
        write_json(folder / "result.json", result)
        write_json(folder / "config.json", described)  # last: a folder with a config is a run
        return recorder

    @classmethod
    def resume(
        cls, folder: str | Path, *, device: str = "cpu", code: str | None = None
    ) -> "Recorder":
        """Go on writing into the folder of a run that was stopped."""
        run = read_run(folder)
        again = 1 + len(run.environments)
        write_json(run.folder / f"environment-{again}.json", describe_environment(device, code))
        return cls(run.folder, run.experiment, run.config, {**run.result, "complete": False})

    @classmethod
    def silent(
        cls, folder: str | Path, *, experiment: str, config: Mapping[str, Any]
    ) -> "Recorder":
        """Return one that takes everything and writes nothing: of several processes one writes."""
        result = {"complete": False, "tasks": {}, "tables": {}, "results": []}
        recorder = cls(Path(folder), experiment, dict(config), result)
        recorder._writes = False
        return recorder

    def add_metrics(self, task: str, step: int, values: Mapping[str, float]) -> None:
        """Append one line of the learning curve of a task."""
        if not self._writes:
            return
        line = json.dumps({"task": task, "step": step, **_finite(dict(values))})
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def rewind(self, task: str, step: int) -> None:
        """Forget what a task recorded after ``step``: it goes on from there."""
        if not self._writes:
            return
        path = self.folder / "metrics.jsonl"
        lines = _read_lines(path)
        kept = [line for line in lines if line["task"] != task or line["step"] <= step]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)

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
        """Record a figure as data; ``torchsets.reports`` draws it (see its kinds)."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"name must be letters, digits and -_.=+, got {name!r}")
        if not self._writes:
            return
        texts = {"kind": kind, "title": title, "caption": caption, "alt": alt}
        (self.folder / "figures").mkdir(exist_ok=True)
        path = self.folder / "figures" / f"{name}.json"
        write_json(path, {**texts, "data": data}, indent=None)

    def finish(self) -> None:
        """Mark the run as complete."""
        self._result["complete"] = True
        self._write_result()

    def _write_result(self) -> None:
        if self._writes:
            write_json(self.folder / "result.json", self._result)


def read_run(folder: str | Path) -> Run:
    """Read a run folder; raise ``ValueError`` if it is none, or of a newer schema."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise ValueError(f"folder must be a run folder with a config.json, got {folder}")
    described = read_json(folder / "config.json")
    later = sorted(folder.glob("environment-*.json"), key=lambda path: int(path.stem[12:]))
    return Run(
        folder=folder,
        experiment=described["experiment"],
        scale=described["scale"],
        config=described["config"],
        tables=described["tables"],
        environments=[read_json(path) for path in (folder / "environment.json", *later)],
        metrics=_read_lines(folder / "metrics.jsonl"),
        result=read_json(folder / "result.json"),
        figures={path.stem: read_json(path) for path in sorted(folder.glob("figures/*.json"))},
    )


def find_runs(paths: Sequence[str | Path]) -> list[Path]:
    """List the run folders at or anywhere below the given paths, sorted by name."""
    for path in paths:
        if not Path(path).is_dir():
            raise ValueError(f"path must be a folder, got {path}")
    found = {config.parent for path in paths for config in Path(path).rglob("config.json")}
    return sorted(found)


def describe_environment(device: str, code: str | None = None) -> dict[str, Any]:
    """Say with what, on what and how a run was started."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["torchsets", *sys.argv[1:]]),
        **_git_state(),
        "code": code,
        "versions": {"python": platform.python_version(), **_package_versions()},
        "hardware": {
            "device": device,
            "machine": platform.machine(),
            "system": platform.system(),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS"),
        },
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def write_json(path: Path, content: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Replace a JSON file in one step, with the schema version in front."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **_finite(content)}, indent=indent)
    write_atomically(path, text + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run folder; raise ``ValueError`` if it is broken or too new."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        schema = content.pop("schema_version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} must be a JSON file of a run folder, got {error!r}") from error
    if schema > SCHEMA_VERSION:
        raise ValueError(
            f"{path} must have schema version {SCHEMA_VERSION} or less, got {schema}: "
            "it was written by a newer torchsets"
        )
    return dict(content)


def write_atomically(path: Path, text: str) -> None:
    """Write a neighbouring file, bring it to the disk, and put it in the place of ``path``."""
    temporary = path.with_name(path.name + ".writing")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _finite(content: Any) -> Any:
    """JSON knows no nan and no infinity: they become null, and a report shows them as missing."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(value) for value in content]
    return content


def _read_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    # A line without its end was cut off by a crash.
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _package_versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def _git_state() -> dict[str, Any]:
    """The commit of the checkout that the package is imported from, if it is from one."""
    source = Path(__file__).resolve().parent
    try:
        root = _git(source, "rev-parse", "--show-toplevel")
        if Path(root) / "src" / "torchsets" != source:
            return {"commit": None, "uncommitted_changes": None}
        changes = _git(source, "status", "--porcelain", "--", str(source))
        return {"commit": _git(source, "rev-parse", "HEAD"), "uncommitted_changes": bool(changes)}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "uncommitted_changes": None}


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str | None:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or None
    match = re.search(r"model name\s*:\s*(.+)", text)
    return match.group(1) if match else platform.processor() or None
