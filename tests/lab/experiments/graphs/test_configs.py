from dataclasses import fields

import pytest

from torchsets.lab.experiments.graphs.configs import (
    CLASSIFY,
    MOTIFS,
    ROWS,
    SOURCES,
    Choice,
    Classify,
    protocol_of,
    split_classify,
)
from torchsets.lab.reports import thesis_tables

CPU = CLASSIFY.config_at("cpu")


def test_the_thesis_protocol():
    social = protocol_of(Classify(), SOURCES["COLLAB"])
    bio = protocol_of(Classify(), SOURCES["NCI1"])
    assert social[:3] == (10, 250, 5)  # halved every 50 epochs
    assert bio[:3] == (10, 500, 10)
    assert len(social.grid) == 4
    assert len(bio.grid) == 8
    # Of equal settings the first counts: hidden, batch size, dropout, in this order.
    assert bio.grid[:3] == (Choice(16, 32, 0.0), Choice(16, 32, 0.5), Choice(16, 128, 0.0))
    assert {choice.hidden for choice in social.grid} == {64}
    assert {choice.batch_size for choice in social.grid} == {32, 100}


def test_the_short_protocol_has_one_setting_fixed_beforehand():
    for source in SOURCES.values():
        protocol = protocol_of(CPU, source)
        hidden = 64 if source.kind == "social" else 32
        assert protocol.grid == (Choice(hidden, source.batch_size, 0.5),)
        assert protocol[:3] == (source.folds, source.epochs, 10)


def test_settings_are_chosen_from_the_thesis_grid_in_a_short_training():
    shards = split_classify("fspool/graph-params", CPU)
    assert set(shards) == {"IMDB-BINARY", "MUTAG", "PTC_MR"}
    for name, shard in shards.items():
        assert shard.models == ("base", "fspool")
        found, source = protocol_of(shard, SOURCES[name]), SOURCES[name]
        assert found.grid == protocol_of(Classify(), source).grid
        assert found[:3] == protocol_of(CPU, source)[:3]
        assert "fspool/graph-params" not in CLASSIFY.variants(shard, "cpu")
        assert CLASSIFY.variants(shard, "cpu")["fspool/graph-bio"] == "protocol=grid"
    asked = split_classify("fspool/graph-params", CLASSIFY.config_at("cpu", datasets=("NCI1",)))
    assert set(asked) == {"NCI1"}
    whole = split_classify("fspool/graph-params", Classify())
    assert set(whole) == set(SOURCES)
    assert {shard.protocol for shard in whole.values()} == {"thesis"}


def test_fields_come_before_the_protocol():
    config = Classify(folds=2, epochs=100, hidden_sizes=(8,), batch_sizes=(4,), dropouts=(0.1,))
    assert protocol_of(config, MOTIFS) == (2, 100, 2, (Choice(8, 4, 0.1),))


def test_columns_are_the_thesis():
    for kind in ("social", "bio"):
        labels = [source.label for source in SOURCES.values() if source.kind == kind]
        assert labels == list(thesis_tables()[f"fspool/graph-{kind}"].columns)


def test_a_table_needs_its_own_datasets_alone():
    shards = {key: split_classify(key, CPU) for key in ("fspool/graph-social", "fspool/graph-bio")}
    social, bio = shards.values()
    assert list(social) == [
        "REDDIT-BINARY",
        "REDDIT-BINARY eps=inputs",
        "COLLAB",
        "IMDB-BINARY",
        "IMDB-MULTI",
    ]
    assert {shard.datasets for shard in bio.values()} == {
        ("PROTEINS",),
        ("NCI1",),
        ("MUTAG",),
        ("PTC_MR",),
    }
    everything = split_classify("graphs-classify", CPU)
    assert everything == {**social, **bio}  # so that tables share them
    selection = split_classify("fspool/graph-proteins-selection-text", CPU)
    assert set(selection) == {"PROTEINS", "PROTEINS eps=inputs"}


def test_further_rows_are_trained_where_they_decide():
    shards = split_classify("graphs-classify", CPU)
    assert shards["REDDIT-BINARY"].models == ("base", "fspool", "sum")
    assert shards["REDDIT-BINARY eps=inputs"].models == ("base-inputs", "fspool-inputs")
    assert shards["PTC_MR"].models == ("base", "fspool")
    asked = split_classify("graphs-classify", Classify(datasets=("PTC_MR",), models=("sum",)))
    assert asked["PTC_MR"].models == ("sum",)


def test_the_shards_do_not_depend_on_which_others_are_asked_for():
    fewer = [model for model in ROWS if not model.endswith("-inputs")]
    some = split_classify("graphs-classify", CLASSIFY.config_at("cpu", models=tuple(fewer)))
    whole = split_classify("graphs-classify", CPU)
    assert some == {name: shard for name, shard in whole.items() if "eps" not in name}


def test_cpu_leaves_out_what_has_no_file():
    assert set(SOURCES) - set(CPU.datasets) == {"REDDIT-MULTI-5K"}
    assert set(Classify().datasets) == set(SOURCES)


def test_every_field_that_can_change_a_number_is_fixed():
    names = {field.name for field in fields(Classify)}
    for table in CLASSIFY.tables:
        if table.thesis and not table.key.endswith("-stats"):
            free = {"datasets", "models", "seed", "device"}
            chosen = {"protocol"} if table.key == "fspool/graph-params" else set()
            assert names - set(table.fixed) == free | chosen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "mutag"}, "dataset must be among published, motifs, got mutag"),
        ({"datasets": ("PTC",)}, "datasets must be among IMDB-BINARY, .*, got PTC"),
        ({"models": ("gin",)}, "models must be among base, fspool, .*, got gin"),
        ({"protocol": "long"}, "protocol must be among thesis, short, grid, got long"),
        ({"folds": 11}, "folds must be at most 10, got 11"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch_sizes": (1,)}, "batch_sizes must be at least 2, got 1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"dataset": "motifs"}, "motifs stand in for one of the datasets, got IMDB-BINARY, "),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Classify(**options)
