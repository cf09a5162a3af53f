import pytest

from torchsets.lab.experiments.counting.configs import (
    COUNT_TOY,
    CountToy,
    Setting,
    split_count_toy,
    sweeps_of,
)


def test_sweeps_cover_the_grid():
    sweeps = sweeps_of(COUNT_TOY.config_at("cpu"))
    assert [(sweep.title, len(sweep.settings)) for sweep in sweeps] == [
        ("q = 0", 10),
        ("q = 0.5", 10),
        ("l = 0.2", 11),
        ("l = 0.5", 11),
    ]
    assert sweeps[1].values == pytest.approx([0.1 * k for k in range(1, 11)])
    assert Setting(0.5, 0.5) in sweeps[1].settings
    assert Setting(0.5, 0.5) in sweeps[3].settings
    assert len({setting for sweep in sweeps for setting in sweep.settings}) == 38


def test_each_shard_is_one_sweep():
    whole = COUNT_TOY.config_at("cpu")
    shards = split_count_toy("count-toy", whole)
    assert list(shards) == ["l=0.2", "l=0.5", "q=0", "q=0.5"]  # sweeps over q have a value more
    found = {name: sweeps_of(shard) for name, shard in shards.items()}
    assert all(len(sweeps) == 1 for sweeps in found.values())
    assert {name: sweeps[0].title for name, sweeps in found.items()} == {
        name: name.replace("=", " = ") for name in shards
    }
    assert {sweeps[0].title for sweeps in found.values()} == {
        sweep.title for sweep in sweeps_of(whole)
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ("mlp",)}, "models must be among counter, sum, nms, got mlp"),
        ({"grid": 0.0}, "grid must be above 0 and at most 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        CountToy(**options)
