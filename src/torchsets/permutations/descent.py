"""The inner loop of permutation-optimisation: plain, and fast with its own backward pass."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from torchsets.permutations.cost import ordering_gradient
from torchsets.permutations.sinkhorn import normalise, pull_back, pull_back_factors, scale

_ROUNDS = 4  # of Sinkhorn's normalisation, as in the paper

# Sets are taken through the whole loop in groups of about this many scores, so that the matrices
# of a group stay in a core's cache.
_GROUP = 1 << 18

# Costs that are all 0 (one element, or only equal ones) have no direction: below this norm they
# are not scaled, and get a plain gradient instead of one divided by almost nothing.
_SMALLEST_NORM = 1e-10


def descend(
    costs: Tensor, step_size: Tensor, scores: Tensor | None, steps: int, *, start: Tensor | None
) -> Tensor:
    """Scale the costs, ``steps`` times scores <- scores - 2 C B, then normalise: (B, N, N).

    Scores of None are zeros. ``start`` says that all elements have the same scores: it is their
    normalised row, (B, 1, N), and the first step then needs no matrix product.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return descend_plainly(costs, step_size, scores, steps)
    inputs = [x for x in (costs, step_size, scores) if x is not None]
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    soft: Tensor = _Descent.apply(costs, step_size, scores, start, steps, keep)  # type: ignore[no-untyped-call]
    return soft


def descend_plainly(
    costs: Tensor,
    step_size: Tensor,
    scores: Tensor | None,
    steps: int,
    *,
    grid: tuple[int, int] | None = None,
    through_sinkhorn: bool = False,
) -> Tensor:
    """The same in differentiable operations, also for grids and with the true gradient."""
    if scores is None:
        scores = costs.new_zeros(costs.shape[0], *costs.shape[-2:])
    norm = torch.linalg.vector_norm(costs, dim=(-2, -1), keepdim=True)
    costs = costs * (step_size.abs() / _safe(norm))
    for _ in range(steps):
        gradient = ordering_gradient(normalise(scores, _ROUNDS), costs, grid)
        if through_sinkhorn:
            gradient = pull_back(scores, gradient, _ROUNDS)
        scores = scores - gradient
    return normalise(scores, _ROUNDS)


class _Descent(torch.autograd.Function):
    """Keeps one matrix per step, the normalised scores P_t, and works in place on the others.

    The scores are S_t = S_0 + Q_t M with Q_t = - sum_{s < t} C P_s, where C includes 2 |step
    size| and M is the matrix of :func:`_signed`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        costs: Tensor,
        step_size: Tensor,
        scores: Tensor | None,
        start: Tensor | None,
        steps: int,
        keep: bool,
    ) -> Tensor:
        ctx.steps, ctx.start = steps, start
        costs = costs.contiguous()
        loops = steps if start is None else steps - 1
        kept = costs.new_empty(loops if keep else min(loops, 1), *costs.shape)
        soft = torch.empty_like(costs)
        norm, factor = _scales(costs, step_size)
        factors = []
        for sets in _groups(costs):
            scaled = costs[sets] * factor[sets]
            products, current = torch.zeros_like(scaled), torch.empty_like(scaled)
            if start is not None:
                products -= scaled.sum(dim=2, keepdim=True) * start[sets]
            for step in range(loops + 1):
                _signed(products, out=current)
                if scores is not None:
                    current += scores[sets]
                if step < loops:
                    here = kept[step if keep else 0, sets]
                    factors.append(scale(current, _ROUNDS, out=here))
                    products.baddbmm_(scaled, here, alpha=-1)
            factors.append(scale(current, _ROUNDS, out=soft[sets]))
        ctx.trusted = all(factor.trusted() for factor in factors)
        if not ctx.trusted:
            ctx.save_for_backward(costs, step_size, scores)
            return descend_plainly(costs, step_size, scores, steps)
        rows = [factor.rows for factor in factors]
        columns = [factor.columns for factor in factors]
        ctx.save_for_backward(costs, step_size, scores, norm, kept, soft, *rows, *columns)
        return soft

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        with torch.autocast(cotangents[0].device.type, enabled=False):
            if torch.is_grad_enabled() or not ctx.trusted:
                return *_differentiate_plainly(ctx, cotangents[0]), None, None, None
            return *_differentiate(ctx, cotangents[0]), None, None, None


def _differentiate_plainly(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    inputs = list(ctx.saved_tensors[:3])
    wanted = [index for index in range(3) if ctx.needs_input_grad[index]]
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        if not again:
            for index in wanted:
                inputs[index] = inputs[index].detach().requires_grad_()
        costs, step_size, scores = inputs
        soft = descend_plainly(costs, step_size, scores, ctx.steps)
        found = torch.autograd.grad(
            soft,
            [inputs[index] for index in wanted],
            cotangent,
            create_graph=again,
            materialize_grads=True,  # without steps, costs and step size do not take part
        )
    gradients: list[Tensor | None] = [None] * 3
    for index, gradient in zip(wanted, found, strict=True):
        gradients[index] = gradient
    return tuple(gradients)


def _differentiate(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    costs, step_size, scores, norm, kept, soft, *factors = ctx.saved_tensors
    count = len(factors) // 2
    rows, columns = iter(reversed(factors[:count])), iter(reversed(factors[count:]))
    _, factor = _scales(costs, step_size)
    at_costs, at_factor = torch.zeros_like(costs), torch.empty_like(factor)
    at_scores = None if scores is None else torch.empty_like(costs)
    for sets in reversed(list(_groups(costs))):
        scaled, at_scaled = costs[sets] * factor[sets], at_costs[sets]
        at_soft = cotangent[sets].clone(memory_format=torch.contiguous_format)
        current, buffer = torch.zeros_like(scaled), torch.empty_like(scaled)
        pull_back_factors(
            soft[sets], next(rows), next(columns), at_soft, scratch=buffer, total=current
        )
        for before in reversed(kept[:, sets]):
            # Minus the gradient at Q: the transpose of M is its negative, see _signed.
            at_products = _signed(current, out=buffer)
            at_scaled.baddbmm_(at_products, before.mT)
            torch.bmm(scaled.mT, at_products, out=at_soft)
            pull_back_factors(
                before, next(rows), next(columns), at_soft, scratch=buffer, total=current
            )
        if ctx.start is not None:
            at_scaled += torch.bmm(_signed(current, out=buffer), ctx.start[sets].mT)
        if at_scores is not None:
            at_scores[sets] = current
        at_factor[sets] = _differentiate_scaling(at_scaled, costs[sets], norm[sets], factor[sets])
    at_step_size = (at_factor * 2 / _safe(norm)).sum() * step_size.sign()
    return at_costs, at_step_size, at_scores


def _differentiate_scaling(at: Tensor, costs: Tensor, norm: Tensor, factor: Tensor) -> Tensor:
    """Turn the gradient at costs * factor into the one at costs; return the one at the factor."""
    dot = torch.bmm(at.flatten(1).unsqueeze(1), costs.flatten(1).unsqueeze(2))
    projection = dot * factor / _safe(norm).square()
    at.mul_(factor).addcmul_(costs, projection.masked_fill(norm < _SMALLEST_NORM, 0), value=-1)
    return dot


def _scales(costs: Tensor, step_size: Tensor) -> tuple[Tensor, Tensor]:
    """The norm of each cost matrix, and what it is multiplied with for a step, (B, 1, 1)."""
    norm = torch.linalg.vector_norm(costs, dim=(1, 2), keepdim=True)
    return norm, 2 * step_size.abs() / _safe(norm)


def _safe(norm: Tensor) -> Tensor:
    return norm.masked_fill(norm < _SMALLEST_NORM, 1)


def _signed(soft: Tensor, *, out: Tensor) -> Tensor:
    """B without the sum of each row: P_jq - 2 sum_{k' <= q} P_jk'.

    The sum would add the same number to all scores of an element, which normalising takes away
    again. For the same reason gradients at the scores sum to 0 over positions, and there the
    transpose of this map is its negative.
    """
    out = torch.cumsum(soft, dim=2, out=out)
    return torch.sub(soft, out, alpha=2, out=out)


def _groups(costs: Tensor) -> Iterator[slice]:
    if costs.device.type != "cpu":  # a GPU is busy only with all sets at once
        yield slice(0, len(costs))
        return
    sets = max(1, _GROUP // max(1, costs.shape[1] * costs.shape[2]))
    for start in range(0, len(costs), sets):
        yield slice(start, start + sets)
