"""Sets from long tables, beside a loop over the groups."""

import datetime

import numpy as np
import pytest
import torch

from torchsets import Sets


def as_pandas(columns):
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns)


def as_polars(columns):
    return pytest.importorskip("polars", reason="polars is not installed").DataFrame(columns)


def as_arrow(columns):
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed").table(columns)


KINDS = {"dict": dict, "pandas": as_pandas, "polars": as_polars, "arrow": as_arrow}


@pytest.fixture(params=KINDS)
def table(request):
    return KINDS[request.param]


def columns(kind="integer", seed=0):
    generator = np.random.default_rng(seed)
    event = generator.integers(0, 9, 40)
    if kind == "sorted":
        event = np.sort(event)
    key = np.array([f"event {n}" for n in event], dtype=object) if kind == "text" else event
    return {
        "event": key,
        "x": generator.normal(size=40),
        "charge": generator.integers(-1, 2, 40),
        "good": generator.random(40) < 0.5,
        "kind": event % 3,
    }


def slow_groups(columns, by, features):
    """A loop over all rows: the sets in order of first appearance."""
    sets = {}
    for row in range(len(columns[by])):
        sets.setdefault(columns[by][row], []).append([float(columns[f][row]) for f in features])
    return sets


@pytest.mark.parametrize("kind", ["integer", "text", "sorted"])
def test_rows_of_a_group_are_a_set(table, kind):
    given = columns(kind)
    sets = Sets.from_table(table(given), by="event", label="kind")
    expected = slow_groups(given, "event", ["x", "charge", "good"])
    assert sets.keys.tolist() == list(expected)
    assert sets.names == ("x", "charge", "good")
    assert sets.values.dtype == torch.float32
    for got, wanted in zip(sets, expected.values(), strict=True):
        torch.testing.assert_close(got, torch.tensor(wanted))
    numbers = [int(str(key).removeprefix("event ")) for key in expected]
    assert sets.labels.tolist() == [number % 3 for number in numbers]


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_keys_name_empty_sets_and_set_the_order(table, kind):
    given = columns(kind)
    expected = slow_groups(given, "event", ["x"])
    keys = [f"event {n}" if kind == "text" else n for n in (8, 20, *range(8), 30)]
    sets = Sets.from_table(table(given), by="event", features=["x"], keys=keys)
    assert sets.keys.tolist() == keys
    for got, key in zip(sets, keys, strict=True):
        wanted = torch.tensor(expected.get(key, [])).reshape(-1, 1)
        torch.testing.assert_close(got, wanted)


def test_text_labels_and_chosen_features(table):
    given = {"g": [1, 0, 1], "x": [0.5, 1.5, 2.5], "y": [1, 2, 3], "name": ["b", "a", "b"]}
    sets = Sets.from_table(table(given), by="g", features=["y", "x"], label="name")
    assert [one.tolist() for one in sets] == [[[1.0, 0.5], [3.0, 2.5]], [[2.0, 1.5]]]
    assert sets.labels.tolist() == ["b", "a"]
    assert sets.names == ("y", "x")


def test_missing_numbers_become_nan(table):
    sets = Sets.from_table(table({"g": [0, 0], "x": [1.0, float("nan")]}), by="g")
    assert sets.values.isnan().tolist() == [[False], [True]]


@pytest.mark.parametrize("kind", ["polars", "arrow"])
@pytest.mark.parametrize("one", [1, True])
def test_nulls_of_integers_and_booleans_become_nan(kind, one):
    sets = Sets.from_table(KINDS[kind]({"g": [0, 0], "x": [one, None]}), by="g")
    torch.testing.assert_close(sets.values, torch.tensor([[1], [float("nan")]]), equal_nan=True)


def test_nulls_of_pandas_booleans_become_nan():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"g": [0, 0], "x": pandas.array([True, None], dtype="boolean")})
    sets = Sets.from_table(frame, by="g")
    torch.testing.assert_close(sets.values, torch.tensor([[1], [float("nan")]]), equal_nan=True)


def test_columns_of_pandas_may_have_numbers_for_names():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(np.array([[7.0, 1, 2], [8, 3, 4], [7, 5, 6]]))
    sets = Sets.from_table(frame, by=0, label=None, features=[2, 1])
    assert sets.keys.tolist() == [7, 8]
    assert sets.values.tolist() == [[2, 1], [6, 5], [4, 3]]


def test_keys_are_one_column(table):
    with pytest.raises(TypeError, match=r"by must be one column, got \['g', 'x'\]"):
        Sets.from_table(table({"g": [0], "x": [1.0]}), by=["g", "x"])


def test_dates_are_keys(table):
    days = np.array(["2020-01-02", "2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
    frame = table({"day": days, "x": [0.0, 1, 2]})
    assert Sets.from_table(frame, by="day").keys.tolist() == days[:2].tolist()
    wanted = np.array(["2020-01-01", "2020-01-03", "2020-01-02"], dtype="datetime64[ns]")
    for keys in (wanted, list(wanted), wanted.astype("datetime64[us]").tolist()):
        sets = Sets.from_table(frame, by="day", keys=keys)
        assert sets.keys.dtype.kind == "M"
        assert (sets.keys == wanted).all()
        assert sets.sizes.tolist() == [1, 0, 2]
    with pytest.raises(ValueError, match=r"keys must name every group of 'day', got none for"):
        Sets.from_table(frame, by="day", keys=wanted[:2])
    for keys in ([18262, 18263], ["today", "never"]):
        with pytest.raises(ValueError, match="keys must be dates as those of 'day', got"):
            Sets.from_table(frame, by="day", keys=keys)


def test_hours_are_not_cut_to_days():
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    noons = [datetime.datetime(2020, 1, day, 12) for day in (1, 2)]
    with pytest.raises(ValueError, match=r"keys must name every group of 'day', got none for"):
        Sets.from_table({"day": days, "x": [0.0, 1]}, by="day", keys=noons)
    sets = Sets.from_table({"day": days, "x": [0.0, 1]}, by="day", keys=[*days, *noons])
    assert sets.sizes.tolist() == [1, 1, 0, 0]
    assert sets.keys[2:].tolist() == noons


def test_pandas_timestamps_are_keys():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"day": pandas.date_range("2020-01-01", periods=3), "x": range(3)})
    for keys in (frame["day"][::-1], list(frame["day"])[::-1], frame["day"].to_numpy()[::-1]):
        sets = Sets.from_table(frame, by="day", keys=keys)
        assert sets.values.flatten().tolist() == [2, 1, 0]
    apart = pandas.DataFrame({"wait": frame["day"] - frame["day"][0], "x": range(3)})
    assert Sets.from_table(apart, by="wait", keys=list(apart["wait"])).sizes.tolist() == [1, 1, 1]


def test_numbers_beside_text_stay_numbers():
    sets = Sets.from_table({"k": [1, 2], "x": [0.0, 1]}, by="k", keys=[2, "none", 1])
    assert sets.keys.tolist() == [2, "none", 1]


def test_a_day_that_is_none_is_named():
    days = np.array(["2020-01-02", "NaT"], dtype="datetime64[ns]")
    with pytest.raises(ValueError, match="got no value of 'day' in row 1"):
        Sets.from_table({"day": days, "x": [0.0, 1]}, by="day")


def test_a_table_without_rows_has_no_sets(table):
    nothing = {"g": np.zeros(0, dtype=np.int64), "x": np.zeros(0)}
    assert len(Sets.from_table(table(nothing), by="g")) == 0
    sets = Sets.from_table(table(nothing), by="g", keys=[4, 2])
    assert (sets.sizes.tolist(), sets.keys.tolist()) == ([0, 0], [4, 2])


def test_the_default_dtype_is_that_of_torch(table):
    torch.set_default_dtype(torch.float64)
    try:
        assert Sets.from_table(table({"g": [0], "x": [0.1]}), by="g").values.item() == 0.1
    finally:
        torch.set_default_dtype(torch.float32)


GIVEN = {"g": [567, 567, 3], "x": [0.0, 1.0, 2.0], "y": [1, 2, 1], "t": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "g", "features": ["x"], "label": "y"}, "several values of 'y' in group 567"),
        ({"by": "g", "features": ["x"], "label": "t"}, "several values of 't' in group 567"),
        ({"by": "id", "features": ["x"]}, "frame has no column 'id', only .*'g'.*reset_index"),
        ({"by": "g", "features": ["z"]}, "frame has no column 'z'"),
        ({"by": "g", "features": []}, "features must name at least one column, got none"),
        ({"by": "g"}, r"column 't' must hold numbers to be a feature, got .*features=\[\.\.\.\]"),
        ({"by": "g", "features": ["x", "g"]}, "different columns, got 'g' more than once"),
        ({"by": "g", "features": ["x"], "label": "x"}, "got 'x' more than once"),
        ({"by": "g", "features": ["x"], "keys": [3]}, r"every group of 'g', got none for \[567\]"),
        ({"by": "g", "features": ["x"], "keys": [3, 567, 3]}, "different, got 3 more than once"),
        (
            {"by": "g", "features": ["x"], "keys": [3, 567, 9], "label": "y"},
            "group 9 has no rows; leave label out",
        ),
    ],
)
def test_mistakes_are_named(table, options, message):
    with pytest.raises(ValueError, match=message):
        Sets.from_table(table(GIVEN), **options)


def test_a_row_without_a_key_is_named(table):
    with pytest.raises(ValueError, match=r"got no value of 'g' in row 1 \(2 in total\)"):
        Sets.from_table(table({"g": ["a", None, "b", None], "x": [1.0, 2.0, 3.0, 4.0]}), by="g")


@pytest.mark.parametrize("label", [[None, None, "b"], ["a", None, "b"], [None, "a", "b"]])
def test_a_label_that_is_missing_is_named(table, label):
    frame = table({"g": [1, 1, 2], "x": [0.0, 1, 2], "l": np.array(label, dtype=object)})
    with pytest.raises(ValueError, match=r"label must be constant within a group, got .* group 1"):
        Sets.from_table(frame, by="g", label="l")


def test_a_label_of_pandas_that_is_missing_is_named():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for label in (["a", None, "b"], [None, "a", "b"]):
        texts = pandas.array(label, dtype="string")
        frame = pandas.DataFrame({"g": [1, 1, 2], "x": range(3), "l": texts})
        for given in (frame, {name: frame[name].to_numpy() for name in frame}):
            with pytest.raises(ValueError, match="got several values of 'l' in group 1"):
                Sets.from_table(given, by="g", label="l")


def test_nan_is_no_label(table):
    given = {"g": [1, 1, 2], "x": [0.0, 1.0, 2.0], "y": [0.0, 0.0, float("nan")]}
    with pytest.raises(ValueError, match="no value of 'y' in group 2"):
        Sets.from_table(table(given), by="g", label="y")


def test_what_is_no_table_is_refused():
    with pytest.raises(TypeError, match="a dict of columns, got list"):
        Sets.from_table([[1, 2]], by="g")
    with pytest.raises(
        TypeError, match=r"features must be a list of columns, got 'x'; use \['x'\]"
    ):
        Sets.from_table(GIVEN, by="g", features="x")
    with pytest.raises(ValueError, match=r"must have the same length, got {'g': 2, 'x': 1}"):
        Sets.from_table({"g": [1, 2], "x": [1.0]}, by="g")
    with pytest.raises(ValueError, match="columns of frame must have one axis"):
        Sets.from_table({"g": [1, 2], "x": [[1.0], [2.0]]}, by="g")


def test_a_lazy_table_must_be_collected():
    with pytest.raises(TypeError, match=r"LazyFrame; of a lazy table use frame\.collect\(\)"):
        Sets.from_table(as_polars(GIVEN).lazy(), by="g")
