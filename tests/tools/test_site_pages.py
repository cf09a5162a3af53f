"""What pages say about the records is made from the records."""

import re
from pathlib import Path

import pytest

import write_index
from site_pages import coverage, index, parts, records
from torchsets.lab.reports.thesis import thesis_tables

ROOT = Path(__file__).parents[2]


def test_the_index_of_results_is_that_of_the_records():
    text = write_index.INDEX.read_text()
    assert write_index.with_generated_parts(text) == text, "run: make index"


def test_marks_that_are_missing_are_an_error():
    with pytest.raises(ValueError, match="must have the marks of runs"):
        write_index.with_generated_parts("# Recorded runs\n")


def test_the_command_of_a_reproduced_table_names_what_differs_from_its_scale():
    table = index.runs_table()
    (line,) = [one for one in table.splitlines() if one.startswith("| [numbering/64-elements](")]
    command = "torchsets run numbering elements=64 models=idspn data=1 --scale cpu"
    assert line.endswith(f"| `{command}` |")
    (line,) = [one for one in table.splitlines() if one.startswith("| [set-estimators/cpu](")]
    assert line.endswith("| - | `torchsets run set-estimators --scale cpu` |")  # it times itself


@pytest.mark.parametrize(
    ("group", "command"),
    [
        ("mnist-classify/fspool-mnist", "mnist-classify sigmas=0.05 --scale cpu"),
        (
            "polygons/fspool-polygons-chamfer",
            "polygons zeroed_sizes= enlarged_sizes= --scale cpu",
        ),
    ],
)
def test_the_command_of_a_group_of_shards_has_the_fields_of_them_all(group, command):
    (line,) = [one for one in index.runs_table().splitlines() if one.startswith(f"| [{group}](")]
    assert line.endswith(f"| `torchsets run {command}` |")


def test_every_folder_of_results_has_a_finding():
    folders = {path.name for path in records.RESULTS.iterdir() if path.is_dir()}
    assert set(index.findings()) == folders, "results/README.md: a line for each folder"


def test_the_thesis_has_31_result_tables():
    keys = coverage.result_tables()
    assert len(keys) == 31
    assert "fspool/mnist" in keys
    assert not any(key.endswith(("-text", "-stats", "-figure")) for key in keys)


def test_coverage_counts_rows_that_the_thesis_did_not_quote():
    one = coverage.coverage("fspool/graph-bio")
    assert len(thesis_tables()["fspool/graph-bio"].rows) == 10
    assert one.rows == one.rows_filled == 2
    assert one.state == "all of it"
    assert coverage.coverage("fspool/mnist").state == "every row"
    assert coverage.coverage("fspool/graph-params").state == "every row"
    assert coverage.coverage("dspn/box").state == "on other data"


def test_numbers_from_generated_data_are_counted_apart(monkeypatch):
    one = coverage.coverage("perm/vqa")
    assert (one.rows_filled, one.rows_elsewhere, one.state) == (0, 3, "on other data")
    one = coverage.coverage("fspool/clevr-epochs")  # by lower accuracies than the thesis'
    assert (one.rows_filled, one.rows_elsewhere, one.state) == (0, 4, "on other data")
    monkeypatch.setattr(coverage, "STAND_INS", {})
    some = coverage.coverage("fspool/clevr-epochs")
    assert (some.rows_elsewhere, some.state) == (1, "no")  # FSPool alone


@pytest.mark.parametrize(
    ("experiment", "page"),
    [
        ("count-toy", "counting"),
        ("mosaics-classify", "permutations"),
        ("clevr-questions", "fspool"),
        ("dspn-mnist", "dspn"),
        ("numbering", "beyond"),
        ("an experiment that was deleted", "beyond"),
    ],
)
def test_each_experiment_has_a_page(experiment, page):
    assert records.chapter_of(experiment) == page
    assert (ROOT / "docs" / "thesis" / f"{page}.md").is_file()


def test_two_tables_reproduced_in_one_folder_are_one_run_with_all_shards():
    place = records.RESULTS / "dspn-boxes" / "last-set"
    assert len(list(place.glob("dspn-box-*.json"))) == 2
    (one,) = [run for run in records.all_runs() if run.folder == place]
    rows = {cell.model for cell in one.cells}
    assert {folder.name for folder in place.iterdir() if folder.is_dir()} == {
        "lstm fspool,seed=0",
        "mlp fspool,seed=0",
        *(f"unrolled stages-fspool {pooling},seed=0" for pooling in ("fspool", "sum", "max")),
    }
    for row in ("RNN baseline", "MLP baseline", "DSPN (30 iters)", "DSPN-RN-Sum (30 iters)"):
        assert any(model.startswith(f"{row}, ") for model in rows)


def test_a_recorded_table_takes_its_place_in_the_page():
    page = parts.Parts("page.md")
    markdown = parts.record_tables(page, "fspool/mnist in mnist-classify/fspool-mnist")
    place = re.search(r'<div class="records" data-part="0"></div>', markdown)[0]
    html = page.insert(f"<p>before</p>{place}<p>after</p>")
    assert "ours, 3 seeds" in html
    assert "<td>84.70 ± 1.900</td>" in html  # the thesis'
    with pytest.raises(ValueError, match=r"page.md: results/polygons has no table fspool/mnist"):
        parts.record_tables(page, "fspool/mnist in polygons")


def test_directives_of_all_pages_are_known():
    hook = (ROOT / "tools" / "site_hook.py").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        for name, options in re.findall(r"<!-- records: (\S+) ?(.*?) -->", path.read_text()):
            assert f'"{name}":' in hook, f"{path} has a directive {name}"
            if name == "table":
                assert parts.record_tables(parts.Parts(str(path)), options)


def test_commands_do_not_show_the_folders_of_a_machine():
    assert "/work/" not in index.runs_table()
    assert "/tmp/" not in index.runs_table()
