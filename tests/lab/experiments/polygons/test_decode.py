import pytest
import torch

from torchsets.data import turned_polygons
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.polygons.configs import DECODE, DECODERS
from torchsets.lab.experiments.polygons.decode import corner_errors


def run_changed(folder, **changes):
    config = DECODE.config_at("smoke", **changes)
    return run_experiment("dspn-polygons", config, scale="smoke", folder=folder)


def test_smoke_run_measures_every_model_and_draws(tmp_path):
    run = run_changed(tmp_path, steps=2, angles=11)
    cells = {(cell.table, cell.model): cell.value for cell in run.cells}
    for task in ("predict", "auto-encode"):
        for row in DECODERS.values():
            worst = cells[f"dspn-polygons/{task}-worst", row]
            assert 0 < cells[f"dspn-polygons/{task}-mean", row] <= worst
        (panel,) = run.figures[f"{task}-errors"].figure.panels
        assert [line.label for line in panel.lines] == list(DECODERS.values())
        assert len(panel.lines[0].x) == len(panel.lines[0].y) == 11
        steps = run.figures[f"{task}-steps"].figure
        assert len(steps.panels) == 2 * steps.columns
        descent = run.figures[f"{task}-descent"].figure
        assert descent.slider.values == list(range(11))
        for panel, shown in zip(descent.panels, (0, steps.columns), strict=False):
            start = torch.tensor(steps.panels[shown].points)
            torch.testing.assert_close(torch.tensor(panel.points[0]), start)
            assert len(panel.points) == 11


def test_errors_are_distances_in_the_best_matching():
    polygons = turned_polygons(torch.tensor([0.3, 0.9]), 5)
    moved = polygons.roll(2, dims=1).clone()
    moved[1, 3] += torch.tensor([0.03, -0.04])
    errors = corner_errors(moved, polygons)
    assert errors[0].max() == 0
    assert sorted(errors[1].tolist())[-2:] == pytest.approx([0, 0.05], abs=1e-6)


@pytest.mark.slow
def test_implicit_dspn_learns_squares_where_the_mlp_jumps(tmp_path):
    run = run_changed(
        tmp_path,
        models=("implicit", "mlp"),
        tasks=("predict",),
        steps=600,
        angles=1001,
        latent=256,
        test_steps=40,
        test_starts=5,
    )
    worst = {cell.model: cell.value for cell in run.cells if cell.table.endswith("worst")}
    assert worst["DSPN, implicit"] < 0.2 < worst["MLP"]
