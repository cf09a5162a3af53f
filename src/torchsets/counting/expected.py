"""The expected number of objects behind the boxes of a detector, without any training."""

import torch
from torch import Tensor

from torchsets._checks import check_floating, check_padded_sets, check_shape
from torchsets.boxes import box_iou


def expected_count(
    boxes: Tensor,
    scores: Tensor,
    mask: Tensor | None = None,
    *,
    overlap: tuple[float, float] = (0.4, 0.6),
) -> Tensor:
    """Add up the scores of all boxes that do not repeat a box of higher score.

    ``sum_i score_i * prod_j (1 - same_ij)``, where j runs over the boxes of higher score and
    ``same_ij`` rises from 0 to 1 with the intersection over union. If scores are probabilities
    and boxes do not overlap, this is the expected number of objects; a duplicate adds nothing.
    Nothing is thresholded, so the result has a gradient in scores and boxes.

    Args:
        boxes: Boxes (x1, y1, x2, y2), (B, N, 4), floating point. One with x2 < x1 or y2 < y1
            overlaps nothing and adds its score; see :func:`torchsets.boxes.check_boxes`.
        scores: Probability that each box shows an object, (B, N), floating point. Among equal
            scores the first slot goes first.
        mask: True where a box is real, (B, N), bool. None: all are real.
        overlap: Boxes that overlap less than the first number show different objects, those that
            overlap more than the second show the same one; between them ``same`` is linear.

    Returns:
        The count of each set, (B,). An empty set gives 0.

    Raises:
        ValueError: If a shape or dtype differs from the above, or ``overlap`` does not increase.

    Example:
        >>> box, near, far = [0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.9], [5.0, 5.0, 6.0, 6.0]
        >>> expected_count(torch.tensor([[box, near, far]]), torch.tensor([[0.9, 0.7, 0.5]]))
        tensor([1.4000])
    """
    real = check_padded_sets(boxes, mask, name="boxes")
    check_shape(scores, tuple(real.shape), name="scores", letters="(B, N)")
    check_floating(scores, name="scores")
    low, high = overlap
    if not low < high:
        raise ValueError(f"overlap must be two increasing numbers, got {overlap}")
    scores = scores.masked_fill(~real, 0)
    rank = scores.detach().masked_fill(~real, -torch.inf)
    order = rank.sort(dim=1, descending=True, stable=True).indices
    boxes = boxes.take_along_dim(order.unsqueeze(-1), dim=1)
    shared = box_iou(boxes, None, real.gather(1, order))
    same = ((shared - low) / (high - low)).clamp(0, 1).tril(diagonal=-1)  # as an earlier one
    return (scores.gather(1, order) * (1 - same).prod(dim=2)).sum(dim=1)
