"""The models of the toy counting task, and one set to look at them with."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchsets.boxes import box_iou
from torchsets.counting import CountDetails, Counter, count_features

_TRUE = 4  # objects of the sample


class SumOfWeights(nn.Module):
    """The baseline: the sum of the weights as a vector, overlaps unseen."""

    def __init__(self, objects: int) -> None:
        super().__init__()
        self.objects = objects

    def forward(self, boxes: Tensor, weights: Tensor) -> Tensor:
        return count_features(weights.sum(dim=1), objects=self.objects)


class CountClassifier(nn.Module):
    """Count features, and a linear layer to the classes 0 .. ``objects``."""

    def __init__(self, features: Counter | SumOfWeights) -> None:
        super().__init__()
        self.features = features
        self.project = nn.Linear(features.objects + 1, features.objects + 1)

    def forward(self, boxes: Tensor, weights: Tensor) -> Tensor:
        logits: Tensor = self.project(self.features(boxes, weights))
        return logits


class Learned(NamedTuple):
    """A trained counting module, and the layer that turns its features into scores of counts."""

    counter: Counter
    project: nn.Linear


class Sample(NamedTuple):
    """A set of the toy counting task for any side length and noise.

    Attributes:
        corners: Share of the room that is left of and above each square, (N, 2).
        noise: Noise of each weight, (N,).
        true: How many of the squares are true objects; they come first.
    """

    corners: Tensor
    noise: Tensor
    true: int

    def at(self, side: float, share: float) -> tuple[Tensor, Tensor]:
        """Boxes (N, 4) and weights (N,), as ``toy_counting_sets`` makes them for l and q."""
        corner = self.corners * (1 - side)
        boxes = torch.cat([corner, corner + side], dim=-1)
        overlap = box_iou(boxes.unsqueeze(0))[0, :, : self.true].amax(dim=1)
        return boxes, (1 - share) * overlap + share * self.noise


def sample_of(boxes: int, generator: torch.Generator) -> Sample:
    """Draw a sample: the true objects, then the others by their overlap with these."""
    true = min(_TRUE, boxes)
    drawn = torch.rand(boxes, 3, generator=generator)
    sample = Sample(drawn[:, :2], drawn[:, 2], true)
    order = sample.at(0.4, 0.0)[1].argsort(descending=True, stable=True)  # true ones weigh 1
    return Sample(sample.corners[order], sample.noise[order], true)


def similarities(counter: Counter, details: CountDetails, weights: Tensor) -> Tensor:
    """How similar each pair of proposals is, (B, n, n): what the module divides by."""
    _, _, f3, f4, f5 = counter.activations[:5]
    edges = f4(details.A) * f5(details.D)
    difference = (edges.unsqueeze(1) - edges.unsqueeze(2)).abs()  # (B, n, n, n)
    apart = (weights.unsqueeze(1) - weights.unsqueeze(2)).abs()
    similar: Tensor = f3(1 - difference).prod(dim=-1) * f3(1 - apart)
    return similar
