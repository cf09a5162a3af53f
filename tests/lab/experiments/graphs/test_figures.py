import numpy as np
import pytest
import torch

from torchsets.lab.experiments.graphs.figures import draw_curves, draw_differences, draw_weights
from torchsets.lab.experiments.graphs.selection import Curves, Difference
from torchsets.lab.records import Recorder, read_run


@pytest.fixture
def recorder(tmp_path):
    return Recorder.start(tmp_path / "run", experiment="x", scale="smoke", config={"seed": 0})


def panels(recorder, name):
    return read_run(recorder.folder).figures[name].figure.panels


def test_curves_are_means_over_folds_with_the_chosen_epoch_marked(recorder):
    validation = np.array([[[1.0, 1, 1], [1, 1, 1]], [[2.0, 7, 3], [2, 9, 3]]])  # second setting
    test = np.array([[[0.0, 0, 0], [0, 0, 0]], [[10.0, 20, 30], [20, 40, 60]]])
    draw_curves(recorder, "MUTAG", {"GIN-Base": Curves(validation, test)})
    chosen, tested = panels(recorder, "accuracy MUTAG")
    assert [line.y for line in chosen.lines] == [[2, 8, 3], [8]]
    assert [line.y for line in tested.lines] == [[15, 30, 45], [30]]
    assert tested.lines[1].x == [2]
    assert tested.lines[0].x == [1, 2, 3]


def test_weights_have_a_panel_for_each_block_on_one_scale(recorder):
    blocks = [torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]), torch.full((2, 3), -1.0)]
    draw_weights(recorder, "MUTAG", "GIN-FSPool, k=20", blocks)
    first, second = panels(recorder, "weights MUTAG GIN-FSPool k=20")
    assert [line.y for line in first.lines] == [[1, 2, 3], [3, 2, 1], [2, 2, 2]]
    assert first.lines[0].x == [0, 0.5, 1]
    assert first.y_range == second.y_range == pytest.approx((-1.1, 3.1))


def test_differences_reach_one_standard_error_to_both_sides(recorder):
    found = {"a minus b": Difference(2.0, 0.5, 10), "c minus d": Difference(-1.0, float("nan"), 1)}
    draw_differences(recorder, "MUTAG", found)
    (panel,) = panels(recorder, "differences MUTAG")
    bars = {line.label: (line.x, line.y) for line in panel.lines if line.label}
    assert bars == {"a minus b": ([1.5, 2.5], [2, 2]), "c minus d": ([-1, -1], [1, 1])}
