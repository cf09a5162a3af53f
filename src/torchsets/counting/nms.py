"""Counting by discrete choices: threshold the scores, suppress duplicates, count the rest."""

import math

from torch import Tensor

from torchsets._checks import check_padded_sets, check_shape
from torchsets.boxes import non_maximum_suppression


def count_by_nms(
    boxes: Tensor,
    scores: Tensor,
    mask: Tensor | None = None,
    *,
    threshold: float = 0.5,
    min_score: float = 0.5,
) -> Tensor:
    """Count the boxes of sufficient score that greedy non-maximum suppression keeps.

    Args:
        boxes: Boxes (x1, y1, x2, y2), (B, N, 4), floating point.
        scores: Score of each box, (B, N), floating point.
        mask: True where a box is real, (B, N), bool. None: all are real.
        threshold: Boxes with a larger intersection over union count as the same object.
        min_score: Boxes with a lower score are left out.

    Returns:
        Number of objects in each set, (B,), long. It has no gradient.

    Raises:
        ValueError: If a shape or dtype differs from the above, an option is nan, or a box that
            takes part has x2 < x1 or y2 < y1.

    Example:
        >>> import torch
        >>> box, near, far = [0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]
        >>> count_by_nms(torch.tensor([[box, near, far]]), torch.tensor([[0.7, 0.9, 0.8]]))
        tensor([2])
    """
    real = check_padded_sets(boxes, mask, name="boxes")
    check_shape(scores, tuple(real.shape), name="scores", letters="(B, N)")
    if math.isnan(min_score):
        raise ValueError(f"min_score must be a number, got {min_score}")
    candidates = real & (scores >= min_score)
    return non_maximum_suppression(boxes, scores, candidates, threshold=threshold).sum(dim=1)
