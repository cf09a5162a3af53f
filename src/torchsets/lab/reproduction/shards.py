"""What a table is made of: independent shards, each an ordinary run."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchsets.lab.experiments import Experiment, Table
from torchsets.lab.experiments.experiment import check_seed
from torchsets.lab.experiments.values import config_from_overrides, config_to_json
from torchsets.lab.typed import Json


@dataclass(frozen=True)
class Shard:
    """One run of a table.

    Attributes:
        name: Of the shard and its seed; it names the folder.
        experiment: As in ``torchsets run``.
        scale: The scale it starts from.
        config: All fields, as ``config.json`` holds them.
    """

    name: str
    experiment: str
    scale: str
    config: dict[str, Json]

    @property
    def seed(self) -> int:
        return int(self.config["seed"])


def plan_shards(
    table: Table,
    experiment: Experiment[Any],
    overrides: Sequence[str] = (),
    *,
    scale: str,
    seeds: Sequence[int] | None = None,
) -> list[Shard]:
    """Split a table's experiment at a scale, for each seed."""
    whole = config_from_overrides(experiment, overrides, scale)
    if seeds is not None and any(one.startswith("seed=") for one in overrides):
        raise ValueError("seeds are given by --seeds or by seed=, got both")
    for seed in seeds or ():
        check_seed(seed)
    if seeds is None:
        seeds = range(whole.seed, whole.seed + table.seeds.get(scale, 1))
    parts = experiment.split(table.key, whole) if experiment.split else {"": whole}
    if not parts:
        changed = f" with {' '.join(overrides)}" if overrides else ""
        raise ValueError(f"nothing to run for {table.key} at scale {scale}{changed}")
    return [
        Shard(
            f"{name},seed={seed}".removeprefix(","),
            experiment.name,
            scale,
            json.loads(json.dumps(config_to_json(replace(part, seed=seed)))),
        )
        for name, part in parts.items()
        for seed in dict.fromkeys(seeds)
    ]
