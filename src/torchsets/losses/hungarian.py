"""Hungarian loss: the cost of the best one-to-one matching of two sets."""

from typing import Literal

import torch
from torch import Tensor

from torchsets.losses.elements import Element, cost_matrix
from torchsets.losses.pairs import SetPair, check_reduction, pair_sets
from torchsets.matching import assign

# Entries of a cost matrix that are made at once: 64 MB in float32.
_ENTRIES = 2**24


def hungarian_loss(
    prediction: Tensor,
    target: Tensor,
    target_mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    element: Element = "squared",
    reduction: Literal["sum", "mean"] = "sum",
) -> Tensor:
    """Match both sets one to one at the least total cost, and return that cost.

    Sets of n and m elements have min(n, m) pairs; elements without a partner cost nothing. The
    matching is exact (see :func:`torchsets.matching.assign`) and constant for the gradient.

    Args:
        prediction: Predicted sets, (*S, B, N, D), floating point, with any leading axes such as
            the steps of a decoder.
        target: Target sets, (B, M, D), floating point.
        target_mask: True where a target is real, (B, M), bool. None: all are.
        prediction_mask: The same for the prediction, (B, N) or (*S, B, N).
        element: ``"squared"``: sum of squares; ``"huber"``: smooth L1; or a callable that gives
            the cost of every pair, (.., N, D) and (.., M, D) to (.., N, M).
        reduction: ``"sum"`` over pairs and features, or ``"mean"`` over both (over pairs only
            for a callable).

    Returns:
        One loss per set, (*S, B). An empty set on either side gives 0 and zero gradients.

    Raises:
        TypeError: If a side is not a tensor, such as a :class:`SetPrediction`.
        ValueError: If a shape or dtype differs from the above, or a real element is nan or inf.

    Example:
        >>> one = torch.tensor([[[1.0], [1.0], [2.0]]])
        >>> other = torch.tensor([[[2.0], [2.0], [1.0]]])
        >>> hungarian_loss(one, other)
        tensor([1.])
    """
    check_reduction(reduction)
    pair = pair_sets(prediction, target, target_mask, prediction_mask, element=element)
    if pair.is_empty:
        return pair.finish(pair.zero())
    with pair.full_precision():
        with torch.no_grad():
            columns = _match(pair, element)  # (S, B, N)
        rows = torch.arange(columns.shape[2], device=columns.device).expand_as(columns)
        matched = columns >= 0
        unmasked = pair.prediction_mask is None and pair.target_mask is None
        all_matched = unmasked and columns.shape[2] <= pair.target.shape[1]
        costs = pair.costs(element, rows, columns.clamp(min=0), None if all_matched else matched)
        loss = costs.sum(dim=2)
        if reduction == "mean":
            features = 1 if callable(element) else pair.target.shape[2]
            loss = loss / (matched.sum(dim=2) * features).clamp(min=1)
        return pair.finish(loss)


def _match(pair: SetPair, element: Element) -> Tensor:
    steps, sets, slots, _ = pair.prediction.shape
    at_once = max(1, _ENTRIES // max(1, sets * slots * pair.target.shape[1]))
    parts = []
    for start in range(0, steps, at_once):
        prediction = pair.prediction[start : start + at_once]
        target = pair.target.expand(len(prediction), *pair.target.shape)
        cost = cost_matrix(element, prediction, target)
        row_mask = pair.prediction_mask
        column_mask = pair.target_mask
        if row_mask is not None:
            row_mask = row_mask[start : start + at_once].flatten(0, 1)
        if column_mask is not None:
            column_mask = column_mask.expand(len(prediction), *column_mask.shape).flatten(0, 1)
        try:
            columns = assign(cost.flatten(0, 1), row_mask, column_mask)
        except ValueError as error:
            raise ValueError(_blame(pair)) from error
        parts.append(columns.view(len(prediction), sets, slots))
    return torch.cat(parts)


def _blame(pair: SetPair) -> str:
    """Say which side holds the numbers that cannot be matched."""
    for name, elements in (("prediction", pair.prediction), ("target", pair.target)):
        wrong = ~elements.isfinite()  # padding has been filled
        if wrong.any():
            per_set = wrong.flatten(-2).sum(dim=-1)
            if per_set.ndim == 2:
                per_set = per_set.sum(dim=0)
            sets = per_set.nonzero().squeeze(1).tolist()
            return (
                f"{name} must be finite at real elements, got {int(per_set.sum())} nan or inf "
                f"entries in sets {sets[:5]}{' and more' if len(sets) > 5 else ''}"
            )
    return "element must give finite costs between finite elements, got nan or inf costs"
