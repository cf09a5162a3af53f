"""The inner loop of permutation-optimisation: plain, and fast with its own backward pass."""

from collections.abc import Iterator

import torch
from torch import Tensor

from torchsets._autograd import Context, apply, differentiate_plainly, is_traced, without_autocast
from torchsets.permutations.cost import ordering_gradient
from torchsets.permutations.sinkhorn import normalise, pull_back, pull_back_factors, scale
from torchsets.permutations.thin import thin_permutation, thin_rank

_ROUNDS = 4  # of Sinkhorn's normalisation, as in the paper

# Sets are taken through the whole loop in groups of about this many scores, so that the matrices
# of a group stay in a core's cache.
_GROUP = 1 << 18

# Costs that are all 0 (one element, or only equal ones) have no direction: below this they are not
# scaled, and get a plain gradient instead of one that overflows float32 when divided by it.
_SMALLEST_COST = 1e-35

# Of costs whose largest entry is 1 the norm is at least 1, so that below this they are all 0.
_SMALLEST_NORM = 1e-10


def scale_largest(costs: Tensor) -> Tensor:
    """Divide each matrix (..., N, N) by its largest entry: then no norm over- or underflows.

    The norm is divided out later and takes this factor with it, so it needs no gradient.
    """
    largest = costs.detach().abs().amax(dim=(-2, -1), keepdim=True)
    return costs / largest.masked_fill(largest < _SMALLEST_COST, 1)


def descend(
    costs: Tensor, step_size: Tensor, scores: Tensor | None, steps: int, *, start: Tensor | None
) -> Tensor:
    """Scale the costs, ``steps`` times scores <- scores - 2 C B, then normalise: (B, N, N).

    Scores of None are zeros. ``start`` says that all elements have the same scores: it is their
    normalised row, (B, 1, N), and the first step then needs no matrix product.
    """
    if is_traced():
        return descend_plainly(costs, step_size, scores, steps)
    inputs = [x for x in (costs, step_size, scores) if x is not None]
    keep = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
    costs = costs.contiguous()  # here, so that its gradient can be differentiated again
    return apply(_Descent, costs, step_size, scores, start, steps, keep)


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
    if steps == 0:  # costs and step size take no part, and have a gradient of 0
        scores = scores + costs[..., :0].sum() + step_size.flatten()[:0].sum()
    # The norm has no second derivative at 0, not even a masked one: there it is taken of ones.
    zero = torch.linalg.vector_norm(costs.detach(), dim=(-2, -1), keepdim=True) < _SMALLEST_NORM
    norm = torch.linalg.vector_norm(costs.masked_fill(zero, 1), dim=(-2, -1), keepdim=True)
    costs = costs * (step_size.abs() / norm.masked_fill(zero, 1))
    for _ in range(steps):
        gradient = ordering_gradient(normalise(scores, _ROUNDS), costs, grid)
        if through_sinkhorn:
            gradient = pull_back(scores, gradient, _ROUNDS)
        scores = scores - gradient
    return normalise(scores, _ROUNDS)


class _Descent(torch.autograd.Function):
    """Keeps one matrix per step, the normalised scores P_t, and works in place on the others.

    The scores are S_t = S_0 + Q_t M with Q_t = - sum_{s < t} C P_s, where C includes 2 |step
    size| and M is the matrix of :func:`_signed`. From uniform scores two steps need no product of
    N x N matrices: P_0 has equal rows, and P_1 is the product of thin matrices.
    """

    @staticmethod
    def forward(
        ctx: Context,
        costs: Tensor,
        step_size: Tensor,
        scores: Tensor | None,
        start: Tensor | None,
        steps: int,
        keep: bool,
    ) -> Tensor:
        ctx.steps, ctx.start = steps, start
        soft = torch.empty_like(costs)
        norm, factor = _scales(costs, step_size)
        ctx.ranks, kept, found = [], [], []
        for sets in _groups(costs):
            initial = None if scores is None else scores[sets]
            scaled = costs[sets] * factor[sets]
            products, rank = _begin(scaled, initial, None if start is None else start[sets], steps)
            ctx.ranks.append(rank)
            for index in reversed(range(_dense_steps(ctx, rank) + 1)):
                here = torch.empty_like(products) if index else soft[sets]
                factors = scale(_scores(products, initial, out=here), _ROUNDS)
                found.append(factors)
                if index:
                    products.baddbmm_(scaled, here, alpha=-1)
                if keep:
                    kept += [here, factors.rows, factors.columns][0 if index else 1 :]
        ctx.trusted = all(factors.trusted() for factors in found)
        if not ctx.trusted:
            ctx.save_for_backward(costs, step_size, scores)
            return descend_plainly(costs, step_size, scores, steps)
        ctx.save_for_backward(costs, step_size, scores, norm, soft, *kept)
        return soft

    @staticmethod
    def backward(ctx: Context, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        with without_autocast(cotangents[0]):
            if torch.is_grad_enabled() or not ctx.trusted:
                return *_differentiate_plainly(ctx, cotangents[0]), None, None, None
            return *_differentiate(ctx, cotangents[0]), None, None, None


def _begin(
    scaled: Tensor, scores: Tensor | None, start: Tensor | None, steps: int
) -> tuple[Tensor, int]:
    """Q after the steps that are cheap, and the rank of the thin one, 0 if there was none."""
    if start is None:
        return torch.zeros_like(scaled), 0
    pull = scaled.sum(dim=2, keepdim=True)
    products = pull * -start
    rank = thin_rank(pull) if scores is None and steps > 1 else 0
    if rank:
        left, right = thin_permutation(pull, rank, _ROUNDS)
        products.baddbmm_(torch.bmm(scaled, left), right, alpha=-1)
    return products, rank


def _dense_steps(ctx: Context, rank: int) -> int:
    steps: int = ctx.steps - (ctx.start is not None) - (rank > 0)
    return steps


def _scores(products: Tensor, initial: Tensor | None, *, out: Tensor) -> Tensor:
    _signed(products, out=out)
    return out if initial is None else out.add_(initial)


def _differentiate_plainly(ctx: Context, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    def again(costs: Tensor, step_size: Tensor, scores: Tensor | None) -> Tensor:
        return descend_plainly(costs, step_size, scores, ctx.steps)

    return differentiate_plainly(ctx, again, cotangent, inputs=3)


def _differentiate(ctx: Context, cotangent: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    costs, step_size, scores, norm, soft, *kept = ctx.saved_tensors
    _, factor = _scales(costs, step_size)
    at_costs, at_factor = torch.empty_like(costs), torch.empty_like(factor)
    at_scores = None if scores is None else torch.empty_like(costs)
    for sets, rank in zip(reversed(list(_groups(costs))), reversed(ctx.ranks), strict=True):
        scaled, at_scaled = costs[sets] * factor[sets], at_costs[sets]
        at_soft = cotangent[sets].clone(memory_format=torch.contiguous_format)
        current, buffer = torch.zeros_like(scaled), torch.empty_like(scaled)
        before = soft[sets]
        dense = _dense_steps(ctx, rank)
        for index in range(dense + 1):
            columns, rows = kept.pop(), kept.pop()
            if index:
                before = kept.pop()
                # Minus the gradient at Q: the transpose of M is its negative, see _signed.
                at_products = _signed(current, out=buffer)
                at_scaled.baddbmm_(at_products, before.mT, beta=index > 1)
                torch.bmm(scaled.mT, at_products, out=at_soft)
            pull_back_factors(before, rows, columns, at_soft, scratch=buffer, total=current)
        if not dense:
            at_scaled.zero_()
        if ctx.start is not None:
            at_products = _signed(current, out=buffer)
            _differentiate_beginning(scaled, at_products, ctx.start[sets], rank, at_scaled)
        if at_scores is not None:
            at_scores[sets] = current
        at_factor[sets] = _differentiate_scaling(at_scaled, costs[sets], norm[sets], factor[sets])
    at_step_size = (at_factor * 2 / _safe(norm)).sum() * step_size.sign()
    return at_costs, at_step_size, at_scores


def _differentiate_beginning(
    scaled: Tensor, at_products: Tensor, start: Tensor, rank: int, at_scaled: Tensor
) -> None:
    """Add to ``at_scaled`` what comes from :func:`_begin`."""
    at_pull = torch.bmm(at_products, start.mT)
    if rank:
        pull = scaled.sum(dim=2, keepdim=True).requires_grad_()
        with torch.enable_grad():
            left, right = thin_permutation(pull, rank, _ROUNDS)
        at_moved = torch.bmm(at_products, right.detach().mT)
        at_scaled.baddbmm_(at_moved, left.detach().mT)
        at_left = torch.bmm(scaled.mT, at_moved)
        at_right = torch.bmm(torch.bmm(scaled, left.detach()).mT, at_products)
        at_pull += torch.autograd.grad([left, right], pull, [at_left, at_right])[0]
    at_scaled += at_pull


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
