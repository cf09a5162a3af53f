"""Sinkhorn divergence: a smooth, debiased transport distance between two sets."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.losses.elements import Element, cost_matrix
from torchsets.losses.pairs import pair_sets


class SinkhornResult(NamedTuple):
    """The divergence, and how well its iterations converged.

    Attributes:
        loss: One divergence per set, (*S, B).
        iterations: Iterations until convergence, the most of the three transport problems of a
            set, (*S, B), long.
        marginal_error: How much mass the worst of the three plans misplaces, from 0 to 2,
            (*S, B). Above the tolerance where the iterations did not suffice.
    """

    loss: Tensor
    iterations: Tensor
    marginal_error: Tensor


class _Problem(NamedTuple):
    """Two weighted sets (S or 1, B, N or M, D), with the logarithms of their weights."""

    left: Tensor
    right: Tensor
    left_weights: Tensor
    right_weights: Tensor


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
    batch. All pairs are held in memory.

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
        gradient takes the plan as constant, which is exact at convergence; second derivatives are
        not available.

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
    left, right = pair.prediction, pair.target[None]
    left_weights = _log_weights(pair.prediction_mask, left)
    right_weights = _log_weights(pair.target_mask, right)
    problems = [
        _Problem(left, right, left_weights, right_weights),
        _Problem(left, left, left_weights, left_weights),
        _Problem(right, right, right_weights, right_weights),
    ]
    with pair.full_precision():
        (both, own, theirs), counts, errors = zip(
            *(_transport(one, element, epsilon, iterations, tolerance) for one in problems),
            strict=True,
        )
        loss = both - own / 2 - theirs / 2
    answered = pair.answered()[0]
    if answered is not None:
        loss = torch.where(answered.any(dim=2), loss, pair.zero())
    shape = pair.result_shape
    return SinkhornResult(
        pair.finish(loss),
        torch.stack([count.expand_as(loss) for count in counts]).amax(dim=0).view(shape),
        torch.stack([error.expand_as(loss) for error in errors]).amax(dim=0).view(shape),
    )


def _log_weights(mask: Tensor | None, elements: Tensor) -> Tensor:
    """Logarithm of 1 / n, -inf at padding; all alike in an empty set, whose result is not used."""
    shape = elements.shape[:-1]
    if mask is None:
        mask = torch.ones(shape, dtype=torch.bool, device=elements.device)
    mask = mask.expand(shape)
    mask = mask | ~mask.any(dim=-1, keepdim=True)
    weights = -mask.sum(dim=-1, keepdim=True).to(elements.dtype).log()
    return weights.expand(shape).masked_fill(~mask, -torch.inf)


def _transport(
    problem: _Problem, element: Element, epsilon: float, iterations: int, tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Cost of the best plan, number of iterations and marginal error, each (S, B)."""
    left, right, a, b = problem
    with torch.no_grad():
        steps = max(len(left), len(right))
        wide_left, wide_right = (x.expand(steps, *x.shape[1:]) for x in (left, right))
        cost = cost_matrix(element, wide_left, wide_right)  # (S, B, N, M)
        f, g, count, error = _iterate(
            cost, a, b, epsilon, iterations, tolerance, symmetric=left is right
        )
        scores = (f.unsqueeze(-1) + g.unsqueeze(-2) - cost) / epsilon
        plan = (scores + a.unsqueeze(-1) + b.unsqueeze(-2)).exp()
        value = (a.exp() * f).sum(dim=-1) + (b.exp() * g).sum(dim=-1)
    # The value is accurate and constant; the plan gives its gradient (envelope theorem).
    through_plan = _cost_of_plan(plan, problem, element)
    return value + through_plan - through_plan.detach(), count, error


def _iterate(
    cost: Tensor,
    a: Tensor,
    b: Tensor,
    epsilon: float,
    iterations: int,
    tolerance: float,
    *,
    symmetric: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Potentials f (S, B, N) and g (S, B, M), iterations and marginal error, each (S, B)."""
    f, g = torch.zeros_like(cost[..., 0]), torch.zeros_like(cost[..., 0, :])
    real = (a.unsqueeze(-1) + b.unsqueeze(-2)).isfinite()
    # From the largest cost down to epsilon by halves, each set for itself: plain iterations
    # would need as many as this ratio.
    blur = cost.masked_fill(~real, 0).amax(dim=(2, 3)).clamp(min=epsilon)  # (S, B)
    count = torch.zeros_like(blur, dtype=torch.long)
    error = torch.full_like(blur, torch.inf)
    running = torch.ones_like(blur, dtype=torch.bool)
    final = torch.zeros_like(running)  # whether g was made with the final blur
    for _ in range(iterations):
        new_f = _soft_minimum(cost, g, b, blur, dim=-1)
        change = ((f - new_f) / blur.unsqueeze(-1)).clamp(max=30)  # only the first ones are big
        new_error = (a.exp() * (change.exp() - 1).abs()).sum(dim=-1)
        error = torch.where(running & final, new_error, error)
        running = running & ~(error < tolerance)
        if not running.any():
            break
        if symmetric:  # one potential, which the mean of old and new reaches in a few steps
            new_f = (f + new_f) / 2
            new_g = new_f
        else:
            new_g = _soft_minimum(cost, new_f, a, blur, dim=-2)
        f = torch.where(running.unsqueeze(-1), new_f, f)
        g = torch.where(running.unsqueeze(-1), new_g, g)
        count += running
        final = blur <= epsilon
        blur = (blur / 2).clamp(min=epsilon)
    return f, g, count, error


def _soft_minimum(
    cost: Tensor, potential: Tensor, weights: Tensor, blur: Tensor, dim: int
) -> Tensor:
    """Of cost minus potential over the given side, -blur log sum w exp((potential - cost)/blur)."""
    side = -2 if dim == -1 else -1
    scores = (potential.unsqueeze(side) - cost) / blur[..., None, None]
    return -blur.unsqueeze(-1) * (scores + weights.unsqueeze(side)).logsumexp(dim=dim)


def _cost_of_plan(plan: Tensor, problem: _Problem, element: Element) -> Tensor:
    """Sum of plan times cost, (S, B), as a function of the elements."""
    left, right = problem.left, problem.right
    if element != "squared":
        wide_left, wide_right = (x.expand(len(plan), *x.shape[1:]) for x in (left, right))
        return (plan * cost_matrix(element, wide_left, wide_right)).sum(dim=(2, 3))
    # |x|^2 + |y|^2 - 2 x y keeps one matrix for the gradient instead of one per feature. Around
    # the centre little cancels.
    weights = problem.right_weights.exp().unsqueeze(-1)
    centre = (weights * right.detach()).sum(dim=2, keepdim=True)
    left, right = left - centre, right - centre
    alone = (plan.sum(dim=3) * left.square().sum(dim=3)).sum(dim=2)
    alone = alone + (plan.sum(dim=2) * right.square().sum(dim=3)).sum(dim=2)
    return alone - 2 * (left * (plan @ right)).sum(dim=(2, 3))
