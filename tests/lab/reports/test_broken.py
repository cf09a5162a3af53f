"""One broken run folder does not end a report: a warning names the file, the rest is drawn."""

import json
import os
import re
import shutil

import pytest

from torchsets.lab.figures import (
    Boxes,
    BoxSet,
    Frames,
    Heatmaps,
    Line,
    Lines,
    Matrix,
    MovingBars,
    Panel,
    Points,
    PointSet,
    Slider,
)
from torchsets.lab.records import Recorder, read_runs, write_json
from torchsets.lab.reports import collect_tables, merge_shards, write_pictures, write_report

FIGURES = {
    "lines": Lines([Panel([Line([0, 1], [1, 2])])]),
    "points": Points([PointSet([[0, 1], [1, 0]], slots=[0, 1], values=[0.5, 1.0])]),
    "heatmaps": Heatmaps([Matrix([[0, 1], [1, 0]])], range=(0, 1)),
    "boxes": Boxes([BoxSet([[0, 0, 1, 1], [0, 0, 0.5, 1]], weights=[0.5, 1.0])]),
    "frames": Frames(Slider("step", [0, 1]), [MovingBars([[1], [2]], range=(0, 2))]),
}
TASK = {"steps": 1, "seconds": 1.0, "parameters": 1}
CELL = {"table": "t", "model": "m", "column": "c", "seed": 0, "value": 1.0}
HUGE = 10**400  # more than a float can hold
INFINITE = 1e999
DEEP = "deep"  # stands for many lists within each other
GONE = "gone"  # stands for a key that is taken away
JSON = [  # a file, the way to a value in it, and what stands there instead
    *(("config", ["schema_version"], odd) for odd in ("one", None, [], 1.5, 99, GONE)),
    *(("config", ["experiment"], odd) for odd in (None, 3, GONE)),
    *(("config", ["scale"], odd) for odd in ([], GONE)),
    *(("config", ["tables"], odd) for odd in (None, "t", [1], {"t": 1})),
    *(("config", ["config"], odd) for odd in (None, [], "seed", GONE)),
    ("config", ["config", "seed"], DEEP),
    ("config", ["experiment"], DEEP),
    ("config", ["experiment"], "\ud800"),  # half a character
    *(("result", ["complete"], odd) for odd in (None, "yes", 1)),
    *(("result", ["tasks"], odd) for odd in (None, [], {"t": None}, {"t": {}}, {"t": [1]})),
    *(("result", ["tasks"], {"t": TASK | {"seconds": odd}}) for odd in (None, INFINITE, HUGE)),
    *(("result", ["tables"], odd) for odd in (None, {"t": None}, {"t": {"caption": 1}})),
    *(("result", ["results"], odd) for odd in (None, {}, [None], [{}], [[1]], DEEP)),
    *(("result", ["results"], [CELL | {"value": odd}]) for odd in ("1", HUGE, INFINITE, True)),
    *(("result", ["results"], [CELL | odd]) for odd in ({"seed": "0"}, {"model": None})),
    *(("environment", ["versions"], odd) for odd in (None, [], {"torch": 2})),
    *(("environment", ["hardware"], odd) for odd in (None, {}, {"device": 1}, GONE)),
    ("environment", ["hardware", "cores"], "two"),
    ("environment", ["hardware", "note"], DEEP),
    *(("environment", ["started"], odd) for odd in (None, 7, GONE)),
    *(("environment", ["commit"], odd) for odd in (7, [])),
    *(("figures/lines", ["kind"], odd) for odd in (None, "pie", ["lines"], {}, GONE)),
    *(("figures/lines", ["data"], odd) for odd in (None, [], 1, {}, DEEP, GONE)),
    *(("figures/lines", ["alt"], odd) for odd in (None, 1, GONE)),
    *(("figures/lines", ["data", "panels"], odd) for odd in (None, [None], [[]], [{}], "panels")),
    *(("figures/lines", ["data", "columns"], odd) for odd in (None, 1.5, "two")),
    ("figures/lines", ["data", "extra"], 1),
    *(
        ("figures/lines", ["data", "panels", 0, "lines", 0, "x"], odd)
        for odd in (None, "ab", [0], [0, "a"], [0, HUGE], [0, INFINITE], [[0], [1]], [0, True])
    ),
    *(("figures/lines", ["data", "panels", 0, "x_range"], odd) for odd in ([0], [0, None], 1)),
    *(
        ("figures/points", ["data", "panels", 0, "points"], odd)
        for odd in (None, [[0], [1]], [0, 1], [[0, "a"]], [[], []])
    ),
    *(("figures/points", ["data", "panels", 0, "slots"], odd) for odd in ([0, 0.5], [-99, 0])),
    *(("figures/points", ["data", "panels", 0, "values"], odd) for odd in ([7.0, 7.0], [0.5, "a"])),
    *(
        ("figures/heatmaps", ["data", "panels", 0, "matrix"], odd)
        for odd in (None, [], [1], [[0, 1], [0]], [["a"]])
    ),
    *(("figures/heatmaps", ["data", "range"], odd) for odd in ([0], [0, INFINITE], "all")),
    ("figures/heatmaps", ["data", "colours"], "green"),
    *(
        ("figures/boxes", ["data", "panels", 0, "boxes"], odd)
        for odd in ([[0, 0, 1]], [[0, 0, 1, 1]], [0, 1], [[0, 0, 1, "a"]])
    ),
    ("figures/boxes", ["data", "panels", 0, "weights"], [1.0]),
    *(("figures/frames", ["data", "slider"], odd) for odd in (None, {}, {"label": 1})),
    ("figures/frames", ["data", "slider", "values"], [0, 1, 2]),
    ("figures/frames", ["data", "start"], None),
    *(("figures/frames", ["data", "panels", 0, "kind"], odd) for odd in ("pie", None, [])),
    *(("figures/frames", ["data", "panels", 0, "bars"], odd) for odd in ([], [1, 2], [[1], ["a"]])),
]
BYTES = [b"", b"{", b"null", b"[]", b'"text"', b"3", b"\xff\xfe", b"[" * 100_000]
LINES = [  # of the learning curves
    b"null",
    b"[]",
    b"{",
    b"\xff",
    b"[" * 100_000,
    b'{"step": 1, "loss": 1}',
    b'{"task": null, "step": 1}',
    b'{"task": ["a"], "step": 1}',
    b'{"task": "a", "loss": 1}',
    b'{"task": "a", "step": "1"}',
    b'{"task": "a", "step": 1.5}',
    b'{"task": "a", "step": true}',
    b'{"task": "a", "step": 1, "loss": "low"}',
    b'{"task": "a", "step": 1, "loss": [1]}',
    b'{"task": "a", "step": 1, "loss": 1e999}',
    b'{"task": "a", "step": 1, "loss": NaN}',
    b'{"task": "a", "step": 1, "loss": %d}' % HUGE,
    b'{"task": "a", "step": %d, "loss": 1}' % HUGE,
    b'{"task": "\\ud800", "step": 1}',
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder of two run folders: ``whole``, and ``broken``, which is yet to be broken."""
    root = tmp_path_factory.mktemp("template")
    for name in ("whole", "broken"):
        recorder = Recorder.start(
            root / name, experiment=name, scale="smoke", config={"seed": 0, "steps": 1}
        )
        recorder.add_result("t", model="m", column="c", value=1.0)
        recorder.add_task("task", steps=1, seconds=0.5, parameters=1)
        for kind, figure in FIGURES.items() if name == "broken" else ():
            recorder.add_figure(kind, figure, title="t", caption="c", alt="a")
        recorder.finish()
    return root


@pytest.fixture
def root(template, tmp_path):
    """A copy without figures, which take time to draw."""
    copied = shutil.copytree(
        template, tmp_path / "runs", ignore=shutil.ignore_patterns("figures", ".lock")
    )
    (copied / "broken" / "figures").mkdir()
    return copied


def check_report(root, broken):
    """The whole run is reported, and a warning names the broken file."""
    with pytest.warns(UserWarning, match=re.escape(str(broken))):
        runs = report(root)
    assert "<h2>whole " in (root / "report.html").read_text()
    assert collect_tables(runs)


def report(root):
    runs = merge_shards(read_runs([root]))
    write_report(runs, root / "report.html")
    return runs


@pytest.mark.parametrize(("name", "way", "odd"), JSON)
def test_a_wrong_value_is_told(name, way, odd, template, root):
    path = root / "broken" / f"{name}.json"
    content = place = json.loads((template / "broken" / f"{name}.json").read_text())
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = odd
    if odd == GONE:
        del place[way[-1]]
    path.write_text(json.dumps(content).replace(f'"{DEEP}"', "[" * 900 + "]" * 900))
    check_report(root, path)


@pytest.mark.parametrize("content", BYTES)
@pytest.mark.parametrize("name", ["config", "result", "environment", "figures/lines"])
def test_a_file_that_is_no_json_object_is_told(name, content, root):
    path = root / "broken" / f"{name}.json"
    path.write_bytes(content)
    check_report(root, path)


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_line_of_a_curve_is_told(line, root):
    path = root / "broken" / "metrics.jsonl"
    path.write_bytes(b'{"task": "a", "step": 1, "loss": 1.0}\n' + line + b"\n")
    check_report(root, path)


def link_to_itself(path):
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *(
            (make, name)
            for make in (os.mkfifo, os.mkdir, link_to_itself)
            for name in (
                "result.json",
                "environment.json",
                "environment-2.json",
                "figures/lines.json",
            )
        ),
        (os.mkfifo, "metrics.jsonl"),
        (os.mkdir, "metrics.jsonl"),
    ],
)
def test_a_pipe_a_folder_or_a_loop_in_place_of_a_file_is_told(make, name, root):
    path = root / "broken" / name
    path.unlink(missing_ok=True)
    make(path)
    check_report(root, path)


@pytest.mark.parametrize("make", [os.mkfifo, link_to_itself])
def test_a_configuration_that_is_no_file_is_told(make, root):
    (root / "broken" / "config.json").unlink()
    make(root / "broken" / "config.json")
    check_report(root, root / "broken")


@pytest.mark.parametrize("name", ["result.json", "environment.json"])
def test_a_missing_file_is_told(name, root):
    (root / "broken" / name).unlink()
    check_report(root, root / "broken" / name)


def test_a_figure_that_cannot_be_drawn_leaves_the_others(template, root):
    for name in ("lines", "points"):
        text = (template / "broken" / "figures" / f"{name}.json").read_text()
        text = text.replace("[[0, 1], [1, 0]]", "[[0], [1]]")
        (root / "broken" / "figures" / f"{name}.json").write_text(text)
    runs = read_runs([root])
    with pytest.warns(UserWarning, match=r"points\.json is left out: it cannot be drawn"):
        write_report(runs, root / "report.html")
    assert (root / "report.html").read_text().count("<figure>") == 1
    with pytest.warns(UserWarning, match=r"points\.json is left out: it cannot be drawn"):
        paths = write_pictures(runs, root / "pictures")
    assert [path.name for path in paths] == ["broken-lines.svg"]
    assert sorted((root / "pictures").iterdir()) == paths


def test_a_training_that_took_no_time_is_described(root):
    path = root / "broken" / "result.json"
    content = json.loads(path.read_text())
    content["tasks"]["task"] |= {"seconds": 0, "data_seconds": 5}
    path.write_text(json.dumps(content))
    write_report(read_runs([root]), root / "report.html")
    assert "<td>0 s</td>" in (root / "report.html").read_text()


@pytest.mark.parametrize(
    "content",
    [
        {"shards": None},
        {"shards": 3},
        {"shards": ["broken"]},
        {"shards": [{"name": "broken"}]},
        {"shards": [{"folder": "broken"}], "merge": {"c": ["min"]}},
        {"shards": [{"folder": "broken"}], "merge": [1]},
        {"shards": [{"folder": ["broken"]}], "table": 3},
    ],
)
def test_a_strange_list_of_shards_does_no_harm(content, root):
    write_json(root / "table.json", content)
    os.mkfifo(root / "pipe.json")
    assert len(merge_shards(read_runs([root]))) == 2


def test_shards_whose_settings_are_nested_are_merged(root):
    for name, sizes in (("whole", [[1, 2], None]), ("broken", [{"a": 1}, [1, 2]])):
        path = root / name / "config.json"
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "config": {"seed": 0, "sizes": sizes}}))
    shards = [{"folder": "whole"}, {"folder": "broken"}]
    write_json(root / "table.json", {"table": "t", "shards": shards})
    (run,) = merge_shards(read_runs([root]))
    assert run.config == {"seed": 0, "sizes": [None, {"a": 1}, [1, 2]]}
