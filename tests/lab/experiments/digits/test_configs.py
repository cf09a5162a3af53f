import pytest

from torchsets.lab.experiments.digits.configs import DECODERS, DIGITS, Digits, split_digits
from torchsets.lab.reports.thesis import thesis_tables


def test_rows_are_the_thesis_and_the_implicit_dspn():
    rows = {row.model for row in thesis_tables()["dspn/mnist"].rows}
    assert set(DECODERS.values()) - rows == {"Implicit DSPN"}
    assert rows <= set(DECODERS.values())


def test_each_shard_is_one_model_the_longest_first():
    shards = split_digits("dspn/mnist", DIGITS.config_at("cpu"))
    assert list(shards) == ["unrolled", "implicit", "lstm", "mlp"]
    assert all(shard.models == (name,) for name, shard in shards.items())


def test_a_size_aware_run_does_not_stand_beside_the_thesis():
    config = DIGITS.config_at("cpu", loss="size-aware")
    assert DIGITS.variants(config, "cpu") == {"dspn/mnist": "loss=size-aware"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "cifar"}, "dataset must be among mnist, digits, got cifar"),
        ({"models": ("gan",)}, "models must be among unrolled, .*, got gan"),
        ({"loss": "l2"}, "loss must be among thesis, size-aware, got l2"),
        ({"size_weight": -1.0}, "size_weight must be at least 0, got -1"),
        ({"test_steps": (0,)}, "test_steps must be at least 1, got 0"),
        ({"test_steps": ()}, "test_steps must have at least one entry, got none"),
        ({"models": ()}, "models must have at least one entry, got none"),
        ({"decay_from": -0.5}, "decay_from must be between 0 and 1, got -0.5"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Digits(**options)
