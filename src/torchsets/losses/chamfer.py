"""Chamfer loss: every element against the nearest one of the other set."""

from typing import Literal

import torch
from torch import Tensor

from torchsets.losses.elements import Element
from torchsets.losses.neighbours import search
from torchsets.losses.pairs import SetPair, check_reduction, pair_sets


def chamfer_loss(
    prediction: Tensor,
    target: Tensor,
    target_mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    element: Element = "squared",
    reduction: Literal["sum", "mean"] = "sum",
) -> Tensor:
    """Add the costs from each element to the nearest of the other set, in both directions.

    Several elements may share a neighbour, so how often an element occurs does not count:
    [1, 1, 2] and [1, 2, 2, 2] have the loss 0. The neighbours are exact (see
    :func:`nearest_neighbours`) and constant for the gradient, so going backward costs a gather.

    Args:
        prediction: Predicted sets, (*S, B, N, D), floating point, with any leading axes such as
            the steps of a decoder.
        target: Target sets, (B, M, D), floating point.
        target_mask: True where a target is real, (B, M), bool. None: all are.
        prediction_mask: The same for the prediction, (B, N) or (*S, B, N).
        element: ``"squared"``: sum of squares; ``"huber"``: smooth L1; or a callable that gives
            the cost of every pair, (.., N, D) and (.., M, D) to (.., N, M). It is called on
            blocks of elements to find neighbours, then on the pairs, (K, 1, D) and (K, 1, D).
        reduction: ``"sum"`` over elements and features, or ``"mean"`` over features (not for a
            callable) and over the elements of each side; the directions are added.

    Returns:
        One loss per set, (*S, B). An empty set on either side gives 0 and zero gradients: there
        is no neighbour to be far from.

    Raises:
        TypeError: If a side is not a tensor, such as a :class:`SetPrediction`.
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> one = torch.tensor([[[1.0], [1.0], [2.0]]])
        >>> chamfer_loss(one, torch.tensor([[[1.0], [2.0], [2.0], [2.0]]]))
        tensor([0.])
        >>> chamfer_loss(one, torch.tensor([[[1.0], [4.0]]]))
        tensor([5.])

    Reference:
        Fan, Su, Guibas 2017, https://arxiv.org/abs/1612.00603, equation 1.
    """
    check_reduction(reduction)
    pair = pair_sets(prediction, target, target_mask, prediction_mask, element=element)
    if pair.is_empty:
        return pair.finish(pair.zero())
    with pair.full_precision():
        forward, backward = chamfer_costs(pair, element)
        real, wanted = pair.answered()
        loss = _reduce(forward, real, reduction) + _reduce(backward, wanted, reduction)
        if reduction == "mean" and not callable(element):
            loss = loss / max(1, target.shape[2])
        return pair.finish(loss)


def chamfer_costs(pair: SetPair, element: Element) -> tuple[Tensor, Tensor]:
    """Cost of each prediction (S, B, N) and of each target (S, B, M) with its neighbour."""
    prediction, target = pair.prediction, pair.target[None]
    masks = pair.prediction_mask, pair.target_mask
    with torch.no_grad():
        to_target = search(prediction, target, *masks, element)  # (S, B, N)
        to_prediction = search(target, prediction, *masks[::-1], element, swapped=True)
    real, wanted = pair.answered()
    own = torch.arange(to_target.shape[2], device=target.device).expand_as(to_target)
    theirs = torch.arange(to_prediction.shape[2], device=target.device).expand_as(to_prediction)
    return (
        pair.costs(element, own, to_target, real),
        pair.costs(element, to_prediction, theirs, wanted),
    )


def _reduce(costs: Tensor, counted: Tensor | None, reduction: str) -> Tensor:
    if reduction == "sum":
        return costs.sum(dim=2)
    if counted is None:
        return costs.mean(dim=2)
    return costs.sum(dim=2) / counted.sum(dim=2).clamp(min=1)
