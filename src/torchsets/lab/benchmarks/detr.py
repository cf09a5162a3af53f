"""The matcher of a detector beside the usual way, which compares the boxes of all images.

The plain way computes the costs between all predictions and all targets of a batch in one matrix
and uses the blocks of its diagonal, one for each image. Cases are batches of B images with 100
predictions and 1 to 20 targets each; with six layers the plain way is called six times.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from torchsets.interop.detr import DetrMatcher
from torchsets.lab.benchmarks.harness import Case

Step = Callable[[], object]
BATCHES = (1, 2, 8, 16, 64)
SLOTS, CLASSES, MOST = 100, 92, 20
WEIGHTS = (1.0, 5.0, 2.0)


class Problem(NamedTuple):
    """The outputs of each layer, and the targets."""

    layers: list[dict[str, Tensor]]
    targets: list[dict[str, Tensor]]


def cases() -> list[Case]:
    """One layer and six layers, small to large batches."""
    return [_case(images, layers) for layers in (1, 6) for images in BATCHES]


def _case(images: int, layers: int) -> Case:
    name = f"{images} image{'s' * (images > 1)}, {layers} layer{'s' * (layers > 1)}"

    def ours() -> Step:
        problem, matcher = _problem(images, layers), DetrMatcher(*WEIGHTS)
        return lambda: matcher.match_layers(problem.layers, problem.targets)

    def plain() -> Step:
        problem = _problem(images, layers)
        return lambda: [_all_pairs(outputs, problem.targets) for outputs in problem.layers]

    return Case(name, {"torchsets": ours, "plain": plain})


def _problem(images: int, layers: int) -> Problem:
    generator = torch.Generator().manual_seed(0)

    def boxes(*shape: int) -> Tensor:
        return 0.1 + 0.5 * torch.rand(*shape, 4, generator=generator)

    outputs = [
        {
            "logits": torch.randn(images, SLOTS, CLASSES, generator=generator),
            "pred_boxes": boxes(images, SLOTS),
        }
        for _ in range(layers)
    ]
    sizes = torch.randint(1, MOST + 1, (images,), generator=generator).tolist()
    targets = [
        {"class_labels": torch.randint(CLASSES, (n,), generator=generator), "boxes": boxes(n)}
        for n in sizes
    ]
    return Problem(outputs, targets)


@torch.no_grad()
def _all_pairs(outputs: dict[str, Tensor], targets: list[dict[str, Tensor]]) -> object:
    logits, boxes = outputs["logits"], outputs["pred_boxes"].flatten(0, 1)
    chances = logits.flatten(0, 1).softmax(dim=-1)
    labels = torch.cat([target["class_labels"] for target in targets])
    wanted = torch.cat([target["boxes"] for target in targets])
    weight_class, weight_boxes, weight_overlap = WEIGHTS
    cost = weight_boxes * torch.cdist(boxes, wanted, p=1)
    cost = cost - weight_class * chances[:, labels]
    cost = cost - weight_overlap * _overlaps(_corners(boxes), _corners(wanted))
    cost = torch.nan_to_num(cost, nan=torch.finfo(cost.dtype).max)
    sizes = [len(target["boxes"]) for target in targets]
    blocks = torch.split(cost.view(*logits.shape[:2], -1), sizes, dim=-1)
    pairs = [linear_sum_assignment(block[image]) for image, block in enumerate(blocks)]
    return [(torch.as_tensor(rows), torch.as_tensor(columns)) for rows, columns in pairs]


def _corners(boxes: Tensor) -> Tensor:
    x, y, width, height = boxes.unbind(-1)
    edges = [x - 0.5 * width, y - 0.5 * height, x + 0.5 * width, y + 0.5 * height]
    return torch.stack(edges, dim=-1)


def _overlaps(boxes: Tensor, others: Tensor) -> Tensor:
    """Generalised intersection over union, as it is usually written."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    other_area = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    begin = torch.max(boxes[:, None, :2], others[:, :2])
    end = torch.min(boxes[:, None, 2:], others[:, 2:])
    sides = (end - begin).clamp(min=0)
    shared = sides[:, :, 0] * sides[:, :, 1]
    union = area[:, None] + other_area - shared
    low = torch.min(boxes[:, None, :2], others[:, :2])
    high = torch.max(boxes[:, None, 2:], others[:, 2:])
    sides = (high - low).clamp(min=0)
    hull = sides[:, :, 0] * sides[:, :, 1]
    return shared / union - (hull - union) / hull
