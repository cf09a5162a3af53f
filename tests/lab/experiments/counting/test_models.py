import pytest
import torch

from torchsets.boxes import box_iou
from torchsets.counting import Counter
from torchsets.data import toy_counting_sets
from torchsets.lab.experiments.counting.models import (
    CountClassifier,
    SumOfWeights,
    sample_of,
    similarities,
)


@torch.no_grad()
def test_similarities_explain_the_count_matrix(generator):
    counter = Counter(10)
    for function in counter.activations:  # no straight lines
        function.weight.copy_(torch.rand(16, generator=generator))
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
