"""``torchsets reproduce --list``: times, missing data, what is not yet."""

from torchsets.lab.experiments.tables import TABLES

from torchsets.lab.experiments import EXPERIMENTS, SCALES
from torchsets.lab.reports import thesis_tables
from torchsets.lab.reproduction import list_tables


def test_every_table_is_there_with_its_times_or_not_yet():
    shown = list_tables()
    ready, waiting = shown.split("not yet: ")
    for key in thesis_tables():
        assert (key in ready.split()) == (key in TABLES)
        assert (key in waiting.replace(",", " ").split()) == (key not in TABLES)
    for table in TABLES.values():
        for scale in SCALES:
            assert f"{scale} {table.durations[scale]}" in ready


def test_missing_data_is_named_with_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    experiment = EXPERIMENTS["polygons"]._replace(data=("a/b.gz", "a/c.gz"), source="a friend")
    monkeypatch.setitem(EXPERIMENTS, "polygons", experiment)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "c.gz").touch()
    shown = list_tables()
    assert shown.count("(data is missing)") >= 3
    keys = "fspool/polygons-direct, fspool/polygons-chamfer, fspool/polygons-hungarian"
    assert f"missing for {keys}" in shown
    assert f"  {tmp_path / 'a' / 'b.gz'}\n  from a friend" in shown
    assert "c.gz" not in shown
    (tmp_path / "a" / "b.gz").touch()
    assert "a friend" not in list_tables()


def test_a_table_of_ours_shows_all_tables_of_its_experiment():
    assert TABLES["count-toy"].shows("count-toy/q = 0.5")
    assert not TABLES["count-toy"].shows("count-toys/q = 0.5")
    assert TABLES["fspool/polygons-direct"].shows("fspool/polygons-direct")
    assert not TABLES["fspool/polygons-direct"].shows("polygons/jumps")
