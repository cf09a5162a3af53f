"""Write a run folder."""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from torchsets.lab.figures import Figure, kind_of, to_record
from torchsets.lab.records.environment import describe_environment
from torchsets.lab.records.files import (
    append_line,
    explained,
    finite,
    sync,
    write_atomically,
    write_json,
)
from torchsets.lab.records.lock import FolderLock
from torchsets.lab.records.repair import lock_new_folder, repair
from torchsets.lab.records.run import (
    Cell,
    Description,
    Result,
    Task,
    read_config,
    read_environments,
    read_metrics,
    read_result,
)
from torchsets.lab.typed import Json

VARIANTS = "variants"  # last part of the key of a table that takes other settings than the thesis'
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.=+-]*")


class Recorder:
    """Writes one run folder. Make one with :meth:`start` or :meth:`resume`.

    It is the only writer until it is finished, closed (``with`` does) or collected, or its process
    ends.

    Example:
        >>> import tempfile
        >>> from torchsets.lab.records import read_run
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> recorder = Recorder.start(folder, experiment="toy", scale="smoke", config={"seed": 1})
        >>> recorder.add_metrics("fspool", 10, {"loss": 0.5})
        >>> recorder.add_result("fspool/mnist", model="FSPool", column="accuracy", value=99.0)
        >>> recorder.finish()
        >>> run = read_run(folder)
        >>> run.cells[0].value, run.complete
        (99.0, True)
    """

    def __init__(
        self,
        folder: Path,
        experiment: str,
        config: Mapping[str, Json],
        result: Result,
        lock: FolderLock | None,
        variants: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.experiment = experiment
        self.config: dict[str, Json] = json.loads(json.dumps(finite(config)))  # as it is read back
        self._lock = lock  # None: writes nothing
        self._variants = variants
        self._tasks, self._tables, self._data = dict(result.tasks), dict(result.tables), result.data
        self._cells = {_place(cell): cell for cell in result.results}
        self._metrics: list[dict[str, Json]] = []

    @classmethod
    def start(
        cls,
        folder: str | Path,
        *,
        experiment: str,
        scale: str,
        config: Mapping[str, Json],
        tables: Sequence[str] = (),
        variants: Mapping[str, str] | None = None,
        device: str = "cpu",
        code: str | None = None,
    ) -> "Recorder":
        """Make a new run folder; it must not exist yet, or be empty.

        Args:
            folder: Where.
            experiment: Its name.
            scale: The scale that the configuration started from.
            config: All fields.
            tables: Keys of the thesis' tables that the run should fill: a report shows them even
                if the run never gets there.
            variants: For tables that this configuration may not fill, how it differs from the
                thesis': its numbers go to a table of variants, and their rows say that.
            device: What it runs on.
            code: A digest of the experiment's sources.
        """
        folder = Path(folder)
        lock = lock_new_folder(folder)
        recorder = cls(folder, experiment, config, Result(), lock, variants or {})
        described = {
            "experiment": experiment,
            "scale": scale,
            "tables": list(tables),
            "config": recorder.config,
        }
        with _closed_by_an_error(lock):
            write_json(folder / "environment.json", describe_environment(device, code))
            recorder._write_result()
            write_json(folder / "config.json", described)  # last: a folder with a config is a run
        return recorder

    @classmethod
    def resume(
        cls,
        folder: str | Path,
        *,
        variants: Mapping[str, str] | None = None,
        device: str = "cpu",
        code: str | None = None,
    ) -> "Recorder":
        """Continue the folder of a run that was stopped.

        What a crash has left unfinished is removed. A broken ``result.json`` or figure is moved
        aside with a warning: the run recreates it.
        """
        folder = Path(folder)
        described = read_config(folder)  # so that nothing is written into what is no run
        with explained(folder):
            lock = FolderLock(folder)
        with _closed_by_an_error(lock):
            with explained(folder):
                repair(folder)
            again = 1 + len(read_environments(folder))
            result = read_result(folder)
            recorder = cls(
                folder, described.experiment, described.config, result, lock, variants or {}
            )
            recorder._metrics = read_metrics(folder)
            write_json(folder / f"environment-{again}.json", describe_environment(device, code))
        return recorder

    @classmethod
    def silent(cls, folder: str | Path) -> "Recorder":
        """Return one that takes everything and writes nothing: of several processes one writes."""
        return cls(Path(folder), "", {}, Result(), None, {})

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def tasks(self) -> dict[str, Task]:
        """What :meth:`add_task` has recorded so far, by task."""
        return dict(self._tasks)

    def lines(self, task: str) -> list[dict[str, Json]]:
        """What :meth:`add_metrics` has recorded so far of a task."""
        return [line for line in self._metrics if line["task"] == task]

    def add_metrics(self, task: str, step: int, values: Mapping[str, float]) -> None:
        """Append one line of the learning curve of a task."""
        line = {"task": task, "step": step, **finite(dict(values))}
        if self._may_write():
            append_line(self.folder / "metrics.jsonl", json.dumps(line))
        self._metrics.append(line)

    def rewind(self, task: str, step: int) -> None:
        """Forget what a task recorded after ``step``, from which it continues."""
        kept = [line for line in self._metrics if line["task"] != task or line["step"] <= step]
        if len(kept) < len(self._metrics) and self._may_write():
            text = "".join(json.dumps(line) + "\n" for line in kept)
            write_atomically(self.folder / "metrics.jsonl", text)
        self._metrics = kept

    def sync(self) -> None:
        """Flush the learning curves to disk: a checkpoint must not outlive their lines."""
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
        data = None if data_seconds is None else round(data_seconds, 3)
        self._tasks[task] = Task(steps, round(seconds, 3), parameters, data)
        self._write_result()

    def add_table(self, key: str, *, caption: str, unit: str, better: str | None = None) -> None:
        """Describe a table of results that the thesis does not have."""
        described = Description(caption, unit, better)
        if self._tables.get(key) != described:
            self._tables[key] = described
            self._write_result()

    def add_data(self, name: str, digest: str) -> None:
        """Record which data the run uses; a resumed run must have the same.

        Raises:
            ValueError: If the run began with other data of that name. Nothing is lost.
        """
        known = self._data.setdefault(name, digest)
        if known != digest:
            raise ValueError(
                f"the data for {name} changed since run {self.folder} started ({digest} instead of "
                f"{known}): restore its files and resume, or start a new run"
            )
        self._write_result()

    def add_result(
        self, table: str, *, model: str, column: str, value: float, seed: int | None = None
    ) -> None:
        """Record one number: a cell of a table, named as the thesis names it.

        The same cell recorded again, as a resumed run does, replaces the earlier one.
        """
        self.add_results([Cell(table, model, column, seed, value)])

    def add_results(self, cells: Iterable[Cell]) -> None:
        """Record many numbers at once; a cell without a seed has that of the configuration."""
        for cell in cells:
            if cell.seed is None:
                cell = dataclasses.replace(cell, seed=self.config.get("seed"))
            label = self._variants.get(cell.table)
            if label:
                cell = dataclasses.replace(
                    cell, table=f"{cell.table}/{VARIANTS}", model=f"{cell.model}, {label}"
                )
            self._cells.pop(_place(cell), None)  # a cell recorded again goes to the end
            self._cells[_place(cell)] = cell
        self._write_result()

    def add_figure(self, name: str, figure: Figure, *, title: str, caption: str, alt: str) -> None:
        """Record a figure as data; ``torchsets.lab.reports`` draws it."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"name must be letters, digits and -_.=+, got {name!r}")
        if not self._may_write():
            return
        texts = {"kind": kind_of(figure), "title": title, "caption": caption, "alt": alt}
        path = self.folder / "figures" / f"{name}.json"
        with explained(path):
            path.parent.mkdir(exist_ok=True)
        write_json(path, {**texts, "data": to_record(figure)}, indent=None)

    def finish(self) -> None:
        """Mark the run as complete and release its folder."""
        self._write_result(complete=True)
        self.close()

    def close(self) -> None:
        """Release the folder as it is; the run can be resumed."""
        if self._lock is not None:
            self._lock.release()

    def _write_result(self, *, complete: bool = False) -> None:
        if self._may_write():
            cells = tuple(self._cells.values())
            result = Result(complete, self._tasks, self._tables, cells, self._data)
            write_json(self.folder / "result.json", dataclasses.asdict(result))

    def _may_write(self) -> bool:
        if self._lock is not None and not self._lock.held:
            raise ValueError(
                f"this recorder no longer owns {self.folder}: it is finished or closed"
            )
        return self._lock is not None


@contextmanager
def _closed_by_an_error(lock: FolderLock) -> Iterator[None]:
    try:
        yield
    except BaseException:
        lock.release()  # the error's traceback would hold it
        raise


def _place(cell: Cell) -> tuple[str, str, str, int | None]:
    return cell.table, cell.model, cell.column, cell.seed
