"""``torchsets reproduce --list``: times, missing data, what is not implemented."""

from dataclasses import replace

import pytest

from torchsets._catalogue import DATASETS, Dataset
from torchsets.lab import reproduction
from torchsets.lab.experiments import SCALES, find_table, tables
from torchsets.lab.experiments.digest import code_digest
from torchsets.lab.records import Recorder
from torchsets.lab.reports import thesis_tables
from torchsets.lab.reproduction import list_tables, listing, plan_shards, reproduce


def test_every_table_is_there_with_its_times_or_not_implemented():
    shown = list_tables()
    ready, waiting = shown.split("not implemented: ")
    for key in thesis_tables():
        assert (key in ready.split()) == (key in tables())
        assert (key in waiting.replace(",", " ").split()) == (key not in tables())
    for table, _ in tables().values():
        for scale in SCALES:
            assert f"{scale} {table.takes[scale]}" in ready


def test_tables_are_named_as_in_the_thesis():
    shown = list_tables()
    for key in tables():
        if about := thesis_tables().get(key):
            assert f"{key}  ({about.source})" in shown
    assert "dspn-polygons  (not in the thesis)" in shown


def test_missing_data_is_named_with_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    toy = Dataset("a", {"b.gz": "", "c.gz": ""}, ("https://a.friend", "https://b.friend"), "CC0")
    monkeypatch.setitem(DATASETS, "toy", toy)
    needing = {
        key: (table, replace(experiment, data=("toy",)))
        for key, (table, experiment) in tables().items()
        if experiment.name == "polygons"
    }
    monkeypatch.setattr(listing, "tables", lambda: needing)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "c.gz").touch()
    shown = list_tables()
    assert shown.count("(data is missing)") == 3
    keys = "fspool/polygons-direct, fspool/polygons-chamfer, fspool/polygons-hungarian"
    assert f"missing for {keys}, scales cpu and full:" in " ".join(shown.split())
    assert shown.count("friend") == 2, "once for all tables that need it"
    sources = "from https://a.friend or https://b.friend (downloaded on first use)"
    assert f"  {tmp_path / 'a' / 'b.gz'}\n  {sources}" in shown
    assert "c.gz" not in shown
    (tmp_path / "a" / "b.gz").touch()
    assert "friend" not in list_tables()


def test_missing_data_is_told_once_before_anything_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    monkeypatch.setitem(DATASETS, "toy", Dataset("a", {"b.gz": ""}, ("http://127.0.0.1:9",), "CC0"))
    table, experiment = find_table("fspool/polygons-chamfer")
    needing = table, replace(experiment, data=("toy",))
    monkeypatch.setattr(reproduction, "find_table", lambda key: needing)
    with pytest.raises(OSError, match=r"b\.gz is missing and could not be downloaded from http"):
        reproduce(table.key, scale="cpu", out=tmp_path / "out", overrides=["sizes=2,4"])
    assert capsys.readouterr().err.splitlines() == [
        f"fspool/polygons-chamfer: 2 shards in {tmp_path / 'out'}, 0 recorded already",
        f"downloading a to {tmp_path / 'a'}",
    ]
    assert list((tmp_path / "out").iterdir()) == []  # nothing was started


def test_what_is_recorded_needs_no_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(DATASETS, "toy", Dataset("a", {"b.gz": ""}, (), "CC0"))
    table, experiment = find_table("fspool/polygons-chamfer")
    needing = table, replace(experiment, data=("toy",))
    monkeypatch.setattr(reproduction, "find_table", lambda key: needing)
    for shard in plan_shards(*needing, ["sizes=2,4"], scale="cpu"):
        Recorder.start(
            tmp_path / shard.name,
            experiment="polygons",
            scale="cpu",
            config=shard.config,
            code=code_digest(experiment.run),
        ).finish()
    done = reproduce(table.key, scale="cpu", out=tmp_path, overrides=["sizes=2,4"])
    assert "2 shards" in capsys.readouterr().err
    assert not done.failed
    assert done.text.startswith("fspool/polygons-chamfer: no number is recorded yet")


def test_a_dataset_field_says_which_data_is_needed():
    experiment = replace(find_table("fspool/polygons-chamfer")[1], data=("mnist", "cifar10"))
    names = [one.name for one in experiment.datasets({"dataset": "cifar10"}, "cpu")]
    assert names == ["cifar10"]
    assert experiment.datasets({"dataset": "digits", "datasets": ["mnist"]}, "cpu") == []
    published = {"dataset": "published", "datasets": ["mnist", "imagenet"]}
    assert [one.name for one in experiment.datasets(published, "cpu")] == ["mnist"]
    assert len(experiment.datasets({}, "cpu")) == 2
    assert experiment.datasets({}, "smoke") == []
