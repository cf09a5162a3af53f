"""Squares in a unit image, some of them true objects, with noisy weights: the toy counting task."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.boxes import box_area, box_intersection


class CountingSets(NamedTuple):
    """A batch of the toy counting task.

    Attributes:
        boxes: Squares (x1, y1, x2, y2) in the unit square, (B, N, 4).
        weights: Noisy weight of each box from 0 to 1, (B, N).
        true: True where a box is a true object, (B, N), bool.
        counts: Number of true objects, (B,), long.
    """

    boxes: Tensor
    weights: Tensor
    true: Tensor
    counts: Tensor


def toy_counting_sets(
    sets: int,
    *,
    side: float,
    noise: float,
    boxes: int = 10,
    generator: torch.Generator | None = None,
) -> CountingSets:
    """Draw sets of the toy counting task, all at once.

    The count is uniform from 0 to ``boxes``; that many boxes, chosen at random, are true. The
    score of a box is its largest overlap with a true one, and its weight is
    ``(1 - noise) * score + noise * z`` with z uniform in [0, 1].

    Args:
        sets: Number of sets B.
        side: Side length l of the squares, above 0 and at most 1; large squares overlap more.
        noise: Share q of noise in the weights, from 0 to 1.
        boxes: Number of boxes N of each set.
        generator: Source of randomness.

    Returns:
        Boxes, weights, which boxes are true, and their count.

    Raises:
        ValueError: If ``side``, ``noise`` or ``boxes`` is out of range.

    Example:
        >>> sample = toy_counting_sets(2, side=0.3, noise=0.0)
        >>> bool((sample.weights[sample.true] == 1).all())
        True

    Reference:
        The thesis, section 3.5.1 (toy task).
    """
    if not 0 < side <= 1:
        raise ValueError(f"side must be above 0 and at most 1, got {side}")
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must be from 0 to 1, got {noise}")
    if boxes < 1:
        raise ValueError(f"boxes must be at least 1, got {boxes}")
    count = torch.randint(boxes + 1, (sets,), generator=generator)
    rank = torch.rand(sets, boxes, generator=generator).argsort(dim=1)
    true = rank < count.unsqueeze(1)
    corner = torch.rand(sets, boxes, 2, generator=generator) * (1 - side)
    squares = torch.cat([corner, corner + side], dim=-1)
    drawn = torch.rand(sets, boxes, generator=generator)
    weights = (1 - noise) * _largest_overlap(squares, true) + noise * drawn
    return CountingSets(squares, weights, true, count)


def _largest_overlap(squares: Tensor, true: Tensor) -> Tensor:
    """Of each box with a true one, (B, N).

    The sets come last in memory, because there are many more of them than boxes, and nothing
    branches on ``true``, which no processor can predict: half the time of ``box_iou``.
    """
    boxes = squares.permute(2, 1, 0).contiguous().permute(2, 1, 0)  # (B, N, 4)
    others = boxes * true.unsqueeze(-1)  # the others have no area: they overlap nothing
    shared = box_intersection(boxes, others)
    union = box_area(boxes).unsqueeze(2) + box_area(others).unsqueeze(1) - shared
    # The smallest number guards squares so small that their area is 0.
    overlap = shared / union.clamp(min=torch.finfo(union.dtype).tiny)
    return overlap.amax(dim=2).contiguous()
