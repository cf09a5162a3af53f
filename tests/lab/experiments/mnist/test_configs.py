from dataclasses import fields, replace

import pytest

from torchsets.lab.experiments.mnist.configs import (
    CLASSIFY,
    LARGE,
    RECONSTRUCT,
    SORTS,
    Classify,
    Reconstruct,
    Sorts,
    split_classify,
    split_reconstruct,
)


@pytest.mark.parametrize("field", ["poolings", "starts"])
def test_unknown_names_are_refused(field):
    with pytest.raises(ValueError, match=rf"{field} must be among .* got median"):
        Classify(**{field: ("median",)})
    with pytest.raises(ValueError, match=r"models must be among .* got sum-mean"):
        Reconstruct(models=("sum-mean",))
    with pytest.raises(ValueError, match=r"starts must be among .* got median"):
        Sorts(starts=("median",))


@pytest.mark.parametrize("config", [Classify, Reconstruct, Sorts])
def test_noises_of_the_same_name_are_refused(config):
    for sigmas in ((0.0, 0.004), (-0.1,)):
        with pytest.raises(ValueError, match=r"sigmas must be at least 0 and differ in two dec"):
            config(sigmas=sigmas)


@pytest.mark.parametrize("experiment", [CLASSIFY, RECONSTRUCT, SORTS, LARGE], ids=lambda e: e.name)
def test_no_epochs_and_no_sets_are_refused(experiment):
    for field in ("epochs", "training_sets"):
        with pytest.raises(ValueError, match=rf"{field} must be at least 1, got 0"):
            experiment.config(**{field: 0})


@pytest.mark.parametrize("field", ["temperature", "final_temperature"])
def test_a_temperature_is_above_zero(field):
    with pytest.raises(ValueError, match=rf"{field} must be at least 1e-06, got 0"):
        Sorts(**{field: 0.0})


@pytest.mark.parametrize(
    ("experiment", "free"),
    [
        # A column says how many epochs; the rest are axes of the tables.
        (CLASSIFY, {"poolings", "sigmas", "starts", "epochs", "seed", "device"}),
        # The mask feature has a table of its own.
        (RECONSTRUCT, {"models", "sigmas", "mask_feature", "seed", "device"}),
    ],
    ids=["classify", "reconstruct"],
)
def test_every_field_that_can_change_a_number_is_fixed(experiment, free):
    names = {field.name for field in fields(experiment.config)}
    for table in experiment.tables:
        assert set(table.fixed) == names - free


@pytest.mark.parametrize(
    ("change", "label"),
    [
        ({"learning_rate": 0.01}, "learning_rate=0.01"),
        ({"bucketed": True}, "bucketed=True"),
        ({"test_sets": 50}, "test_sets=50"),
        ({"dataset": "digits", "hidden": 8}, "dataset=digits, hidden=8"),
        ({"encoders": "runs/x", "mask_feature": True}, "mask_feature=True, encoders=x"),
    ],
)
def test_another_classifier_is_a_variant_in_all_tables_of_the_thesis(change, label):
    usual = CLASSIFY.config_at("cpu")
    assert CLASSIFY.variants(usual, "cpu") == {}
    keys = {"fspool/mnist", "fspool/mnist2", "fspool/mnist-100"}
    assert CLASSIFY.variants(replace(usual, **change), "cpu") == dict.fromkeys(keys, label)


def test_what_a_scale_changes_is_no_variant():
    assert RECONSTRUCT.variants(RECONSTRUCT.config_at("cpu"), "cpu") == {}  # 1 epoch, bucketed
    smoke = CLASSIFY.variants(CLASSIFY.config_at("smoke"), "smoke")
    assert set(smoke.values()) == {"dataset=digits"}  # but other data is
    two_epochs = RECONSTRUCT.config_at("cpu", epochs=2, mask_feature=True)
    assert set(RECONSTRUCT.variants(two_epochs, "cpu").values()) == {"epochs=2"}


@pytest.mark.parametrize(
    ("table", "count"), [("fspool/mnist", 8), ("fspool/mnist2", 8), ("fspool/mnist-100", 16)]
)
def test_a_table_of_accuracies_has_independent_shards(table, count):
    shards = split_classify(table, Classify(epochs=10))
    assert len(shards) == len(set(shards.values())) == count
    assert {shard.epochs for shard in shards.values()} == {100 if table[-3:] == "100" else 10}
    assert {shard.starts for shard in shards.values()} == {("frozen", "unfrozen"), ("random",)}
    sigma = {"fspool/mnist": {0.05}, "fspool/mnist2": {0.0}}.get(table, {0.0, 0.05})
    assert {shard.sigmas[0] for shard in shards.values()} == sigma


def test_shards_are_named_after_what_they_train():
    shards = split_classify("fspool/mnist", Classify(poolings=("fspool",)))
    assert list(shards) == ["fspool sigma=0.05 frozen+unfrozen", "fspool sigma=0.05 random"]
    shards = split_reconstruct("fspool/mnist1", Reconstruct(sigmas=(0.0,), models=("sum-mlp",)))
    assert list(shards) == ["sum-mlp sigma=0.00"]
    assert split_classify("fspool/mnist2", Classify(sigmas=(0.05,))) == {}


@pytest.mark.parametrize("table", ["fspool/mnist1", "fspool/mnist1-masked"])
def test_a_table_of_reconstructions_has_independent_shards(table):
    shards = split_reconstruct(table, Reconstruct())
    assert len(shards) == len(set(shards.values())) == 30
    assert {shard.mask_feature for shard in shards.values()} == {table.endswith("masked")}
