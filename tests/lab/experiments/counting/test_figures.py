import pytest
import torch
from torch import nn

from torchsets.counting import Counter
from torchsets.lab.experiments.counting.configs import Setting, Sweep
from torchsets.lab.experiments.counting.figures import draw_sample, shape_claims
from torchsets.lab.experiments.counting.models import Learned
from torchsets.lab.records import Recorder, read_run

LARGEST = 150_000  # bytes of a figure


@pytest.fixture
def recorder(tmp_path):
    return Recorder.start(tmp_path / "run", experiment="x", scale="smoke", config={"seed": 0})


def trained_counter(generator):
    """A counter whose eight functions are no straight lines."""
    counter = Counter(10)
    with torch.no_grad():
        for function in counter.activations:
            function.weight.copy_(torch.rand(16, generator=generator))
    return counter


def test_a_long_sweep_is_shown_in_few_frames_that_stay_small(recorder, generator):
    sweep = Sweep("q", 0.5, [Setting(0.5, step / 100) for step in range(101)])
    learned = Learned(trained_counter(generator), nn.Linear(11, 11))
    draw_sample(recorder, sweep, [learned] * 101)
    assert (recorder.folder / "figures" / "sample-q.json").stat().st_size < LARGEST
    figure = read_run(recorder.folder).figures["sample-q"].figure
    values = figure.slider.values
    assert (values[0], values[-1]) == (0.0, 1.0)
    assert values[figure.start] == pytest.approx(0.3)
    assert len(values) == len(figure.texts) <= 21
    by_title = {panel.title: panel for panel in figure.panels}
    assert len(by_title["D: apart"].matrices) == 1  # noise moves no box
    assert len(by_title["A: relevant"].matrices) == len(values)
    assert by_title["A: relevant"].matrices[0][0][0] == 1


def test_a_sweep_of_one_setting_has_nothing_to_slide(recorder):
    learned = Learned(Counter(10), nn.Linear(11, 11))
    draw_sample(recorder, Sweep("l", 0.0, [Setting(1.0, 0.0)]), [learned])
    assert read_run(recorder.folder).figures == {}


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
