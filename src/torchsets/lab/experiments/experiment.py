"""How an experiment describes itself: configuration, scales, tables, data. Needs no torch."""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from torchsets._catalogue import DATASETS, Dataset
from torchsets.lab.records import Cell, Recorder, Run
from torchsets.lab.typed import Json

Config = TypeVar("Config")
SCALES = ("smoke", "cpu", "full")  # an experiment may also have the scale demo


@dataclass(frozen=True)
class Table:
    """A table that ``torchsets reproduce KEY`` fills.

    Attributes:
        key: A key of the thesis' tables; or the first part of the keys of our own.
        takes: How long each scale takes on two cores, with one seed.
        seeds: How many seeds a scale has if nobody says; 1 where nothing is written.
        fixed: Fields that must have the thesis' values, which are the defaults, or those of the
            run's scale, for a number to stand beside the thesis'. Other numbers go to a table of
            variants. A scale may shrink a run, but not exchange its ``dataset``, and the numbers
            of the demo always are variants.
        merge: For columns whose number is not of one shard alone: ``min`` or ``max`` over them.
        thesis: Whether the thesis, or a paper that is named beside its numbers, has it.
        derive: Where a function is, as ``module:function``, that makes further cells from the runs
            of all seeds, such as a test of differences. Empty: there are none.
    """

    key: str
    takes: Mapping[str, str]
    seeds: Mapping[str, int] = field(default_factory=dict)
    fixed: tuple[str, ...] = ()
    merge: Mapping[str, str] = field(default_factory=dict)
    thesis: bool = True
    derive: str = ""

    def derived(self, runs: Sequence[Run]) -> list[Cell]:
        """Numbers that no single run has."""
        return list(_load(self.derive)(runs)) if self.derive else []

    def shows(self, key: str) -> bool:
        """Whether a table of results belongs to it."""
        return key == self.key or key.startswith(f"{self.key}/")


@dataclass(frozen=True)
class Experiment(Generic[Config]):
    """What an experiment is; what it does is the function that ``run`` names.

    Attributes:
        name: As in ``torchsets run NAME``.
        summary: One line.
        config: A frozen dataclass whose defaults are the thesis' settings, or ours where it has
            none; its docstring explains every field.
        scales: For each scale the fields that differ from the defaults.
        run: Where ``run(config, recorder)`` is, as ``module:function``.
        tables: What it fills.
        split: A table's key and a configuration to independent ones, by the name of the shard,
            the longest first. None: there is one shard.
        data: Names of the datasets that it may need. A configuration with a field ``dataset``
            needs the one that it names, or if that is "published" those of its field ``datasets``;
            others need those of their field ``datasets``, or all, except at scale smoke.
    """

    name: str
    summary: str
    config: type[Config]
    scales: Mapping[str, Mapping[str, Json]]
    run: str
    tables: tuple[Table, ...] = ()
    split: Callable[[str, Config], dict[str, Config]] | None = None
    data: tuple[str, ...] = ()

    def config_at(self, scale: str, **changes: Any) -> Config:
        """Return the configuration of a scale, with some fields changed."""
        if scale not in self.scales:
            raise ValueError(f"{self.name} has no scale {scale!r}, only {', '.join(self.scales)}")
        config = self.config(**{**self.scales[scale], **changes})
        check_seed(getattr(config, "seed", 0))
        return config

    def load(self) -> Callable[[Config, Recorder], None]:
        """Import the function that runs it."""
        loaded: Callable[[Config, Recorder], None] = _load(self.run)
        return loaded

    def datasets(self, config: Mapping[str, Json], scale: str) -> list[Dataset]:
        """The datasets on disk that the fields of a configuration need."""
        chosen = config.get("dataset")
        if chosen == "published":
            names = config["datasets"]
        else:
            several = config.get("datasets", self.data) if scale != "smoke" else ()
            names = [chosen] if chosen is not None else several
        return [DATASETS[name] for name in self.data if name in names]

    def variants(self, config: Config, scale: str) -> dict[str, str]:
        """Say for each table that a configuration may not fill how it differs from the thesis'."""
        labels = {}
        at_scale = {**self.scales[scale]} if scale in SCALES else {}
        at_scale.pop("dataset", None)
        declared = fields(self.config)  # type: ignore[arg-type]  # it is a dataclass
        defaults = {one.name: one.default for one in declared}
        for table in self.tables:
            differing = [
                f"{name}={_without_folders(format_value(getattr(config, name)))}"
                for name in table.fixed
                if getattr(config, name) not in (defaults[name], at_scale.get(name, defaults[name]))
            ]
            if differing:
                labels[table.key] = ", ".join(differing)
        return labels


def format_value(value: object) -> str:
    """Write a value of a field as ``field=value`` takes it.

    Example:
        >>> format_value((2, 4)), format_value(None)
        ('2,4', 'none')
    """
    if isinstance(value, tuple):
        return ",".join(map(format_value, value))
    return "none" if value is None else str(value)


def check_names(field_name: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raise ``ValueError`` if a field holds a name that is not known."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"{field_name} must be among {', '.join(known)}, got {', '.join(unknown)}")


def check_some(config: object, *names: str) -> None:
    """Raise ``ValueError`` if a field with a list holds nothing."""
    for name in names:
        if not getattr(config, name):
            raise ValueError(f"{name} must have at least one entry, got none")


def check_at_least(least: float, config: object, *names: str) -> None:
    """Raise ``ValueError`` if a field holds a number below ``least``; None is left alone."""
    for name in names:
        value = getattr(config, name)
        if any(one is not None and one < least for one in _each(value)):
            raise ValueError(f"{name} must be at least {least:g}, got {format_value(value)}")


def check_seed(seed: int) -> None:
    """Raise ``ValueError`` for a seed that numpy or torch would not take."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be from 0 to {2**32 - 1}, got {seed}")


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known name that is spelt most like a given one."""
    return difflib.get_close_matches(name, known, n=1, cutoff=0)[0]


def _load(place: str) -> Any:
    """Import the function at ``module:function``."""
    module, _, function = place.partition(":")
    return getattr(import_module(module), function)


def _without_folders(text: str) -> str:
    """A path by its last part: where it lies differs from machine to machine."""
    return PurePath(text).name or text


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
