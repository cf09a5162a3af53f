import pytest

from torchsets.lab.experiments.polygons.configs import (
    AUTO_ENCODE,
    DECODE,
    AutoEncode,
    Decode,
    split_auto_encode,
    split_decode,
)


def test_each_shard_of_the_auto_encoders_is_one_size_without_controls():
    whole = AUTO_ENCODE.config_at("cpu")
    shards = split_auto_encode("fspool/polygons-direct", whole)
    assert list(shards) == ["n=32", "n=16", "n=8", "n=4", "n=2"]
    assert shards["n=8"].sizes == (8,)
    assert {(shard.models, shard.zeroed_sizes) for shard in shards.values()} == {(whole.models, ())}


def test_each_shard_of_the_decoders_is_one_size_of_one_task():
    shards = split_decode("dspn-polygons", DECODE.config_at("cpu"))
    assert list(shards)[:2] == ["predict,n=16", "auto-encode,n=16"]
    assert {(shard.tasks, shard.sizes) for shard in shards.values()} == {
        ((task,), (size,)) for task in ("predict", "auto-encode") for size in (4, 8, 16)
    }


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (AutoEncode, {"models": ("nonsense",)}, "models must be among fspool, .*, got nonsense"),
        (Decode, {"models": ("nonsense",)}, "models must be among implicit, .*, got nonsense"),
        (Decode, {"tasks": ("nonsense",)}, "tasks must be among predict, .*, got nonsense"),
        (AutoEncode, {"steps": 0}, "steps must be at least 1, got 0"),
        (Decode, {"sizes": (4, 1)}, "sizes must be at least 2, got 4,1"),
    ],
)
def test_rejects_bad_settings(config, options, message):
    with pytest.raises(ValueError, match=message):
        config(**options)
