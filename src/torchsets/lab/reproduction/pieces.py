"""What a table is made of: independent pieces, each an ordinary run."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from torchsets.lab.experiments import load_experiment
from torchsets.lab.experiments.tables import Redrawn
from torchsets.lab.experiments.values import config_from_words


@dataclass(frozen=True)
class Piece:
    """One run of a table.

    Attributes:
        name: Short, from the fields that make it different from its neighbours.
        experiment: As in ``torchsets run``.
        scale: The scale it starts from.
        words: The fields that differ from the scale, as ``torchsets run`` takes them.
        config: All fields, as ``config.json`` holds them.
    """

    name: str
    experiment: str
    scale: str
    words: list[str]
    config: dict[str, Any]


def plan_pieces(
    table: Redrawn, words: Sequence[str], scale: str, seeds: Sequence[int] | None
) -> list[Piece]:
    """Split a table's experiment at a scale, for each seed; imports the experiment and torch."""
    experiment = load_experiment(table.experiment)
    start = experiment.Config(**experiment.SCALES[scale])
    whole = config_from_words(table.experiment, words, scale)
    if seeds is None:
        seeds = range(whole.seed, whole.seed + table.seeds.get(scale, 1))
    parts = experiment.pieces(table.key, whole)
    if not parts:
        raise ValueError(
            f"scale and fields must leave something of {table.key} to run, got scale {scale}"
            + "".join(f", {word}" for word in words)
        )
    names = _names(start, parts, experiment.pieces(table.key, experiment.Config()))
    pieces = []
    for name, part in zip(names, parts, strict=True):
        for seed in dict.fromkeys(seeds):
            config = replace(part, seed=seed)
            changed = _words(start, config)
            if config_from_words(table.experiment, changed, scale) != config:
                raise ValueError(f"a piece must be told by words, got {changed} for {config}")
            recorded = json.loads(json.dumps(asdict(config)))
            named = ",".join([*name, f"seed={seed}"]).replace("/", "_")  # it names a folder
            pieces.append(Piece(named, table.experiment, scale, changed, recorded))
    return pieces


def plan_elsewhere(
    table: Redrawn, words: Sequence[str], scale: str, seeds: Sequence[int] | None
) -> list[Piece]:
    """The same in a process of its own: the one that watches the pieces needs no torch."""
    chosen = [] if seeds is None else ["--seeds", *map(str, seeds)]
    command = ["reproduce", table.key, *words, "--scale", scale, *chosen, "--plan"]
    done = subprocess.run(
        [sys.executable, "-m", "torchsets", *command], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.strip().removeprefix("error: "))
    return [Piece(**json.loads(line)) for line in done.stdout.splitlines()]


def _names(start: Any, parts: Sequence[Any], examples: Sequence[Any]) -> list[list[str]]:
    """Say what is special of each part: single values not of the scale, then what tells them apart.

    Fields are added in the order of the ``Config`` until no two parts, nor two of the examples,
    which are the parts of the thesis' setting, have the same name.
    """
    names: list[list[str]] = [[] for _ in parts]
    example_names: list[list[str]] = [[] for _ in examples]
    for field in fields(start):
        apart = all(len(set(map(tuple, some))) == len(some) for some in (names, example_names))
        values = [getattr(part, field.name) for part in parts]
        example_values = [getattr(part, field.name) for part in examples]
        varies = len(set(values)) > 1 or len(set(example_values)) > 1
        special = values[0] != getattr(start, field.name) and not isinstance(values[0], tuple)
        if field.name in ("seed", "device") or not (special or (varies and not apart)):
            continue
        for name, value in zip(names + example_names, values + example_values, strict=True):
            if value != ():
                name.append(_word(field.name, value))
    return names


def _words(start: Any, config: Any) -> list[str]:
    names = [field.name for field in fields(start)]
    return [
        _word(name, getattr(config, name))
        for name in names
        if getattr(config, name) != getattr(start, name)
    ]


def _word(name: str, value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"{name}={text}"
