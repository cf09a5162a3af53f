import pytest

from torchsets.lab.experiments.launch import run_experiment


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    return run_experiment("count-toy", scale="smoke", folder=tmp_path_factory.mktemp("count-toy"))


def test_every_cell_of_every_sweep_is_recorded(smoke):
    cells = [(cell.table, cell.model, cell.column) for cell in smoke.cells]
    models = ["Counting module", "Sum of weights", "Suppression, tuned"]
    expected = {
        *(("count-toy/q = 0.5", model, f"l={side}") for model in models for side in ("0.5", "1")),
        *(("count-toy/l = 0.5", model, f"q={q}") for model in models for q in ("0", "0.5", "1")),
    }
    assert set(cells) == expected
    assert set(smoke.descriptions) == {table for table, _, _ in expected}
    assert all(0 <= cell.value <= 100 for cell in smoke.cells)


def test_the_columns_of_a_table_rise(smoke):
    recorded = [cell.column for cell in smoke.cells if cell.table == "count-toy/l = 0.5"]
    assert list(dict.fromkeys(recorded)) == ["q=0", "q=0.5", "q=1"]  # tables keep this order


def test_a_setting_of_two_sweeps_is_trained_once_and_recorded_in_both(smoke):
    settings = ["l=0.5 q=0.5", "l=1 q=0.5", "l=0.5 q=0", "l=0.5 q=1"]
    expected = {f"{name}/{setting}" for name in ("counter", "sum") for setting in settings}
    assert set(smoke.tasks) == expected
    cells = {(cell.table, cell.model, cell.column): cell.value for cell in smoke.cells}
    for model in ("Counting module", "Sum of weights", "Suppression, tuned"):
        over_sides = cells["count-toy/q = 0.5", model, "l=0.5"]
        assert over_sides == cells["count-toy/l = 0.5", model, "q=0.5"]


def test_it_draws_what_was_learned(smoke):
    assert set(smoke.figures) == {
        "samples",
        "accuracies",
        "functions-l",
        "functions-q",
        "matrices",
        "sample-l",
        "sample-q",
    }
    cells = {(cell.table, cell.model, cell.column): cell.value for cell in smoke.cells}
    for panel in smoke.figures["accuracies"].figure.panels:
        varied = panel.x_label[-1]
        for line in panel.lines:
            measured = [
                cells[f"count-toy/{panel.title}", line.label, f"{varied}={x:g}"] for x in line.x
            ]
            assert line.y == pytest.approx(measured, rel=1e-4)  # figures have five digits


def test_suppression_finds_the_true_boxes_without_noise(smoke):
    cells = {(cell.model, cell.column): cell.value for cell in smoke.cells}
    assert cells["Suppression, tuned", "q=0"] > 95
    assert cells["Suppression, tuned", "q=1"] < 40
