"""The figures with sliders: what they record is what the models do."""

import pytest
import torch

from torchsets.boxes import box_iou
from torchsets.counting import Counter
from torchsets.data import turned_polygons
from torchsets.lab.experiments.counting.frames import draw_sample, sample_of, similarities
from torchsets.lab.experiments.polygons.frames import draw_turning
from torchsets.lab.experiments.sorting.frames import draw_sorting_steps
from torchsets.permutations import optimise_permutation
from torchsets.lab.records import Recorder, read_run

LARGEST = 150_000  # bytes of a figure


@pytest.fixture
def recorder(tmp_path):
    return Recorder.start(tmp_path / "run", experiment="x", scale="smoke", config={"seed": 0})


def data_of(recorder, name):
    assert (recorder.folder / "figures" / f"{name}.json").stat().st_size < LARGEST
    return read_run(recorder.folder).figures[name]["data"]


def trained_counter(generator):
    """A counter whose eight functions are no straight lines."""
    counter = Counter(10)
    with torch.no_grad():
        for function in counter.activations:
            function.weight.copy_(torch.rand(16, generator=generator))
    return counter


@torch.no_grad()
def test_similarities_explain_the_count_matrix(generator):
    counter = trained_counter(generator)
    boxes, weights = (x.unsqueeze(0) for x in sample_of(10, generator).at(0.4, 0.3))
    details = counter.inspect(boxes, weights)
    f1, f2 = counter.activations[:2]
    scale = 1 / similarities(counter, details, weights).sum(dim=2)
    edges = f1(details.A) * f2(details.D) * scale.unsqueeze(1) * scale.unsqueeze(2)
    loops = torch.diag_embed(f1(weights.square()) * scale)
    torch.testing.assert_close(edges + loops, details.C)


def test_a_sample_has_the_weights_of_the_task(generator):
    sample = sample_of(10, generator)
    boxes, weights = sample.at(0.3, 0.25)
    torch.testing.assert_close(boxes[:, 2:] - boxes[:, :2], torch.full((10, 2), 0.3))
    assert boxes.min() >= 0
    assert boxes.max() <= 1
    overlaps = box_iou(boxes.unsqueeze(0))[0]
    expected = [
        0.75 * max(overlaps[box, true].item() for true in range(4)) + 0.25 * noise
        for box, noise in enumerate(sample.noise.tolist())
    ]
    torch.testing.assert_close(weights, torch.tensor(expected))
    assert sample.at(0.4, 0.0)[1].diff().max() <= 0


def test_a_long_sweep_is_shown_in_few_frames_that_stay_small(recorder, generator):
    places = [(0.5, step / 100) for step in range(101)]
    counter, project = trained_counter(generator), torch.nn.Linear(11, 11)
    draw_sample(recorder, "q", "l = 0.5", places, [(counter, project)] * 101)
    data = data_of(recorder, "sample-q")
    values = data["slider"]["values"]
    assert (values[0], values[-1]) == (0.0, 1.0)
    assert len(values) == len(data["texts"]) <= 21
    by_title = {panel["title"]: panel for panel in data["panels"]}
    assert len(by_title["D: apart"]["matrices"]) == 1  # noise moves no box
    assert len(by_title["A: relevant"]["matrices"]) == len(values)
    assert by_title["A: relevant"]["matrices"][0][0][0] == 1


def test_a_sweep_of_one_setting_has_nothing_to_slide(recorder):
    draw_sample(recorder, "l", "q = 0", [(1.0, 0.0)], [(Counter(10), torch.nn.Linear(11, 11))])
    assert read_run(recorder.folder).figures == {}


def test_the_turning_square_is_shown_at_every_degree(recorder):
    path = turned_polygons(torch.linspace(0, torch.pi / 2, 901), 4)
    draw_turning(recorder, {"perfect": path, "also": path, "third": path})
    data = data_of(recorder, "responsibility-turning")
    assert data["slider"]["values"] == list(range(91))
    for panel in data["panels"]:
        torch.testing.assert_close(torch.tensor(panel["points"]), torch.tensor(panel["targets"]))


def test_sorting_steps_end_with_the_sorted_numbers(recorder):
    numbers = torch.tensor([[[0.9], [0.1], [0.6], [0.3]]], dtype=torch.float64)
    costs = numbers - numbers.mT
    course = [optimise_permutation(costs, steps=step, step_size=5.0) for step in range(7)]
    draw_sorting_steps(recorder, numbers, costs, course, trained=4)
    matrix, bars, cost = data_of(recorder, "sorting-steps")["panels"]
    assert matrix["rows"] == ["0.90", "0.10", "0.60", "0.30"]
    assert matrix["matrices"][0] == [[0.25] * 4] * 4
    assert bars["bars"][0] == [0.475] * 4
    assert bars["marks"] == [[0.1, 0.3, 0.6, 0.9]]
    torch.testing.assert_close(
        torch.tensor(bars["bars"][-1]), torch.tensor(bars["marks"][0]), atol=0.02, rtol=0
    )  # the permutation is soft
    (line,) = cost["lines"]
    assert all(after < before for before, after in zip(line["y"][:3], line["y"][1:4], strict=True))
