import pytest
import torch

from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.outcomes import as_way, precisions
from torchsets.lab.experiments.scenes.configs import STATES, updates_of
from torchsets.lab.experiments.scenes.models import Batch, build
from torchsets.lab.experiments.scenes.states import (
    COLUMNS,
    draw_batch,
    load_states,
    precision,
    predict,
)
from torchsets.padded import SetPrediction

SMOKE = STATES.config_at("smoke", objects=("3-6",), steps=2, equal_time=False)


def test_smoke_run_measures_every_model_after_every_number_of_steps(tmp_path):
    run = run_experiment("dspn-states", SMOKE, scale="smoke", folder=tmp_path)
    label = ", steps=2, equal_time=False"
    cells = {(cell.table, cell.model, cell.column): cell.value for cell in run.cells}
    rows = {model.removesuffix(label) for table, model, _ in cells if "3-6" in table}
    descents = ("Implicit DSPN", "Implicit DSPN, sum", "DSPN")
    stepped = {f"{name}, {steps} steps" for name in descents for steps in (3, 5)}
    assert rows == {*stepped, "MLP", "LSTM", "TSPN"}
    for row in rows:
        for column in COLUMNS:
            assert 0 <= cells["dspn-states/3-6/variants", row + label, column] <= 100
        name = f"{row}, 3-6 objects"
        assert 0 <= cells["dspn-states/sizes", name, "mean absolute error"] <= 6
        assert (("dspn-states/descent", name, "loss left") in cells) is (row in stepped)
    assert 0 < cells["dspn-states/descent", "DSPN, 5 steps, 3-6 objects", "loss left"] < 100
    assert run.tasks["3-6/mlp fspool"].steps == 2
    assert set(run.figures) == {"precision 3-6", *(f"scene {one} of 3-6" for one in (1, 2, 3))}


def test_scenes_have_a_slot_for_every_possible_object_and_depend_on_the_seed():
    states = load_states("3-6", 2, seed=5)
    assert states.elements.shape == (2, 6, 18)
    assert (states.elements[~states.mask] == 0).all()
    assert ((states.sizes >= 3) & (states.sizes <= 6)).all()
    more = load_states("3-6", 4, seed=5)
    torch.testing.assert_close(more.elements[:2], states.elements)
    assert not load_states("3-6", 2, seed=6).elements.equal(states.elements)


def test_a_perfect_prediction_has_full_precision_and_a_moved_one_only_at_loose_thresholds():
    test = load_states("3-6", 8, seed=0)
    perfect = SetPrediction(test.elements, test.mask.float())
    assert precision(perfect, test).tolist() == [100.0] * 6
    moved = perfect.elements.clone()
    moved[..., 0] += 0.3 / 3  # 0.3 in the units of the scene
    found = precision(SetPrediction(moved, perfect.presence), test).tolist()
    assert found[0] == pytest.approx(100.0)
    # within 0.5, unless another object of the same kind is nearer
    assert found[2] > 90
    assert found[3:] == [0.0, 0.0, 0.0]


def test_all_slots_are_ranked_so_an_unsure_duplicate_costs_nothing_and_a_sure_one_does():
    test = load_states("3-6", 8, seed=0)
    both = torch.cat([test.elements, test.elements], dim=1)
    real = test.mask.float()
    unsure = SetPrediction(both, torch.cat([real, 0.5 * real], dim=1))
    assert precision(unsure, test).tolist() == [100.0] * 6
    sure = SetPrediction(both, torch.cat([0.5 * real, real], dim=1))
    sure.elements[:, 6:, 5:13] = torch.eye(8)[test.elements[..., 5:13].argmax(-1) - 1]  # colours
    assert precision(sure, test)[0] < 80


@pytest.mark.parametrize("name", ["implicit", "unrolled", "mlp", "lstm", "tspn"])
def test_predicting_again_gives_the_same_sets(name):
    torch.manual_seed(0)
    model = build(SMOKE, name, "fspool", slots=6)
    test = load_states("3-6", 5, seed=0)
    first, second = predict(model, test, (2, 4)), predict(model, test, (4,))
    last = max(second.after)
    torch.testing.assert_close(first.after[last].elements, second.after[last].elements)
    assert set(first.after) == ({2, 4} if name in ("implicit", "unrolled") else {0})
    assert first.loss.shape == first.at_rest.shape == (max(first.after),)


def test_the_set_after_few_steps_lies_on_the_way_to_that_after_many():
    torch.manual_seed(0)
    model = build(SMOKE, "implicit", "fspool", slots=6)
    batch = draw_batch(load_states("3-6", 5, seed=0), torch.arange(5), torch.Generator())
    with torch.no_grad():
        way, short = as_way(model(batch, steps=6)), model(batch, steps=2)
    torch.testing.assert_close(way.elements[2], short.elements)
    torch.testing.assert_close(way.presence[2], short.presence)


def test_precision_over_the_steps_ends_with_that_of_the_last_set():
    torch.manual_seed(0)
    model = build(SMOKE, "implicit", "fspool", slots=6)
    test = load_states("3-6", 5, seed=0)
    found = predict(model, test, (3,))
    curve = precisions(found.way, test, precision)
    assert curve.shape == (4, 6)
    torch.testing.assert_close(curve[-1], precision(found.after[3], test))


def test_models_get_updates_for_about_the_same_time_or_equally_many():
    config = STATES.config_at("cpu")
    assert updates_of("mlp", config) > updates_of("implicit", config) == config.steps
    assert updates_of("unrolled", config) < config.steps
    equal = STATES.config_at("cpu", equal_time=False)
    assert {updates_of(name, equal) for name in equal.models} == {config.steps}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["implicit", "unrolled", "mlp", "lstm", "tspn"])
def test_every_model_learns(name):
    config = STATES.config_at("smoke", hidden=64, latent=128, decoder_hidden=64, inner_steps=10)
    torch.manual_seed(0)
    model = build(config, name, "fspool", slots=6)
    states = load_states("3-6", 256, seed=0)
    generator = torch.Generator().manual_seed(0)
    if name in ("implicit", "unrolled"):
        model.prepare(draw_batch(states, torch.arange(64), generator))
    optimiser = torch.optim.Adam(
        [one for one in model.parameters() if one.requires_grad], lr=3e-3, eps=1e-12
    )
    losses = []
    for _ in range(80):
        batch: Batch = draw_batch(states, torch.randint(256, (32,), generator=generator), generator)
        loss = model.loss(batch)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
