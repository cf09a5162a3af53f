import pytest
import torch

from torchsets.data import random_polygons
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.polygons.auto_encode import METRICS, metric
from torchsets.lab.experiments.polygons.configs import AUTO_ENCODE
from torchsets.lab.reports import thesis_tables


def run_changed(folder, **changes):
    """Run at scale smoke with some fields changed; its numbers by table, row and column."""
    config = AUTO_ENCODE.config_at("smoke", **changes)
    run = run_experiment("polygons", config, scale="smoke", folder=folder)
    return {(cell.table, cell.model, cell.column): cell.value for cell in run.cells}


@pytest.mark.parametrize(
    ("name", "expected"), [("direct", 0.5), ("hungarian", 0.5), ("chamfer", 1)]
)
def test_metrics_are_means_over_points_and_coordinates(name, expected, generator):
    polygons = random_polygons(5, 4, generator=generator)
    moved = polygons + torch.tensor([0.1, 0.0])
    hundredths = 100 * metric(name, moved, polygons)
    torch.testing.assert_close(hundredths, torch.full((5,), float(expected)), rtol=1e-4, atol=0)


def test_the_order_of_the_points_matters_for_the_direct_metric_alone(generator):
    polygons = random_polygons(5, 4, generator=generator)
    shuffled = polygons.roll(1, dims=1)
    values = {name: metric(name, shuffled, polygons).max().item() for name in METRICS}
    assert values["direct"] > 0.5
    assert values["chamfer"] == pytest.approx(0, abs=1e-6)
    assert values["hungarian"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", METRICS)
def test_the_random_baseline_has_the_thesis_scale(name, tmp_path):
    key = f"fspool/polygons-{name}"
    changes = {"models": ("random",), "sizes": (4, 16), "zeroed_sizes": ()}
    ours = run_changed(tmp_path, test_sets=4096, **changes)  # more than the thesis': a variant
    table = thesis_tables()[key]
    row = next(row for row in table.rows if row.model == "Random")
    for column in ("n=4", "n=16"):
        printed = row.values[table.columns.index(column)].mean
        # Both are means over a sample of random rotations.
        found = ours[f"{key}/variants", "Random, test_sets=4096", column]
        assert found == pytest.approx(printed, rel=0.05)


def test_the_controls_and_the_enlarged_baselines_are_measured(tmp_path):
    ours = run_changed(
        tmp_path, models=(), sizes=(), zeroed_sizes=(4,), enlarged_sizes=(3,), steps=1
    )
    rows = {(model, column) for table, model, column in ours if "chamfer/variants" in table}
    large = [
        f"MLP 128, {pooling} encoder + {loss}"
        for loss in ("Chamfer", "Hungarian")
        for pooling in ("fspool", "sum", "mean", "max")
    ]
    assert rows == {
        *((f"FSPool, latent {kind}, steps=1", "n=4") for kind in ("zeroed", "constant")),
        *((f"{model}, steps=1", "n=3") for model in large),
    }


@pytest.mark.slow
def test_fspool_reconstructs_squares_and_the_mlp_does_not(tmp_path):
    models = ("fspool", "mlp-hungarian")
    ours = run_changed(
        tmp_path, models=models, sizes=(4,), zeroed_sizes=(4,), steps=2000, test_sets=512
    )
    chamfer = {
        model.removesuffix(", steps=2000, test_sets=512"): value
        for (table, model, _), value in ours.items()
        if "chamfer" in table
    }
    assert chamfer["FSPool"] < 0.05
    assert chamfer["MLP + Hungarian"] > 20 * chamfer["FSPool"]
    assert chamfer["FSPool, latent zeroed"] > 5  # dead at its start
    assert chamfer["FSPool, latent constant"] < 0.05  # the order alone carries the rotation
