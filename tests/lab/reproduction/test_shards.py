"""Shards: distinct, together the whole, each a configuration of its own."""

import itertools
import json
import re
from dataclasses import dataclass, replace

import pytest

from torchsets.lab.experiments import SCALES, Experiment, Table, find_table, tables
from torchsets.lab.experiments.values import config_from_json
from torchsets.lab.reproduction import plan_shards

CASES = list(itertools.product(tables(), SCALES))


@dataclass(frozen=True)
class Config:
    sizes: tuple[int, ...] = (2, 4)
    batch_sizes: tuple[int, ...] = (16, 8)
    dataset: str = "mnist"
    seed: int = 0


def split(table, config):
    """A size with its own batch size each, those without a batch left out."""
    return {
        f"n={size}": replace(config, sizes=(size,), batch_sizes=(batch,))
        for size, batch in zip(config.sizes, config.batch_sizes, strict=True)
        if batch
    }


TOY = Experiment("toy", "", Config, {"smoke": {}, "full": {"sizes": (2, 9)}}, "toy:run")
TABLE = Table("toy", {}, seeds={"full": 2})


@pytest.mark.parametrize(("key", "scale"), CASES)
def test_the_shards_of_a_table_are_distinct(key, scale):
    table, experiment = find_table(key)
    shards = plan_shards(table, experiment, scale=scale, seeds=[3, 5, 3])
    assert len({shard.name for shard in shards}) == len(shards)
    assert len({str(shard.config) for shard in shards}) == len(shards)
    assert {(shard.seed, shard.config["seed"]) for shard in shards} == {(3, 3), (5, 5)}
    assert {shard.experiment for shard in shards} == {experiment.name}
    assert {shard.scale for shard in shards} == {scale}


@pytest.mark.parametrize(("key", "scale"), CASES)
def test_the_name_of_a_shard_can_name_a_folder(key, scale):
    for shard in plan_shards(*find_table(key), scale=scale):
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 _.=+,-]*", shard.name)


@pytest.mark.parametrize(("key", "scale"), CASES)
def test_the_configuration_of_a_shard_survives_json(key, scale):
    table, experiment = find_table(key)
    for shard in plan_shards(table, experiment, scale=scale):
        assert json.loads(json.dumps(shard.config)) == shard.config
        config_from_json(experiment, shard.config, "shard.json")


def test_the_largest_polygons_come_first_with_all_their_models_and_no_controls():
    shards = plan_shards(*find_table("fspool/polygons-chamfer"), scale="cpu")
    assert [shard.config["sizes"] for shard in shards] == [[32], [16], [8], [4], [2]]
    assert [shard.name for shard in shards] == [f"n={size},seed=0" for size in (32, 16, 8, 4, 2)]
    for shard in shards:
        assert len(shard.config["models"]) == 4
        assert shard.config["zeroed_sizes"] == shard.config["enlarged_sizes"] == []


def test_sizes_keep_their_own_settings():
    shards = plan_shards(TABLE, replace(TOY, split=split), scale="smoke")
    assert [(shard.config["sizes"], shard.config["batch_sizes"]) for shard in shards] == [
        ([2], [16]),
        ([4], [8]),
    ]


def test_tasks_are_split():
    shards = plan_shards(*find_table("dspn-polygons"), scale="smoke")
    assert [shard.name for shard in shards] == ["predict,n=4,seed=0", "auto-encode,n=4,seed=0"]


def test_a_table_that_is_not_split_is_one_shard():
    (shard,) = plan_shards(TABLE, TOY, scale="smoke")
    assert (shard.name, shard.config["sizes"]) == ("seed=0", [2, 4])


def test_a_changed_field_is_in_the_configuration():
    (shard,) = plan_shards(
        *find_table("fspool/polygons-direct"), ["steps=7", "seed=4"], scale="smoke"
    )
    assert shard.name == "n=4,seed=4"
    assert (shard.config["steps"], shard.seed) == (7, 4)


def test_a_value_with_a_slash_does_not_make_folders_of_folders():
    experiment = replace(TOY, split=split)
    shards = plan_shards(TABLE, experiment, ["dataset=/data/fashion"], scale="smoke")
    assert [shard.name for shard in shards] == ["n=2,seed=0", "n=4,seed=0"]
    assert {shard.config["dataset"] for shard in shards} == {"/data/fashion"}


@pytest.mark.parametrize(
    ("scale", "overrides", "seeds", "expected"),
    [
        ("full", [], None, [0, 1]),
        ("full", ["seed=3"], None, [3, 4]),
        ("smoke", [], None, [0]),
        ("full", [], [7], [7]),
    ],
)
def test_a_table_may_have_several_seeds_at_a_scale(scale, overrides, seeds, expected):
    shards = plan_shards(TABLE, TOY, overrides, scale=scale, seeds=seeds)
    assert [shard.seed for shard in shards] == expected


def test_a_table_with_nothing_to_run_is_an_error():
    with pytest.raises(
        ValueError, match=r"^nothing to run for toy at scale smoke with batch_s.*0$"
    ):
        plan_shards(TABLE, replace(TOY, split=split), ["batch_sizes=0,0"], scale="smoke")
    with pytest.raises(ValueError, match=r"^nothing to run for toy at scale smoke$"):
        plan_shards(TABLE, replace(TOY, split=lambda key, config: {}), scale="smoke")
