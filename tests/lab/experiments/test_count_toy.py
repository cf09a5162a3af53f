from dataclasses import asdict

import pytest
import torch

from torchsets.counting import Counter
from torchsets.data import toy_counting_sets
from torchsets.lab.experiments.counting.toy import (
    SCALES,
    Config,
    CountClassifier,
    Place,
    SumOfWeights,
    run,
    sweeps_of,
)
from torchsets.lab.experiments.counting.figures import shape_claims
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.reports import collect_tables, draw_figure


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    config = Config(**SCALES["smoke"])
    folder = tmp_path_factory.mktemp("count-toy") / "run"
    recorder = Recorder.start(folder, experiment="count-toy", scale="smoke", config=asdict(config))
    run(config, recorder)
    recorder.finish()
    return read_run(folder)


def test_every_cell_of_every_sweep_is_recorded(smoke):
    cells = {(r["table"], r["model"], r["column"]) for r in smoke.result["results"]}
    models = ["Counting module", "Sum of weights", "Suppression, tuned"]
    expected = {
        *(("count-toy/q = 0.5", model, f"l={side}") for model in models for side in ("0.5", "1")),
        *(("count-toy/l = 0.5", model, f"q={q}") for model in models for q in ("0", "0.5", "1")),
    }
    assert cells == expected
    assert all(0 <= result["value"] <= 100 for result in smoke.result["results"])


def test_the_columns_of_a_table_rise(smoke):
    table = next(table for table in collect_tables([smoke]) if table.key == "count-toy/l = 0.5")
    assert table.columns == ["q=0", "q=0.5", "q=1"]


def test_a_setting_of_two_sweeps_is_trained_once(smoke):
    places = ["l=0.5 q=0.5", "l=1 q=0.5", "l=0.5 q=0", "l=0.5 q=1"]
    expected = {f"{name}/{place}" for name in ("counter", "sum") for place in places}
    assert set(smoke.result["tasks"]) == expected


@pytest.mark.parametrize(
    "name", ["samples", "accuracies", "functions-l", "functions-q", "matrices"]
)
def test_every_figure_can_be_drawn(smoke, name):
    assert draw_figure(name, smoke.figures[name]).lstrip().startswith("<svg")


def test_suppression_finds_the_true_boxes_without_noise(smoke):
    cells = {
        (result["model"], result["column"]): result["value"] for result in smoke.result["results"]
    }
    assert cells["Suppression, tuned", "q=0"] > 95
    assert cells["Suppression, tuned", "q=1"] < 40


def test_sweeps_cover_the_grid():
    sweeps = sweeps_of(Config(**SCALES["cpu"]))
    assert [(sweep.title, len(sweep.places)) for sweep in sweeps] == [
        ("q = 0", 10),
        ("q = 0.5", 10),
        ("l = 0.2", 11),
        ("l = 0.5", 11),
    ]
    assert sweeps[1].values == pytest.approx([0.1 * k for k in range(1, 11)])
    assert Place(0.5, 0.5) in sweeps[1].places
    assert Place(0.5, 0.5) in sweeps[3].places
    assert len({place for sweep in sweeps for place in sweep.places}) == 38


def step_at(where, height=1.0):
    """A function that rises by ``height`` at ``where`` and in a line otherwise."""
    x = torch.linspace(0, 1, 17)
    return (1 - height) * x + height * (x >= where)


def test_claims_are_seen_in_functions_made_for_them():
    sides = [0.1, 0.4, 0.7, 1.0]
    weights = torch.stack([step_at(0.9, height) for height in (0.9, 0.7, 0.4, 0.1)])
    distances = torch.stack([step_at(0.8), step_at(0.5), step_at(0.2), torch.linspace(0, 1, 17)])
    claims = shape_claims("l", sides, weights, distances)
    assert ["not seen" in claim for claim in claims] == [False, False, False]
    noises = [0.0, 0.3, 0.6, 1.0]
    weights = torch.stack([step_at(where) for where in (0.95, 0.8, 0.6, 0.5)])
    distances = torch.stack([step_at(where) for where in (0.2, 0.3, 0.5, 0.5)])
    claims = shape_claims("q", noises, weights, distances)
    assert ["not seen" in claim for claim in claims] == [False, False, False]


@pytest.mark.parametrize("varied", ["l", "q"])
def test_claims_are_not_seen_in_straight_lines(varied):
    lines = torch.linspace(0, 1, 17).repeat(4, 1)
    claims = shape_claims(varied, [0.1, 0.4, 0.7, 1.0], lines, lines)
    assert ["not seen" in claim for claim in claims] == [True, True, True]


def test_rejects_an_unknown_model():
    with pytest.raises(ValueError, match="models must be among counter, sum, nms, got mlp"):
        Config(models=("mlp",))


def test_rejects_a_grid_out_of_range():
    with pytest.raises(ValueError, match="grid must be above 0 and at most 1, got 0"):
        Config(grid=0.0)


@pytest.mark.slow
def test_the_module_learns_to_count_overlapping_boxes_and_the_sum_does_not():
    accuracies = []
    for features in (Counter(10), SumOfWeights(10)):
        torch.manual_seed(0)
        model = CountClassifier(features)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        generator = torch.Generator().manual_seed(0)
        for _ in range(300):
            sets = toy_counting_sets(256, side=0.5, noise=0.0, generator=generator)
            logits = model(sets.boxes, sets.weights)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits, sets.counts).backward()
            optimiser.step()
        sets = toy_counting_sets(2000, side=0.5, noise=0.0, generator=generator)
        right = model(sets.boxes, sets.weights).argmax(dim=1) == sets.counts
        accuracies.append(right.double().mean().item())
    assert accuracies[0] > 0.8
    assert accuracies[0] > accuracies[1] + 0.15
