"""Run an experiment in one call, or continue a run that was stopped."""

import dataclasses
import itertools
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from torchsets.lab.experiments import find_experiment
from torchsets.lab.experiments.digest import code_digest
from torchsets.lab.experiments.experiment import Experiment
from torchsets.lab.experiments.values import config_from_json
from torchsets.lab.records import Recorder, Run, read_config, read_run
from torchsets.lab.training import (
    join_processes,
    keep_freed_memory,
    on_first,
    pick_device,
    use_one_thread,
    wait_for_all,
)


def run_experiment(
    name: str, config: Any = None, *, scale: str = "cpu", folder: str | Path | None = None
) -> Run:
    """Run an experiment and return its record.

    Args:
        name: As in ``torchsets list``.
        config: Of the experiment's class. None: that of the scale.
        scale: What the configuration started from.
        folder: The run folder, new or empty. None: a new one in ``runs``.

    Example:
        >>> import tempfile
        >>> run = run_experiment("polygons", scale="smoke", folder=tempfile.mkdtemp())
        >>> run.complete
        True
    """
    experiment = find_experiment(name)
    chosen = experiment.config_at(scale) if config is None else config
    if not isinstance(chosen, experiment.config):
        raise TypeError(
            f"config must be a {experiment.config.__name__} of {experiment.config.__module__}, "
            f"got {type(chosen).__name__}"
        )
    place = new_folder(f"{name}-{scale}") if folder is None else Path(folder)
    return _run(
        experiment,
        chosen,
        lambda: Recorder.start(
            place,
            experiment=name,
            scale=scale,
            config=dataclasses.asdict(chosen),
            tables=[table.key for table in experiment.tables if table.thesis],
            variants=experiment.variants(chosen, scale),
            device=_device(chosen),
            code=code_digest(experiment.run),
        ),
    )


def resume_experiment(folder: str | Path) -> Run:
    """Continue a run that was stopped, and return its record."""
    found = read_config(folder)
    experiment = find_experiment(found.experiment)
    config = config_from_json(experiment, found.config, str(Path(folder) / "config.json"))
    return _run(
        experiment,
        config,
        lambda: Recorder.resume(
            folder,
            variants=experiment.variants(config, found.scale),
            device=_device(config),
            code=code_digest(experiment.run),
        ),
    )


def new_folder(name: str) -> Path:
    """Return a folder in ``runs`` that does not exist yet, named after the time."""
    stamped = f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    names = (stamped if count == 1 else f"{stamped}-{count}" for count in itertools.count(1))
    return next(folder for folder in map(Path("runs").joinpath, names) if not folder.exists())


def _run(experiment: Experiment[Any], config: Any, open_folder: Callable[[], Recorder]) -> Run:
    with join_processes():
        use_one_thread(pick_device(config.device))
        keep_freed_memory()
        recorder = _first_writes(open_folder)
        try:
            experiment.load()(config, recorder)
            recorder.finish()
            wait_for_all()  # all read what the first has written
        finally:
            recorder.close()
        return read_run(recorder.folder)


def _first_writes(open_folder: Callable[[], Recorder]) -> Recorder:
    """Open the run folder; all processes but the first get a recorder that writes nothing."""
    opened: list[Recorder] = []

    def open_and_name() -> Path:
        opened.append(open_folder())
        return opened[0].folder

    folder = on_first(open_and_name)
    return opened[0] if opened else Recorder.silent(folder)


def _device(config: Any) -> str:
    device = pick_device(config.device)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
