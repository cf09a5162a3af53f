"""Pieces put together are what one run would have been."""

from torchsets.lab.experiments.tables import Redrawn

from torchsets.lab.records import Recorder, read_run, write_json
from torchsets.lab.reproduction import Job, Piece, merge_pieces, merge_runs
from torchsets.lab.reproduction.folders import Place
from torchsets.lab.reproduction.outcome import write_outcome


def record(folder, *, size, results, seed=0):
    config = {"sizes": [size], "width": 16, "seed": seed, "noise": size / 10}
    recorder = Recorder.start(folder, experiment="toy", scale="smoke", config=config)
    for column, value in results.items():
        recorder.add_result("toy/table", model="FSPool", column=column, value=value)
    recorder.add_figure("own" if size == 2 else "shared", **FIGURE)
    recorder.add_figure("both", **FIGURE)
    recorder.add_metrics(f"n={size}/fspool", 1, {"loss": 0.5})
    recorder.add_task(f"n={size}/fspool", steps=1, seconds=1.0, parameters=3)
    if size != 8:
        recorder.finish()
    return read_run(folder)


FIGURE = {"kind": "lines", "title": "Lines", "caption": "", "alt": "", "data": {"panels": []}}


def merged(tmp_path, choices=None):
    runs = {
        f"n={size}": record(tmp_path / str(size), size=size, results=results)
        for size, results in ((8, {"n=8": 1.0, "best": 8}), (2, {"n=2": 2.0, "best": 2}))
    }
    return merge_runs(runs, choices or {})


def test_numbers_curves_and_tasks_are_gathered(tmp_path):
    run = merged(tmp_path)
    cells = {result["column"]: result["value"] for result in run.result["results"]}
    assert (cells["n=8"], cells["n=2"]) == (1.0, 2.0)
    assert set(run.result["tasks"]) == {"n=8/fspool", "n=2/fspool"}
    assert [line["task"] for line in run.metrics] == ["n=8/fspool", "n=2/fspool"]
    assert not run.result["complete"], "one of them is not"


def test_a_column_may_take_the_smallest_or_the_largest_of_the_pieces(tmp_path):
    for choice, expected in (("min", 2), ("max", 8)):
        run = merged(tmp_path / choice, {"best": choice})
        cells = {result["column"]: result["value"] for result in run.result["results"]}
        assert cells["best"] == expected
        assert len(run.result["results"]) == 3


def test_figures_of_the_same_name_say_which_piece_they_are_of(tmp_path):
    figures = merged(tmp_path).figures
    titles = {name: figure["title"] for name, figure in figures.items()}
    assert titles == {
        "own": "Lines",
        "shared": "Lines",
        "n=8 both": "Lines (n=8)",
        "n=2 both": "Lines (n=2)",
    }


def test_columns_rise_whatever_the_order_in_which_the_pieces_ran(tmp_path):
    jobs = []
    for size in (16, 8, 2):
        record(tmp_path / str(size), size=size, results={f"n={size}": 1.0})
        piece = Piece(f"n={size}", "toy", "smoke", [], {"seed": 0})
        jobs.append(Job(piece, Place(tmp_path / str(size), "done"), tmp_path / "log.txt", "done"))
    text, files = write_outcome(Redrawn("toy", "toy", {}), jobs, tmp_path)
    assert text.splitlines()[1].split() == ["n=2", "n=8", "n=16"]
    assert [path.name for path in files] == ["toy.txt", "toy.json", "toy.html"]


def test_a_configuration_lists_the_values_of_what_differs(tmp_path):
    config = merged(tmp_path).config
    assert config == {"sizes": [2, 8], "width": 16, "seed": 0, "noise": [0.2, 0.8]}


def test_a_report_finds_the_pieces_of_a_table_and_leaves_other_runs_alone(tmp_path):
    runs = [
        record(tmp_path / f"{size}-{seed}", size=size, seed=seed, results={f"n={size}": 1.0})
        for size, seed in ((2, 0), (4, 0), (4, 1), (16, 0))
    ]
    listed = [{"folder": name} for name in ("2-0", "4-0", "4-1")]
    write_json(tmp_path / "key.json", {"table": "fspool/polygons-chamfer", "pieces": listed})
    (tmp_path / "other.json").write_text("[]", encoding="utf-8")
    first, second, alone = merge_pieces(runs)
    assert [result["column"] for result in first.result["results"]] == ["n=2", "n=4"]
    assert (first.seed, second.seed) == (0, 1)
    assert alone == runs[3]
