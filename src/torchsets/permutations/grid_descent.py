"""The inner loop of permutation-optimisation on a grid, with its own backward pass."""

import torch
from torch import Tensor

from torchsets._autograd import Context, differentiate_plainly, fast_or_plain, without_autocast
from torchsets.permutations.descent import descend_plainly
from torchsets.permutations.sinkhorn import pull_back_factors, scale

_ROUNDS = 4  # of Sinkhorn's normalisation, as in the paper

# Up to this many positions one product with a matrix of signs is faster than cumulative sums.
_SMALL = 64

# Below this norm costs are not scaled, as in the loop for sequences.
_SMALLEST_NORM = 1e-10


def descend_on_grid(
    costs: Tensor, step_size: Tensor, scores: Tensor | None, steps: int, grid: tuple[int, int]
) -> Tensor:
    """What :func:`descend_plainly` gives for a grid, faster: costs (B, 2, N, N) to (B, N, N)."""
    return fast_or_plain(_GridDescent, _descend_plainly, costs, step_size, scores, steps, grid)


def _descend_plainly(
    costs: Tensor, step_size: Tensor, scores: Tensor | None, steps: int, grid: tuple[int, int]
) -> Tensor:
    return descend_plainly(costs, step_size, scores, steps, grid=grid)


class _GridDescent(torch.autograd.Function):
    """Keeps the normalised scores P of each step and works in place on the others.

    A step is scores <- scores - C_0 P M_0 - C_1 P M_1, where C includes 2 |step size| and P M is
    the balance of the ordering cost: M_0 is 1 from a position to an earlier one of its column and
    -1 to a later one, M_1 the same for rows. The two problems alternate in the rows of C, (B, 2 N,
    N), so that a step is one product with P and one with M.
    """

    @staticmethod
    def forward(
        ctx: Context,
        costs: Tensor,
        step_size: Tensor,
        scores: Tensor | None,
        steps: int,
        grid: tuple[int, int],
    ) -> Tensor:
        ctx.steps, ctx.grid = steps, grid
        weights, signs = _alternate(costs * _factor(_norm(costs), step_size)), _signs(grid, costs)
        current = torch.zeros_like(costs[:, 0]) if scores is None else scores.clone()
        soft, kept, trusted = [], [], True
        for step in range(steps + 1):
            if step == 0 and scores is None:  # known, and depends on nothing
                soft.append(torch.full_like(current, 1 / current.shape[1]))
            else:
                soft.append(current.clone() if step < steps else current)
                factors = scale(soft[-1], _ROUNDS)
                kept += [factors.rows, factors.columns]
                trusted = trusted and factors.trusted()
            if step < steps:
                current -= _gather(torch.bmm(weights, soft[-1]), grid, signs)
        ctx.trusted = trusted
        if not trusted:
            ctx.save_for_backward(costs, step_size, scores)
            return descend_plainly(costs, step_size, scores, steps, grid=grid)
        ctx.save_for_backward(costs, step_size, scores, *soft, *kept)
        return soft[-1]

    @staticmethod
    def backward(ctx: Context, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        (cotangent,) = cotangents
        with without_autocast(cotangent):
            if torch.is_grad_enabled() or not ctx.trusted:
                return *_differentiate_plainly(ctx, cotangent), None, None
            return *_differentiate(ctx, cotangent), None, None


def _differentiate(ctx: Context, cotangent: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    costs, step_size, scores, *kept = ctx.saved_tensors
    soft, kept = kept[: ctx.steps + 1], kept[ctx.steps + 1 :]
    norm = _norm(costs)
    factor = _factor(norm, step_size)
    weights, signs = _alternate(costs * factor), _signs(ctx.grid, costs)
    at_soft = cotangent.clone(memory_format=torch.contiguous_format)
    at_scores, scratch = torch.zeros_like(at_soft), torch.empty_like(at_soft)
    at_weights = torch.zeros_like(weights)
    for step in reversed(range(ctx.steps + 1)):
        if step < ctx.steps:
            at_products = _spread(at_scores, ctx.grid, signs)
            at_weights.baddbmm_(at_products, soft[step].mT)
            torch.bmm(weights.mT, at_products, out=at_soft)
        if kept:
            columns, rows = kept.pop(), kept.pop()
            pull_back_factors(soft[step], rows, columns, at_soft, scratch=scratch, total=at_scores)
    batch, size, _ = at_soft.shape
    at_scaled = at_weights.view(batch, size, 2, size).transpose(1, 2)
    dot = (at_scaled * costs).sum(dim=(2, 3), keepdim=True)
    safe = _safe(norm)
    at_step_size = (2 * dot / safe).sum() * step_size.sign()
    # What the norm passes on; nothing to speak of where costs are too small to be scaled.
    at_costs = (at_scaled * factor).addcmul_(costs, dot * factor / safe.square(), value=-1)
    return at_costs, at_step_size, None if scores is None else at_scores


def _differentiate_plainly(ctx: Context, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    def again(costs: Tensor, step_size: Tensor, scores: Tensor | None) -> Tensor:
        return descend_plainly(costs, step_size, scores, ctx.steps, grid=ctx.grid)

    return differentiate_plainly(ctx, again, cotangent, inputs=3)


def _gather(products: Tensor, grid: tuple[int, int], signs: Tensor | None) -> Tensor:
    """The sum of C_0 P M_0 and C_1 P M_1, (B, N, N), from C P with alternating rows."""
    batch, _, size = products.shape
    if signs is not None:
        return products.view(batch, size, 2 * size) @ signs
    down, right = products.view(batch, size, 2, *grid).unbind(dim=2)
    return (_balance(down, -2) + _balance(right, -1)).flatten(2)


def _spread(at_scores: Tensor, grid: tuple[int, int], signs: Tensor | None) -> Tensor:
    """The gradient at C P, (B, 2 N, N), from that at the scores.

    The transpose of M is its negative, and the gathered sum was subtracted.
    """
    batch, size, _ = at_scores.shape
    if signs is not None:
        return -(at_scores @ signs.mT).view(batch, 2 * size, size)
    places = at_scores.view(batch, size, *grid)
    both = torch.stack([_balance(places, -2), _balance(places, -1)], dim=2)
    return both.view(batch, 2 * size, size)


def _balance(weight: Tensor, axis: int) -> Tensor:
    """What lies at later positions minus what lies at earlier ones."""
    until = weight.cumsum(dim=axis)
    return torch.add(weight, until, alpha=-2) + until.narrow(axis, until.shape[axis] - 1, 1)


def _signs(grid: tuple[int, int], like: Tensor) -> Tensor | None:
    """M_0 above M_1, (2 N, N); None for grids that are too large for it to pay."""
    if grid[0] * grid[1] > _SMALL:
        return None
    place = torch.arange(grid[0] * grid[1], device=like.device)
    row, column = place // grid[1], place % grid[1]
    later_row, later_column = (x.unsqueeze(1) - x for x in (row, column))
    down, right = later_row.sign() * (later_column == 0), later_column.sign() * (later_row == 0)
    return torch.cat([down, right]).to(like.dtype)


def _alternate(costs: Tensor) -> Tensor:
    """(B, 2, N, N) to (B, 2 N, N): the two problems of each element after one another."""
    return costs.transpose(1, 2).flatten(1, 2)


def _norm(costs: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(costs, dim=(2, 3), keepdim=True)
    return norm


def _safe(norm: Tensor) -> Tensor:
    return norm.masked_fill(norm < _SMALLEST_NORM, 1)


def _factor(norm: Tensor, step_size: Tensor) -> Tensor:
    """What costs are multiplied with for a step, (B, 2, 1, 1)."""
    return 2 * step_size.abs() / _safe(norm)
