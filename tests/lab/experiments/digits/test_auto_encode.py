import pytest
import torch

from torchsets import SetBatch, SetPrediction
from torchsets.lab.experiments.digits import auto_encode
from torchsets.lab.experiments.digits.auto_encode import (
    BESIDE_TABLE,
    COLUMNS,
    TABLE,
    evaluate,
    follow,
    load_sets,
    predict,
    score,
)
from torchsets.lab.experiments.digits.configs import DECODERS, DIGITS, updates_of
from torchsets.lab.experiments.digits.models import build
from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.training import train
from torchsets.losses import hungarian_loss

SMOKE = DIGITS.config_at("smoke", steps=2)


@pytest.fixture
def test_sets():
    return load_sets(SMOKE, "test", 6)


def make(name, config=SMOKE):
    torch.manual_seed(0)
    return build(config, name)


def test_smoke_run_measures_every_model_and_draws_every_step(tmp_path):
    run = run_experiment("dspn-mnist", SMOKE, scale="smoke", folder=tmp_path)
    cells = {(cell.table, cell.model, cell.column): cell.value for cell in run.cells}
    rows = [*DECODERS.values(), "DSPN (5 iters)", "Implicit DSPN (5 iters)"]
    for row in rows:
        assert cells.pop((f"{TABLE}/variants", f"{row}, dataset=digits, steps=2", "loss")) > 0
        assert all(cells.pop((BESIDE_TABLE, row, column)) >= 0 for column in COLUMNS)
    assert not cells
    figure = run.figures["digits"].figure
    assert figure.slider.values == [0, 1, 2, 3, 5]
    titles = [panel.title for panel in figure.panels]
    assert titles[:5] == ["input 1", *(DECODERS[name] for name in SMOKE.models)]
    assert titles[-2:] == ["Chamfer loss x 1000", "size error"]
    assert len(figure.panels[1].values) == len(figure.panels[1].points) == 5


def test_a_size_aware_run_says_so_in_every_row(tmp_path):
    config = DIGITS.config_at("smoke", steps=1, loss="size-aware", models=("mlp",))
    run = run_experiment("dspn-mnist", config, scale="smoke", folder=tmp_path)
    assert {cell.model for cell in run.cells} == {
        "MLP baseline, dataset=digits, loss=size-aware, steps=1",
        "MLP baseline, size-aware",
    }


def perfect(sets, *, presence=None):
    batch = sets.batch(slice(None), size=SMOKE.slots)
    return batch, SetPrediction(
        batch.elements, batch.mask.float() if presence is None else presence(batch)
    )


def test_a_perfect_prediction_scores_zero_everywhere(test_sets):
    batch, prediction = perfect(test_sets)
    assert score(prediction, batch) == (0.0, 0.0, 0.0)


def test_the_thesis_score_hardly_sees_that_all_slots_are_on_and_the_others_do(test_sets):
    def almost_all_on(batch):
        presence = torch.ones_like(batch.mask, dtype=torch.float)
        presence[:, -1] = 0  # one slot at the place of the padding serves all of it
        return presence

    batch, prediction = perfect(test_sets, presence=almost_all_on)
    prediction.elements[:, :-1] = torch.where(
        batch.mask.unsqueeze(-1), batch.elements, batch.elements[:, :1]
    )[:, :-1]  # the slots too many lie on true points
    found = score(prediction, batch)
    assert found.chamfer == 0
    surplus = (SMOKE.slots - 1 - batch.sizes).double().mean().item()
    assert found.size == pytest.approx(surplus)
    assert 1000 * matched_error(batch, prediction).mean() > 10


def matched_error(batch, prediction):
    slots = torch.cat([prediction.elements, prediction.presence.unsqueeze(-1)], dim=-1)
    target = torch.cat([batch.elements, batch.mask.unsqueeze(-1).float()], dim=-1)
    return hungarian_loss(slots, target, element="huber", reduction="mean")


def test_points_are_the_slots_with_half_a_presence_or_the_likeliest_one():
    sets = SetBatch(torch.tensor([[[0.0, 0.0], [1.0, 1.0]]]), torch.tensor([[True, False]]))
    elements = torch.tensor([[[0.0, 0.0], [1.0, 0.0]]])
    both = score(SetPrediction(elements, torch.tensor([[0.9, 0.5]])), sets)
    # the second is 1 away: squared, mean over two features and two points
    assert (both.size, both.present) == (1.0, pytest.approx(250.0))
    none = score(SetPrediction(elements, torch.tensor([[0.1, 0.4]])), sets)
    # size 0 instead of 1; the likeliest is 1 away in both directions
    assert (none.size, none.present) == (1.0, pytest.approx(1000.0))


def test_evaluating_in_parts_is_evaluating_at_once(test_sets, monkeypatch):
    model = make("implicit")
    whole = evaluate(SMOKE, model, test_sets)
    monkeypatch.setattr("torchsets.lab.experiments.digits.auto_encode._TEST_BATCH", 4)
    for steps, (scores, matched) in evaluate(SMOKE, model, test_sets).items():
        # float32 means of other batches
        assert scores == pytest.approx(whole[steps][0], rel=1e-4)
        assert matched == pytest.approx(whole[steps][1], rel=1e-4)
    batch = test_sets.batch(slice(None), size=SMOKE.slots)
    with torch.no_grad():
        last = predict(model, batch, [5])[5]
    expected = 1000 * matched_error(batch, last).mean().item()
    assert whole[5][1] == pytest.approx(expected, rel=1e-4)


def test_a_model_with_steps_is_followed_over_them(test_sets):
    way = follow(SMOKE, make("unrolled"), test_sets)
    assert way.steps == [0, 1, 2, 3, 5]
    assert way.elements.shape == (5, 3, SMOKE.slots, 2)
    assert len(way.chamfer) == len(way.size) == 5
    assert follow(SMOKE, make("mlp"), test_sets).steps == [0]


def test_sets_that_do_not_fit_are_an_error():
    config = DIGITS.config_at("smoke", slots=10)
    with pytest.raises(ValueError, match=r"slots must be at least \d+, the largest set, got 10"):
        load_sets(config, "test", None)


def test_models_get_updates_for_about_the_same_time_at_cpu_and_equally_many_in_the_thesis():
    config = DIGITS.config_at("cpu")
    assert updates_of("mlp", config) > updates_of("implicit", config) > config.steps
    thesis = DIGITS.config_at("full")
    assert {updates_of(name, thesis) for name in thesis.models} == {187_500}


def test_only_the_gradient_of_a_descent_is_clipped(tmp_path, monkeypatch):
    limits = {}

    def training(*arguments, task, settings, **options):
        limits[task] = settings.clip
        return train(*arguments, task=task, settings=settings, **options)

    monkeypatch.setattr(auto_encode, "train", training)
    config = DIGITS.config_at("smoke", steps=1, clip=0.5)
    run_experiment("dspn-mnist", config, scale="smoke", folder=tmp_path)
    assert limits == {"unrolled": 0.5, "implicit": 0.5, "mlp": None, "lstm": None}
