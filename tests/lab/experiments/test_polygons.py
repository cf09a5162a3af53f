import pytest
import torch

from torchsets.data import random_polygons
from torchsets.lab.experiments.values import config_from_words
from torchsets.lab.experiments.polygons.auto_encode import Config, build_model, metric, run
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import thesis_tables

METRICS = ("direct", "chamfer", "hungarian")


def run_words(folder, *words):
    config = config_from_words("polygons", words, "smoke")
    run(config, Recorder.start(folder, experiment="polygons", scale="smoke", config={"seed": 0}))
    cells = read_run(folder).result["results"]
    return {(cell["table"], cell["model"], cell["column"]): cell["value"] for cell in cells}


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
    words = ["models=random", "sizes=4,16", "zeroed_sizes=", "test_sets=4096"]
    ours = run_words(tmp_path / "run", *words)
    table = thesis_tables()[f"fspool/polygons-{name}"]
    row = next(row for row in table["rows"] if row["model"] == "Random")
    for column in ("n=4", "n=16"):
        printed = row["values"][table["columns"].index(column)]["mean"]
        # Both are means over a sample of random rotations.
        assert ours[f"fspool/polygons-{name}", "Random", column] == pytest.approx(printed, rel=0.05)


@pytest.mark.parametrize(
    ("name", "passes"), [("fspool", True), ("fspool-zeroed", False), ("fspool-constant", False)]
)
def test_in_the_controls_the_encoded_vector_does_not_matter(name, passes, generator):
    torch.manual_seed(0)
    model = build_model(Config(), name, 4)
    encoder = getattr(model, "auto_encoder", model)
    for bias in (part.bias for part in encoder.modules() if hasattr(part, "bias")):
        torch.nn.init.normal_(bias)
    polygons = random_polygons(2, 4, generator=generator)
    before = model(polygons)
    torch.nn.init.normal_(encoder.vector_encoder[-1].weight)
    assert torch.equal(model(polygons), before) is not passes


def test_the_enlarged_baselines_are_large_and_use_each_pooling():
    for pooling in ("fspool", "sum", "mean", "max"):
        model = build_model(Config(), f"mlp-chamfer-{pooling}-large", 16)
        assert model.decoder[0].weight.shape == (128, 128)
        assert type(model.encoder.pool).__name__.lower().startswith(pooling)


@pytest.mark.slow
def test_fspool_reconstructs_squares_and_the_mlp_does_not(tmp_path):
    words = ["models=fspool,mlp-hungarian", "sizes=4", "zeroed_sizes=4", "steps=2000"]
    ours = run_words(tmp_path / "run", *words, "test_sets=512")
    chamfer = {model: value for (table, model, _), value in ours.items() if "chamfer" in table}
    assert chamfer["FSPool"] < 0.05
    assert chamfer["MLP + Hungarian"] > 20 * chamfer["FSPool"]
    assert chamfer["FSPool, latent zeroed"] > 5  # dead at its start
    assert chamfer["FSPool, latent constant"] < 0.05  # the order alone carries the rotation
