import pytest

from torchsets.lab.experiments.sorting.configs import (
    SORT_NUMBERS,
    SortNumbers,
    Training,
    split_sort_numbers,
    trainings_of,
)


def test_each_shard_is_one_size_the_largest_first():
    whole = SORT_NUMBERS.config_at("cpu")
    shards = split_sort_numbers("perm/sorting-text", whole)
    assert list(shards) == [f"n={size}" for size in (1024, 512, 120, 100, 80, 15, 10, 5)]
    assert trainings_of(shards["n=512"]) == [Training(512, 2**11, 32, 1)]
    parts = [training for shard in shards.values() for training in trainings_of(shard)]
    assert sorted(parts) == sorted(trainings_of(whole))


def test_a_model_sees_its_training_sets_in_steps():
    assert Training(5, sets=1024, batch_size=64, seeds=1).steps == 16
    assert Training(5, sets=3, batch_size=64, seeds=1).steps == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ("po",)}, "models must be among po-u, linear, got po"),
        ({"sizes": (5,)}, "training_sets must have one entry for each of the 1 sizes, got 8"),
        ({"seeds": (1,)}, "seeds must have one entry for each of the 8 sizes, got 1"),
        ({"batch_sizes": (0,) * 8}, "batch_sizes must be at least 1, got 0,0"),
        ({"inner_steps": -1}, "inner_steps must be at least 0, got -1"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        SortNumbers(**options)
