import pytest

from torchsets.lab.experiments.mosaics.configs import (
    CLASSIFY,
    EXPLICIT,
    Classify,
    Explicit,
    sources_of,
    split_classify,
    split_explicit,
)


def test_each_shard_is_one_model_on_one_grid_of_one_dataset():
    whole = Explicit(datasets=("mnist", "cifar10"), grids=(2, 3), models=("linear", "po-u"))
    shards = split_explicit("perm/mosaic", whole)
    assert list(shards) == [
        f"{dataset} {grid}x{grid} {model}"
        for dataset in ("cifar10", "mnist")
        for grid in (3, 2)
        for model in ("linear", "po-u")
    ]
    shard = shards["cifar10 3x3 po-u"]
    assert (shard.datasets, shard.grids, shard.models) == (("cifar10",), (3,), ("po-u",))


def test_models_that_share_a_classifier_are_one_shard():
    shards = split_classify("perm/classify", Classify(datasets=("mnist",), grids=(2, 3)))
    assert list(shards) == ["mnist 3x3", "mnist 2x2"]
    assert shards["mnist 2x2"].models == Classify.models


def test_digits_take_the_place_of_the_files():
    config = EXPLICIT.config_at("smoke")
    assert [source.label for source in sources_of(config).values()] == ["digits"]
    assert [source.label for source in sources_of(Explicit()).values()] == [
        "MNIST",
        "CIFAR10",
        "ImageNet64",
    ]


@pytest.mark.parametrize("experiment", [EXPLICIT, CLASSIFY], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden", 32), ("clip", 5.0), ("steps", 7), ("test_pictures", 100), ("inner_steps", 2)],
)
def test_other_settings_than_the_thesis_never_stand_beside_it(experiment, field, value):
    config = experiment.config_at("cpu", **{field: value})
    labels = experiment.variants(config, "cpu")
    theirs = [table.key for table in experiment.tables if table.thesis]
    assert labels == dict.fromkeys(theirs, f"{field}={value}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ("po",)}, "models must be among linear, po-u, po-la.*got po"),
        ({"datasets": ("svhn",)}, "datasets must be among mnist, cifar10, imagenet, got svhn"),
        ({"dataset": "mnist"}, "dataset must be among published, digits, got mnist"),
        ({"dataset": "digits"}, "digits stand in for one of the datasets, got mnist, cifar10"),
        ({"grids": (0,)}, "grids must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
    ],
)
@pytest.mark.parametrize("kind", [Explicit, Classify])
def test_rejects_bad_settings(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)


def test_the_tie_breaking_models_are_not_for_classification():
    with pytest.raises(ValueError, match="models must be among linear, po-u, po-la, got po-u-tags"):
        Classify(models=("po-u-tags",))
