import pytest

from torchsets.lab.experiments.pictures.configs import (
    BOXES,
    IMAGES,
    Pictures,
    sources_of,
    split_pictures,
    updates_of,
)


def test_each_shard_is_one_model_with_one_source():
    config = IMAGES.config_at("cpu", sources=("stages", "flat"))
    shards = split_pictures("dspn-images", config)
    assert list(shards) == [
        "unrolled stages fspool",
        "unrolled flat fspool",
        "implicit stages",
        "implicit flat",
        "mlp flat",
        "queries map",
    ]
    assert shards["implicit flat"].sources == ("flat",)
    assert shards["mlp flat"].models == ("mlp",)


def test_each_shard_of_a_list_decoder_trains_the_network_of_its_name():
    config = IMAGES.config_at("cpu", models=("mlp",), sources=("stages", "stages-fspool", "hybrid"))
    shards = split_pictures("dspn-images", config)
    assert {name: sources_of("mlp", one) for name, one in shards.items()} == {
        "mlp flat": ("flat",),
        "mlp fspool": ("fspool",),
    }


def test_the_tables_of_the_thesis_have_its_supervision_and_poolings():
    config = BOXES.config_at("full")
    assert {one.supervise for one in split_pictures("dspn/box-fixed1", config).values()} == {"last"}
    assert {one.supervise for one in split_pictures("dspn/box-fixed2", config).values()} == {"all"}
    ablation = split_pictures("dspn/box-fspool", config)
    assert list(ablation) == [f"unrolled flat {pooling}" for pooling in ("fspool", "sum", "max")]
    assert {one.supervise for one in ablation.values()} == {"last"}


@pytest.mark.parametrize("experiment", [IMAGES, BOXES])
def test_rendered_pictures_are_no_pictures_of_the_thesis(experiment):
    labels = experiment.variants(experiment.config_at("cpu"), "cpu")
    assert set(labels.values()) == {"dataset=rendered"}
    assert all(key.startswith("dspn/") for key in labels)
    assert experiment.variants(experiment.config_at("full"), "full") == {}
    hybrid = experiment.variants(experiment.config_at("cpu", sources=("hybrid",)), "cpu")
    assert set(hybrid.values()) == {"dataset=rendered, sources=hybrid"}


def test_only_a_descent_has_stages_or_a_start_from_queries():
    config = IMAGES.config_at("cpu", sources=("stages", "hybrid", "fspool"))
    assert sources_of("implicit", config) == ("stages", "hybrid", "fspool")
    assert sources_of("mlp", config) == ("flat", "fspool")
    for sources, expected in (
        (("stages",), ("flat",)),
        (("hybrid",), ("flat",)),
        (("stages-fspool",), ("fspool",)),
        (("flat", "stages", "stages-attention"), ("flat", "attention")),
    ):
        assert sources_of("mlp", IMAGES.config_at("cpu", sources=sources)) == expected
    assert sources_of("queries", config) == ("map",)


def test_models_get_updates_for_about_the_same_time_or_equally_many():
    config = IMAGES.config_at("cpu")
    assert updates_of("unrolled", "flat", config) < updates_of("mlp", "flat", config)
    assert updates_of("mlp", "flat", config) == config.steps
    assert updates_of("unrolled", "stages-fspool", config) == config.steps
    assert updates_of("queries", "map", config) == updates_of("implicit", "stages", config)
    equal = IMAGES.config_at("cpu", equal_time=False)
    assert {updates_of(name, "flat", equal) for name in equal.models} == {equal.steps}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "coco"}, "dataset must be among clevr, rendered, got coco"),
        ({"objects": "1-2"}, "objects must be among 3-10, 3-6, got 1-2"),
        ({"models": ("gan",)}, "models must be among unrolled, .*, got gan"),
        ({"poolings": ()}, "poolings must have at least one entry, got none"),
        ({"sources": ("sky",)}, "sources must be among flat, .*, got sky"),
        ({"poolings": ("mean",)}, "poolings must be among fspool, sum, max, got mean"),
        ({"supervise": "some"}, "supervise must be among last, all, got some"),
        ({"set_encoder": "x"}, "set_encoder must be among relation, elements, got x"),
        ({"network": 50}, "network must be 34, 18 or 10, got 50"),
        ({"box_scale": 0.0}, "box_scale must be above 0, got 0"),
        ({"gradient_clip": -1.0}, "gradient_clip must be at least 0, got -1"),
        ({"size": 16}, "size must be at least 32, got 16"),
        ({"missing": 1.5}, "missing must be at most 1, got 1.5"),
        ({"joint_from": 2.0}, "joint_from must be at most 1, got 2"),
        ({"dataset": "rendered"}, "training_scenes and test_scenes must be numbers"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Pictures(**options)
