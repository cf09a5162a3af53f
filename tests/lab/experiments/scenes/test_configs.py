import pytest

from torchsets.lab.experiments.scenes.configs import STATES, States, split_states


def test_each_shard_is_one_model_and_the_implicit_dspn_has_one_for_each_pooling():
    shards = split_states("dspn-states", STATES.config_at("cpu"))
    assert list(shards) == [
        "3-10 unrolled",
        "3-10 implicit fspool",
        "3-10 implicit sum",
        "3-10 implicit max",
        "3-10 lstm",
        "3-10 tspn",
        "3-10 mlp",
    ]
    assert shards["3-10 implicit max"].poolings == ("max",)
    assert shards["3-10 mlp"].poolings == ("fspool",)
    smaller = split_states("dspn-states/3-6", STATES.config_at("cpu"))
    assert {shard.objects for shard in smaller.values()} == {("3-6",)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input": "images"}, "it is another experiment: torchsets run dspn-images"),
        ({"input": "sound"}, "input must be among states, got sound"),
        ({"objects": ("1-2",)}, "objects must be among 3-10, 3-6, got 1-2"),
        ({"models": ("gan",)}, "models must be among unrolled, .*, got gan"),
        ({"poolings": ("mean",)}, "poolings must be among fspool, sum, max, got mean"),
        ({"supervise": "some"}, "supervise must be among last, all, got some"),
        ({"models": ()}, "models must have at least one entry, got none"),
        ({"test_steps": ()}, "test_steps must have at least one entry, got none"),
        ({"test_steps": (10, 0)}, "test_steps must be at least 1, got 10,0"),
        ({"decay_from": 2.0}, "decay_from must be between 0 and 1, got 2"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        States(**options)
