"""Entropic transport between weighted sets, each in the precision that it needs."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import once_differentiable
from torchsets.losses.elements import Element, cost_matrix


class Problem(NamedTuple):
    """K times two weighted sets, (K, N, D) and (K, M, D), with the logarithms of their weights."""

    left: Tensor
    right: Tensor
    left_weights: Tensor
    right_weights: Tensor
    element: Element
    symmetric: bool  # both sides are the same

    def select(self, index: Tensor) -> "Problem":
        left, right, a, b = (tensor[index] for tensor in self[:4])
        return Problem(left, right, a, b, self.element, self.symmetric)

    def to(self, dtype: torch.dtype) -> "Problem":
        """The same in another precision; a callable gets the elements as they came."""
        left, right, a, b = self[:4]
        if not callable(self.element):
            left, right = left.to(dtype), right.to(dtype)
        return Problem(left, right, a.to(dtype), b.to(dtype), self.element, self.symmetric)

    def costs(self) -> Tensor:
        """The cost of every pair, (K, N, M)."""
        return cost_matrix(self.element, self.left, self.right).to(self.left_weights.dtype)


class Settings(NamedTuple):
    """The options of :func:`sinkhorn_divergence` with these names."""

    epsilon: float
    iterations: int
    tolerance: float


class Transport(NamedTuple):
    """Cost of the best plan, number of iterations and marginal error, each (K,)."""

    value: Tensor
    iterations: Tensor
    error: Tensor


def solve(problem: Problem, settings: Settings) -> Transport:
    """Each set in the precision it needs, whatever else is in the batch.

    Coordinates in pixels have costs whose rounding in float32 is many times the entropy.
    """
    with torch.no_grad():
        cost = problem.costs()
        rounding = _rounding(cost, _real(problem), settings.epsilon)
        wide = rounding > settings.tolerance / 4
        if cost.dtype == torch.float64 or cost.device.type == "mps":  # which has no float64
            wide = torch.zeros_like(wide)
        some, every = bool(wide.any()), bool(wide.all())
    if not some:
        return _transport(problem, cost, settings)
    if every:
        problem = problem.to(torch.float64)
        with torch.no_grad():
            cost = problem.costs()
        return _transport(problem, cost, settings)
    groups = [wide.nonzero().squeeze(1), (~wide).nonzero().squeeze(1)]
    back = torch.cat(groups).argsort()
    parts = [solve(problem.select(group), settings) for group in groups]
    return Transport(*(torch.cat(pieces)[back] for pieces in zip(*parts, strict=True)))


def _real(problem: Problem) -> Tensor:
    """Where both elements of a pair are real, (K, N, M)."""
    a, b = problem.left_weights, problem.right_weights
    return (a.unsqueeze(-1) + b.unsqueeze(-2)).isfinite()


def _rounding(cost: Tensor, real: Tensor, epsilon: float) -> Tensor:
    """How far rounding the largest cost moves the logarithm of an entry of the plan, (K,)."""
    largest = cost.abs().masked_fill(~real, 0).amax(dim=(1, 2))
    return largest * (torch.finfo(cost.dtype).eps / 2 / epsilon)


def _transport(problem: Problem, cost: Tensor, settings: Settings) -> Transport:
    a, b = problem.left_weights, problem.right_weights
    with torch.no_grad():
        real = _real(problem)
        f, g, count, error = _iterate(problem, cost, real, settings)
        # No plan is known better than rounding allows, whatever the last change was.
        error = torch.maximum(error, _rounding(cost, real, settings.epsilon)).clamp(max=2)
        plan = _plan(problem, cost, f, g, settings.epsilon)
        value = (a.exp() * f).sum(dim=-1) + (b.exp() * g).sum(dim=-1)
    # The value is accurate and constant; the plan gives its gradient (envelope theorem). In
    # forward mode no_grad keeps derivatives, and only detach drops them.
    through_plan = _cost_of_plan(plan.detach(), problem)
    return Transport(value.detach() + (through_plan - through_plan.detach()), count, error)


def _plan(problem: Problem, cost: Tensor, f: Tensor, g: Tensor, epsilon: float) -> Tensor:
    """How much of each element goes where, (K, N, M).

    It is exp((f + g - cost) / epsilon) with the weights, where g makes each column sum to its
    weight. As a softmax it does so exactly, and is finite where f and g are rounded.
    """
    a, b = problem.left_weights, problem.right_weights
    scores = (f.unsqueeze(-1) - cost) / epsilon + a.unsqueeze(-1)
    plan = scores.softmax(dim=-2) * b.exp().unsqueeze(-2)
    return (plan + plan.mT) / 2 if problem.symmetric else plan


def _iterate(
    problem: Problem, cost: Tensor, real: Tensor, settings: Settings
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Potentials f (K, N) and g (K, M), iterations and marginal error, each (K,)."""
    epsilon, iterations, tolerance = settings
    a, b = problem.left_weights, problem.right_weights
    f, g = torch.zeros_like(cost[..., 0]), torch.zeros_like(cost[..., 0, :])
    # From the largest cost down to epsilon by halves, each set for itself: plain iterations
    # would need as many as this ratio.
    blur = cost.masked_fill(~real, 0).amax(dim=(1, 2)).clamp(min=epsilon)  # (K,)
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
        if problem.symmetric:  # one potential, which the mean of old and new reaches in a few steps
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
    scores = (potential.unsqueeze(side) - cost) / blur[:, None, None]
    return -blur.unsqueeze(-1) * (scores + weights.unsqueeze(side)).logsumexp(dim=dim)


def _cost_of_plan(plan: Tensor, problem: Problem) -> Tensor:
    """Sum of plan times cost, (K,), as a function of the elements.

    Its second derivatives would take the plan as constant, which it is not.
    """
    left, right = (once_differentiable(side, "sinkhorn_loss") for side in problem[:2])
    problem = problem._replace(left=left, right=right)
    if problem.element != "squared":
        return (plan * problem.costs()).sum(dim=(1, 2))
    # |x|^2 + |y|^2 - 2 x y keeps one matrix for the gradient instead of one per feature. Around
    # the centre little cancels.
    weights = problem.right_weights.exp().unsqueeze(-1)
    centre = (weights * right.detach()).sum(dim=1, keepdim=True)
    left, right = left - centre, right - centre
    alone = (plan.sum(dim=2) * left.square().sum(dim=2)).sum(dim=1)
    alone = alone + (plan.sum(dim=1) * right.square().sum(dim=2)).sum(dim=1)
    return alone - 2 * (left * (plan @ right)).sum(dim=(1, 2))
