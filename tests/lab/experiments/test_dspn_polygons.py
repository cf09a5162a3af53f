import json
import math

import pytest
import torch

from torchsets.data import turned_polygons
from torchsets.lab.experiments.polygons.decode import ROWS, Config, PolygonModel, corner_errors, run
from torchsets.lab.experiments.values import config_from_words
from torchsets.lab.records import Recorder, read_run


def run_words(folder, *words):
    config = config_from_words("dspn-polygons", words, "smoke")
    run(config, Recorder.start(folder, experiment="dspn-polygons", scale="smoke", config={}))
    return read_run(folder)


def test_smoke_run_measures_every_model_and_draws(tmp_path):
    record = run_words(tmp_path / "run", "steps=2", "angles=11")
    cells = {(cell["table"], cell["model"]): cell["value"] for cell in record.result["results"]}
    for task in ("predict", "auto-encode"):
        for row in ROWS.values():
            worst = cells[f"dspn-polygons/{task}-worst", row]
            assert 0 < cells[f"dspn-polygons/{task}-mean", row] <= worst
        errors = json.loads((tmp_path / "run/figures" / f"{task}-errors.json").read_text())
        (panel,) = errors["data"]["panels"]
        assert [line["label"] for line in panel["lines"]] == list(ROWS.values())
        assert len(panel["lines"][0]["x"]) == len(panel["lines"][0]["y"]) == 11
        steps = json.loads((tmp_path / "run/figures" / f"{task}-steps.json").read_text())
        assert len(steps["data"]["panels"]) == 2 * steps["data"]["columns"]
        descent = record.figures[f"{task}-descent"]["data"]
        assert descent["slider"]["values"] == list(range(11))
        for panel, shown in zip(descent["panels"], (0, steps["data"]["columns"]), strict=False):
            start = torch.tensor(steps["data"]["panels"][shown]["points"])
            torch.testing.assert_close(
                torch.tensor(panel["points"][0]), start, atol=5e-4, rtol=0
            )  # three decimals
            assert len(panel["points"]) == 11


def test_errors_are_distances_in_the_best_matching():
    polygons = turned_polygons(torch.tensor([0.3, 0.9]), 5)
    moved = polygons.roll(2, dims=1).clone()
    moved[1, 3] += torch.tensor([0.03, -0.04])
    errors = corner_errors(moved, polygons)
    assert errors[0].max() == 0
    assert sorted(errors[1].tolist())[-2:] == pytest.approx([0, 0.05], abs=1e-6)


@pytest.mark.parametrize("task", ["predict", "auto-encode"])
@pytest.mark.parametrize("name", list(ROWS))
def test_a_polygon_turned_onto_itself_gets_the_same_prediction(name, task):
    torch.manual_seed(0)
    model = PolygonModel(Config(latent=16), name, task, 4).double()
    angles = torch.tensor([0.2, 0.2 + math.pi / 2], dtype=torch.float64)
    starts = torch.randn(1, 4, 2, dtype=torch.float64)
    with torch.no_grad():
        first, again = model.predict(angles, starts=starts, steps=5).elements
    torch.testing.assert_close(first, again)


def test_auto_encoding_sees_the_polygon_through_the_vector_alone():
    torch.manual_seed(0)
    model = PolygonModel(Config(latent=16), "implicit", "auto-encode", 4)
    assert model.network is None
    polygons = turned_polygons(torch.tensor([0.2]), 4)
    shuffled = model.decoder.encode(polygons[:, [2, 0, 3, 1]])
    torch.testing.assert_close(model.vector(torch.tensor([0.2])), shuffled)


@pytest.mark.parametrize("field", ["models", "tasks"])
def test_rejects_unknown_names(field):
    with pytest.raises(ValueError, match=f"{field} must be among .*, got nonsense"):
        Config(**{field: ("nonsense",)})


@pytest.mark.slow
def test_implicit_dspn_learns_squares_where_the_mlp_jumps(tmp_path):
    words = ["models=implicit,mlp", "tasks=predict", "steps=600", "angles=1001", "latent=256"]
    record = run_words(tmp_path / "run", *words, "test_steps=40", "test_starts=5")
    worst = {
        cell["model"]: cell["value"]
        for cell in record.result["results"]
        if cell["table"].endswith("worst")
    }
    assert worst["DSPN, implicit"] < 0.2 < worst["MLP"]
