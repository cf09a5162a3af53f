"""Average precision with all-point interpolation: of any pairs, of boxes, of CLEVR states."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torchsets._checks import check_floating, check_mask, check_padded_sets, check_shape
from torchsets.boxes import box_iou

POSITION = slice(0, 3)
ATTRIBUTES = (slice(3, 5), slice(5, 13), slice(13, 16), slice(16, 18))
"""Where a state holds its material, colour, shape and size."""
STATE_FEATURES = 18
STATE_SCALE = 3.0  # positions are stored divided by 3

_CHUNK = 2**20  # pairs of prediction and target compared at once


def average_precision(recall: Tensor, precision: Tensor) -> Tensor:
    """Area under the precision-recall curve, interpolated at all points.

    Precision is replaced by the largest precision at any recall at least as high, then summed
    over the steps of recall. Beyond the last recall it is 0.

    Args:
        recall: Recall after each prediction in order of falling score, (..., K), non-decreasing.
        precision: Precision after each prediction, (..., K).

    Returns:
        The average precision, (...). Without predictions it is 0.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> average_precision(torch.tensor([0.5, 0.5, 1.0]), torch.tensor([1.0, 0.5, 0.7]))
        tensor(0.8500)
    """
    if recall.ndim == 0 or recall.shape != precision.shape:
        raise ValueError(
            "recall and precision must have the same shape (..., K), "
            f"got {tuple(recall.shape)} and {tuple(precision.shape)}"
        )
    if recall.shape[-1] == 0:
        return recall.new_zeros(recall.shape[:-1])
    best = precision.flip(-1).cummax(dim=-1).values.flip(-1)
    steps = recall.diff(dim=-1, prepend=torch.zeros_like(recall[..., :1]))
    return (steps * best).sum(dim=-1)


def pairwise_average_precision(
    pairs: Tensor,
    scores: Tensor,
    target_mask: Tensor | None = None,
    *,
    thresholds: Sequence[float] | Tensor,
    largest: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Average precision from any distance or similarity of predictions and targets.

    All predictions are ranked by score; equal scores keep their order. Each goes to the closest
    target of its set, and is right when they are close enough and no better ranked prediction has
    taken that target. There is no second choice.

    Args:
        pairs: Distance between each prediction and each target of I sets, (I, N, M), floating
            point. inf and nan: the two can never be matched, for being of another class, say.
        scores: Score of each prediction, (I, N), floating point. All take part, however low.
        target_mask: True where a target is real, (I, M), bool. None: all are real.
        thresholds: Largest distance for a match, T numbers.
        largest: If True, ``pairs`` are similarities: the largest is the closest, ``thresholds``
            are the smallest for a match, and -inf can never be matched.
        mask: True where a prediction is real, (I, N), bool. None: all are real.

    Returns:
        Average precision from 0 to 1 at each threshold, (T,). Without any target it is 0.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> points, targets = torch.tensor([[[0.0], [5.0]]]), torch.tensor([[[0.1], [9.0]]])
        >>> scores = torch.tensor([[0.9, 0.8]])
        >>> pairwise_average_precision(torch.cdist(points, targets), scores, thresholds=[0.2, 4.0])
        tensor([0.5000, 1.0000])
    """
    check_shape(pairs, (None, None, None), name="pairs", letters="(I, N, M)")
    check_floating(pairs, name="pairs")
    images, slots, places = pairs.shape
    masks = []
    for given, shape, name in (
        (mask, (images, slots), "mask"),
        (target_mask, (images, places), "target_mask"),
    ):
        if given is None:
            given = torch.ones(shape, dtype=torch.bool, device=pairs.device)
        check_mask(given, torch.Size(shape), name=name, of="pairs")
        masks.append(given)
    check_shape(scores, (images, slots), name="scores", letters="(I, N)")
    check_floating(scores, name="scores")
    real, real_targets = masks

    def closeness(part: slice) -> Tensor:
        close = _widen(pairs[part])
        return close if largest else -close

    return _average_precision(closeness, thresholds, largest, scores, real, real_targets)


def box_average_precision(
    boxes: Tensor,
    scores: Tensor,
    targets: Tensor,
    target_mask: Tensor,
    *,
    thresholds: Sequence[float] | Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Average precision of predicted boxes over a whole dataset.

    Each prediction goes to the target of its image that it overlaps most, and is right when they
    overlap enough and no better ranked prediction has taken that target: this is
    :func:`pairwise_average_precision` of the intersection over union.

    Args:
        boxes: Predicted boxes (x1, y1, x2, y2) of I images, (I, N, 4), floating point.
        scores: Score of each prediction, (I, N), floating point. All take part, however low.
        targets: True boxes, (I, M, 4), floating point.
        target_mask: True where a target is real, (I, M), bool.
        thresholds: Smallest intersection over union for a match, T numbers.
        mask: True where a prediction is real, (I, N), bool. None: all are real.

    Returns:
        Average precision from 0 to 1 at each threshold, (T,). Without any target it is 0.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5]]])
        >>> scores = torch.tensor([[0.9, 0.8]])
        >>> targets = torch.tensor([[[0.0, 0.0, 1.0, 0.9], [0.0, 0.0, 0.5, 0.5]]])
        >>> real = torch.ones(1, 2, dtype=torch.bool)
        >>> box_average_precision(boxes, scores, targets, real, thresholds=[0.5, 0.95])
        tensor([1.0000, 0.2500])
    """
    real = _check(boxes, scores, targets, target_mask, mask, 4, name="boxes")

    def closeness(part: slice) -> Tensor:
        sides = _widen(boxes[part]), _widen(targets[part])
        return box_iou(*sides, real[part], target_mask[part])

    return _average_precision(closeness, thresholds, True, scores, real, target_mask)


def state_average_precision(
    states: Tensor,
    scores: Tensor,
    targets: Tensor,
    target_mask: Tensor,
    *,
    thresholds: Sequence[float] | Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Average precision of predicted CLEVR states over a whole dataset.

    A state is a 3d position divided by 3, then material (2), colour (8), shape (3) and size (2),
    of which the largest entry counts. A prediction goes to the nearest target of its image whose
    four attributes are the same, and is right when that target is near enough and not yet taken
    by a better ranked prediction; see :func:`box_average_precision`.

    Args:
        states: Predicted states of I images, (I, N, 18), floating point.
        scores: Score of each prediction, (I, N), floating point.
        targets: True states, (I, M, 18), floating point.
        target_mask: True where a target is real, (I, M), bool.
        thresholds: Largest distance for a match in the units of the scene (the stored position
            times 3), T numbers; ``inf`` asks for the attributes only.
        mask: True where a prediction is real, (I, N), bool. None: all are real.

    Returns:
        Average precision from 0 to 1 at each threshold, (T,). Without any target it is 0.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> state = torch.zeros(1, 1, 18)
        >>> state[..., [3, 5, 13, 16]] = 1.0
        >>> moved = state + 0.1 * torch.eye(18)[0]
        >>> real = torch.ones(1, 1, dtype=torch.bool)
        >>> state_average_precision(moved, torch.ones(1, 1), state, real, thresholds=[0.5, 0.25])
        tensor([1., 0.])
    """
    real = _check(states, scores, targets, target_mask, mask, STATE_FEATURES, name="states")
    states = states.masked_fill(~real.unsqueeze(-1), 0)
    targets = targets.masked_fill(~target_mask.unsqueeze(-1), 0)
    kind, target_kind = _attributes(states), _attributes(targets)

    def closeness(part: slice) -> Tensor:
        places, others = _widen(states[part, :, POSITION]), _widen(targets[part, :, POSITION])
        offset = places.unsqueeze(2) - others.unsqueeze(1)
        same = kind[part].unsqueeze(2) == target_kind[part].unsqueeze(1)
        distance = STATE_SCALE * torch.linalg.vector_norm(offset, dim=-1)
        return torch.where(same, -distance, -torch.inf)

    return _average_precision(closeness, thresholds, False, scores, real, target_mask)


def _average_precision(
    closeness: Callable[[slice], Tensor],
    thresholds: Sequence[float] | Tensor,
    largest: bool,
    scores: Tensor,
    real: Tensor,
    target_mask: Tensor,
) -> Tensor:
    """Average precision (T,) from how close predictions are to targets, for a slice of images."""
    best, target = _best_targets(closeness, real, target_mask)
    bars = torch.as_tensor(thresholds, dtype=best.dtype, device=best.device)
    check_shape(bars, (None,), name="thresholds", letters="(T,)")
    bars = bars if largest else -bars
    right = (best >= bars[:, None, None]) & (best > -torch.inf)  # (T, I, N)
    return _rank_and_score(right, target, scores, real, target_mask)


def _best_targets(
    closeness: Callable[[slice], Tensor], real: Tensor, target_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Closest target of each prediction and how close, (I, N) each; some images at a time."""
    images, slots = real.shape
    if target_mask.shape[1] == 0 or images == 0:
        nothing = torch.full_like(real, 0, dtype=torch.long)
        return nothing.to(torch.get_default_dtype()) - torch.inf, nothing
    step = max(1, _CHUNK // max(1, slots * target_mask.shape[1]))
    parts = []
    for start in range(0, images, step):
        part = slice(start, start + step)
        close = closeness(part)
        # Padding is no choice, whereas a box without overlap is one at threshold 0.
        never = close.isnan() | ~target_mask[part].unsqueeze(1)
        parts.append(close.masked_fill(never, -torch.inf).max(dim=2))  # the first of equal ones
    best = torch.cat([part.values for part in parts])
    return best, torch.cat([part.indices for part in parts])


def _rank_and_score(
    right: Tensor, target: Tensor, scores: Tensor, real: Tensor, target_mask: Tensor
) -> Tensor:
    """Average precision (T,) from which predictions are close enough (T, I, N) to a target."""
    ranked = scores.detach().masked_fill(~real | scores.isnan(), -torch.inf).flatten()
    order = ranked.sort(descending=True, stable=True).indices
    order = order[real.flatten()[order]]  # (K,): the real predictions, best first
    columns = max(1, target_mask.shape[1])
    image = torch.arange(len(target), device=target.device).unsqueeze(1)
    target = (image * columns + target).flatten()[order]  # a number for each target of the dataset
    right = right.flatten(1)[:, order]  # (T, K)
    rank = torch.arange(len(order), device=order.device)
    claims = torch.where(right, rank, len(order))
    first = claims.new_full((len(right), len(real) * columns), len(order))
    first = first.scatter_reduce(1, target.expand_as(claims), claims, reduce="amin")
    hits = right & (first[:, target] == rank)
    found = hits.cumsum(dim=1).to(torch.float64)
    total = target_mask.sum().clamp(min=1)
    result = average_precision(found / total, found / (rank + 1))
    return result.to(torch.promote_types(scores.dtype, torch.float32))


def _widen(numbers: Tensor) -> Tensor:
    """In float32 at least: rounded to half precision, a distance may cross a threshold."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def _attributes(states: Tensor) -> Tensor:
    """The four attributes of each state as one whole number."""
    code = torch.zeros(states.shape[:-1], dtype=torch.long, device=states.device)
    for part in ATTRIBUTES:
        values = states[..., part]
        code = code * values.shape[-1] + values.argmax(dim=-1)
    return code


def _check(
    predictions: Tensor,
    scores: Tensor,
    targets: Tensor,
    target_mask: Tensor,
    mask: Tensor | None,
    features: int,
    *,
    name: str,
) -> Tensor:
    """Return the mask of the predictions; raise ``ValueError`` on a wrong shape or dtype."""
    real = check_padded_sets(predictions, mask, name=name)
    check_padded_sets(targets, target_mask, name="targets", mask_name="target_mask")
    check_shape(predictions, (None, None, features), name=name, letters="(I, N, D)")
    wanted = (len(predictions), None, features)
    check_shape(targets, wanted, name="targets", letters="(I, M, D)")
    check_shape(scores, tuple(real.shape), name="scores", letters="(I, N)")
    check_floating(scores, name="scores")
    return real
