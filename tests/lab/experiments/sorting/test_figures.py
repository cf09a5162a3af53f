import pytest
import torch

from torchsets.lab.experiments.sorting.figures import draw_comparison, draw_sorting_steps
from torchsets.lab.records import Recorder, read_run
from torchsets.permutations import PairwiseCost, PermutationOptimiser, optimise_permutation


@pytest.fixture
def recorder(tmp_path):
    return Recorder.start(tmp_path / "run", experiment="x", scale="smoke", config={"seed": 0})


def test_the_comparison_is_drawn_antisymmetric(recorder):
    torch.manual_seed(0)
    model = PermutationOptimiser(PairwiseCost(1, 4)).double()
    draw_comparison(recorder, model, trained=10)
    figures = read_run(recorder.folder).figures
    matrices = {
        name: [torch.tensor(panel.matrix) for panel in figures[name].figure.panels]
        for name in ("comparison-F", "comparison-f-inner")
    }
    for matrix in matrices["comparison-F"]:
        assert matrix.any()
        torch.testing.assert_close(matrix, -matrix.mT)
    for matrix in matrices["comparison-f-inner"]:
        assert not torch.allclose(matrix, -matrix.mT)


def test_sorting_steps_end_with_the_sorted_numbers(recorder):
    numbers = torch.tensor([[[0.9], [0.1], [0.6], [0.3]]], dtype=torch.float64)
    costs = numbers - numbers.mT
    softs = [optimise_permutation(costs, steps=step, step_size=5.0) for step in range(7)]
    draw_sorting_steps(recorder, numbers, costs, softs, trained=4)
    matrix, bars, cost = read_run(recorder.folder).figures["sorting-steps"].figure.panels
    assert matrix.rows == ["0.90", "0.10", "0.60", "0.30"]
    assert matrix.matrices[0] == [[0.25] * 4] * 4
    assert bars.bars[0] == [0.475] * 4
    assert bars.marks == [[0.1, 0.3, 0.6, 0.9]]
    torch.testing.assert_close(
        torch.tensor(bars.bars[-1]), torch.tensor(bars.marks[0]), atol=0.02, rtol=0
    )  # the permutation is soft
    (line,) = cost.lines
    assert all(after < before for before, after in zip(line.y[:3], line.y[1:4], strict=True))
