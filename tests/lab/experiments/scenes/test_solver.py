import pytest
import torch

from torchsets.lab.experiments.launch import run_experiment
from torchsets.lab.experiments.scenes.configs import SOLVER, Solvers, split_solvers
from torchsets.lab.experiments.scenes.models import DescentAutoEncoder, transport_error
from torchsets.lab.experiments.scenes.solver import Decoded, decode, join_starts, try_ways
from torchsets.lab.experiments.scenes.states import COLUMNS, draw_batch, fit, load_states
from torchsets.lab.records import Recorder
from torchsets.padded import SetPrediction

SMOKE = SOLVER.config_at("smoke")


def make(**options):
    torch.manual_seed(0)
    return DescentAutoEncoder(SMOKE, slots=10, pooling="fspool", implicit=True, **options)


def test_smoke_run_measures_every_way_to_train_in_every_way_to_test(tmp_path):
    run = run_experiment("dspn-solver", SMOKE, scale="smoke", folder=tmp_path)
    cells = {(cell.table, cell.model, cell.column): cell.value for cell in run.cells}
    ways = ["3 steps", "5 steps", "2 adaptive steps", "until 0.5, at most 5 steps"]
    starts = ["best of 2 starts", "mean of 2 starts"]
    rows = {
        f"{name}, {way}"
        for name in ("Implicit DSPN", "Half the steps at first", "Sinkhorn's loss")
        for way in ways + starts
    } | {f"Start from an MLP, {way}" for way in ways}
    assert {model for table, model, _ in cells if table == "dspn-solver"} == rows
    for row in rows:
        assert all(0 <= cells["dspn-solver", row, column] <= 100 for column in COLUMNS)
        assert cells["dspn-solver/beside", row, "steps"] <= (10 if "starts" in row else 5)
    assert len(run.figures) == 4
    panel = run.figures["ways of plain"].figure.panels[0]
    steps = [line.x for line in panel.lines if line.label == "steps"]
    assert steps == [[3, 5]]
    assert cells["dspn-solver/beside", "Half the steps at first", "minutes of training"] > 0


def test_each_shard_is_one_way_to_train():
    shards = split_solvers("dspn-solver", SOLVER.config_at("cpu"))
    assert list(shards) == ["plain", "half-steps", "transport", "mlp-start"]
    assert shards["transport"].solvers == ("transport",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solvers": ("newton",)}, "solvers must be among plain, .*, got newton"),
        ({"objects": "1-2"}, "objects must be among 3-10, 3-6, got 1-2"),
        ({"pooling": "mean"}, "pooling must be among fspool, sum, max, got mean"),
        ({"decay_from": 2.0}, "decay_from must be between 0 and 1, got 2"),
        ({"starts": (0,)}, "starts must be at least 1, got 0"),
    ],
)
def test_rejects_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        Solvers(**options)


def test_half_the_steps_are_taken_in_the_first_half_alone(tmp_path):
    model, taken = make(), []
    decoder = model.decoder
    plain = decoder.forward

    def forward(*arguments, **options):
        taken.append(options["steps"])
        return plain(*arguments, **options)

    decoder.forward = forward
    training = load_states("3-10", 16, seed=0)
    recorder = Recorder.start(tmp_path / "run", experiment="x", scale="smoke", config={"seed": 0})
    fit(SMOKE, recorder, "half", model, training, updates=4, first_steps=1)
    assert taken == [1, 1, None, None]


def test_an_mlp_start_is_where_the_descent_begins_and_is_trained():
    model = make(listed_start=True)
    batch = draw_batch(load_states("3-10", 4, seed=0), torch.arange(4), torch.Generator())
    model.loss(batch).backward()
    assert all(weight.grad.any() for weight in model.start.parameters() if weight.ndim == 2)
    with torch.no_grad():
        way = model(batch).trajectory
        start = model.start(model.decoder.encode(batch.states, batch.mask))
    torch.testing.assert_close(way.elements[0], start.elements)
    torch.testing.assert_close(way.presence[0], start.presence)


def test_transport_costs_what_the_best_matching_costs_for_sets_far_apart():
    states = load_states("3-10", 4, seed=0).elements.double()
    turned = states.flip(1)
    assert transport_error(turned, states).abs().max() < 1e-6
    moved = states.clone()
    moved[:, 0, 0] += 0.1  # Huber: 0.1^2 / 2, mean over 10 slots and 18 features
    assert transport_error(moved, states).mean().item() == pytest.approx(0.005 / 180, rel=0.2)


def test_ways_leave_the_model_as_it_was():
    model, test = make(), load_states("3-10", 6, seed=0)
    before = decode(model, test, 4).sets.elements
    assert len(list(try_ways(model, test, SMOKE))) == 6
    assert not model.adaptive
    assert model.decoder.tolerance is None
    torch.testing.assert_close(decode(model, test, 4).sets.elements, before)
    assert not decode(model, test, 4, start=1).sets.elements.equal(before)


def test_starts_are_matched_before_they_are_averaged():
    elements = torch.tensor([[[0.0], [4.0]]])
    presence = torch.tensor([[1.0, 0.5]])
    low, high = torch.tensor([[0.1]]), torch.tensor([[0.2]])
    turned = SetPrediction(elements.flip(1) + 0.2, presence.flip(1))
    first = Decoded(turned, high, 1.0)
    second = Decoded(SetPrediction(elements, presence), low, 1.0)
    best, mean = join_starts([first, second])
    torch.testing.assert_close(best.elements, elements)
    torch.testing.assert_close(mean.elements, elements + 0.1)
    torch.testing.assert_close(mean.presence, presence)
