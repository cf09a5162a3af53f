"""Sinkhorn divergence: a smooth, debiased transport distance between two sets."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.losses.elements import Element
from torchsets.losses.pairs import pair_sets
from torchsets.losses.transport import Problem, Settings, Transport, solve


class SinkhornResult(NamedTuple):
    """The divergence, and how well its iterations converged.

    Attributes:
        loss: One divergence per set, (*S, B).
        iterations: Iterations until convergence, the most of the three transport problems of a
            set, (*S, B), long.
        marginal_error: How much mass the worst of the three plans misplaces, from 0 to 2,
            (*S, B). Above the tolerance where the iterations did not suffice, or where rounding
            decides: not even float64 can tell costs apart that differ by epsilon.
    """

    loss: Tensor
    iterations: Tensor
    marginal_error: Tensor


def sinkhorn_loss(
    prediction: Tensor,
    target: Tensor,
    target_mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    element: Element = "squared",
    epsilon: float = 0.05,
    iterations: int = 200,
    tolerance: float = 1e-3,
) -> Tensor:
    """The loss of :func:`sinkhorn_divergence`, without the account of its convergence.

    Example:
        >>> one, other = torch.tensor([[[0.0], [1.0]]]), torch.tensor([[[3.0], [2.0]]])
        >>> sinkhorn_loss(one, other, epsilon=0.01)
        tensor([4.])
    """
    return sinkhorn_divergence(
        prediction,
        target,
        target_mask,
        prediction_mask=prediction_mask,
        element=element,
        epsilon=epsilon,
        iterations=iterations,
        tolerance=tolerance,
    ).loss


def sinkhorn_divergence(
    prediction: Tensor,
    target: Tensor,
    target_mask: Tensor | None = None,
    *,
    prediction_mask: Tensor | None = None,
    element: Element = "squared",
    epsilon: float = 0.05,
    iterations: int = 200,
    tolerance: float = 1e-3,
) -> SinkhornResult:
    """Transport one set onto the other, blurred by entropy, minus the blur of each set.

    Each set has a total weight of 1, spread evenly over its real elements. With OT the least
    ``sum P C + epsilon KL(P | a b)`` over transport plans, the loss is ``OT(x, y) - OT(x, x) / 2
    - OT(y, y) / 2``. It goes to the exact transport cost as epsilon goes to 0, and is 0 for equal
    sets. Every set stops by itself when its marginals are right, so results do not depend on the
    batch. All pairs are held in memory, in float64 for sets where float32 would round away the
    entropy, such as pixel coordinates with the default epsilon.

    Args:
        prediction: Predicted sets, (*S, B, N, D), floating point.
        target: Target sets, (B, M, D), floating point.
        target_mask: True where a target is real, (B, M), bool. None: all are.
        prediction_mask: The same for the prediction, (B, N) or (*S, B, N).
        element: ``"squared"``, ``"huber"`` or a callable, as in the other losses. A callable must
            be symmetric and accept two sets of either side.
        epsilon: Strength of the entropy, in units of the element cost.
        iterations: Bound on the number of iterations.
        tolerance: A set has converged when its plan misplaces less mass than this.

    Returns:
        A :class:`SinkhornResult`. An empty set on either side gives 0 and zero gradients. The
        gradient takes the plan as constant, which is exact at convergence; second derivatives
        raise ``RuntimeError``.

    Raises:
        TypeError: If a side is not a tensor, such as a :class:`SetPrediction`.
        ValueError: If a shape or dtype differs from the above, or an option is not positive.

    Reference:
        Feydy et al. 2019, https://arxiv.org/abs/1810.08278, equation 3.
    """
    for name, value in (
        ("epsilon", epsilon),
        ("iterations", iterations),
        ("tolerance", tolerance),
    ):
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
    pair = pair_sets(prediction, target, target_mask, prediction_mask, element=element)
    if pair.is_empty:
        nothing = pair.zero()
        return SinkhornResult(
            pair.finish(nothing),
            torch.zeros(pair.result_shape, dtype=torch.long, device=nothing.device),
            pair.finish(nothing.detach()),
        )
    steps = len(pair.prediction)
    left, right = pair.prediction.flatten(0, 1), pair.target
    a = _log_weights(pair.prediction_mask, pair.prediction).flatten(0, 1)
    b = _log_weights(pair.target_mask, right)
    problems = [
        Problem(left, right.repeat(steps, 1, 1), a, b.repeat(steps, 1), element, symmetric=False),
        Problem(left, left, a, a, element, symmetric=True),
        Problem(right, right, b, b, element, symmetric=True),
    ]
    settings = Settings(epsilon, iterations, tolerance)
    with pair.full_precision():
        solved = [solve(problem, settings) for problem in problems]
        both, own, theirs = (
            Transport(*(x.view(-1, len(right)).expand(steps, -1) for x in one)) for one in solved
        )
        loss = both.value - own.value / 2 - theirs.value / 2
    answered = pair.answered()[0]
    if answered is not None:
        loss = torch.where(answered.any(dim=2), loss, pair.zero())
    shape = pair.result_shape
    count = torch.stack([both.iterations, own.iterations, theirs.iterations]).amax(dim=0)
    error = torch.stack([both.error, own.error, theirs.error]).amax(dim=0)
    return SinkhornResult(pair.finish(loss), count.view(shape), error.to(left.dtype).view(shape))


def _log_weights(mask: Tensor | None, elements: Tensor) -> Tensor:
    """Logarithm of 1 / n, -inf at padding; all alike in an empty set, whose result is not used."""
    shape = elements.shape[:-1]
    if mask is None:
        mask = torch.ones(shape, dtype=torch.bool, device=elements.device)
    mask = mask | ~mask.any(dim=-1, keepdim=True)
    weights = -mask.sum(dim=-1, keepdim=True).to(elements.dtype).log()
    return weights.expand(shape).masked_fill(~mask, -torch.inf)
