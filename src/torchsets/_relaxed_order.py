"""The matrices of a relaxed order, and products with them, without N x N temporaries."""

from typing import Any, cast

import torch
from torch import Tensor

from torchsets._autograd import (
    Context,
    becomes_program,
    fast_or_plain,
    is_traced,
    softmax_backward,
    without_autocast,
)

_BLOCK = 1 << 18  # numbers that stay in a core's cache


def relaxed_order(
    centred: Tensor,
    rows: Tensor | None,
    mask: Tensor,
    order: Tensor,
    slope: Tensor,
    temperature: float,
) -> tuple[Tensor | None, Tensor]:
    """P of NeuralSort, (B, N, N), behind P @ rows, if there are rows (B, N).

    Args:
        centred: Scores, around 0, 0 at padding, (B, N).
        rows: What to multiply P with.
        mask: True where a score is real, (B, N).
        order: The descending order of the scores, (B, N).
        slope: n + 1 - 2i for the ranks i = 1..N, (B, N).
        temperature: Of the relaxation.
    """
    parts = (centred, rows, mask, order, slope, temperature)
    if is_traced() or mask.is_meta:
        return _plain_order(*parts)
    result: tuple[Tensor | None, Tensor] = _RelaxedOrder.apply(*parts)  # type: ignore[no-untyped-call]  # torch gives it no type
    return result


def _distance_sums(
    centred: Tensor, order: Tensor, slope: Tensor, *, ties: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """The sum over k of abs(s_j - s_k), for each j, from running sums in sorted order.

    Equal scores get the same gradient with their :func:`_ties` only; the sums need none.
    """
    ranked = centred.gather(1, order)
    outside, inside = _around(ranked, slope, ties)
    return torch.zeros_like(ranked).scatter(1, order, outside + inside)


def _around(
    ranked: Tensor, slope: Tensor, ties: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """The sum above each rank minus that below, and each number as often as more are below."""
    running = ranked.cumsum(dim=1)
    total = running[:, -1:]
    if ties is None:
        return 2 * running - ranked - total, slope * ranked
    first, last = ties
    above = (running - ranked).gather(1, first)
    rank = torch.arange(ranked.shape[1], device=ranked.device)
    return above + running.gather(1, last) - total, (slope + (2 * rank - first - last)) * ranked


def _ties(ranked: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The first and last rank of the run of equal real scores around each rank, (B, N)."""
    size = ranked.shape[1]
    rank = torch.arange(size, device=ranked.device).expand(ranked.shape)
    # From the first of the n real ranks, where the slope is n - 1; none reaches into the padding.
    begins = (ranked != ranked.roll(1, dims=1)) | (rank == 0) | (rank > slope[:, :1])
    ends = begins.roll(-1, dims=1)
    first = rank.masked_fill(~begins, 0).cummax(dim=1).values
    last = rank.masked_fill(~ends, size - 1).flip(1).cummin(dim=1).values.flip(1)
    return first, last


def _plain_order(
    centred: Tensor,
    rows: Tensor | None,
    mask: Tensor,
    order: Tensor,
    slope: Tensor,
    temperature: float,
) -> tuple[Tensor | None, Tensor]:
    # A program is for the values: its format may have no running maximum.
    ties = None if becomes_program() else _ties(centred.gather(1, order), slope)
    sums = _distance_sums(centred, order, slope, ties=ties).unsqueeze(1)  # (B, 1, N)
    logits = (slope.unsqueeze(2) * centred.unsqueeze(1) - sums) / temperature  # (B, N, N)
    # A row without any real column would be nan: let it spread over all, then drop it.
    hidden = ~mask & mask.any(dim=1, keepdim=True)
    weights = logits.masked_fill(hidden.unsqueeze(1), float("-inf")).softmax(dim=-1)
    weights = weights.masked_fill(_padding_ranks(mask).unsqueeze(2), 0)
    return None if rows is None else _row_product(rows, weights, transposed=True), weights


def _padding_ranks(mask: Tensor) -> Tensor:
    """True for the ranks from n on, (B, N)."""
    return torch.arange(mask.shape[1], device=mask.device) >= mask.sum(dim=1, keepdim=True)


class _RelaxedOrder(torch.autograd.Function):
    """:func:`_plain_order` in blocks that stay in the cache; only the result is N x N."""

    @staticmethod
    def forward(ctx: Context, *inputs: Any) -> tuple[Tensor | None, Tensor]:
        centred, rows, mask, order, slope, temperature = inputs
        weights = centred.new_empty(*centred.shape, centred.shape[1])
        ctx.temperature = temperature
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weights, rows, centred, order, slope)
        sums = _distance_sums(centred, order, slope).masked_fill(~mask, float("inf"))
        # logits = slope x score - 1 x sum, as a product of (B, N, 2) and (B, 2, N).
        left = torch.stack([slope, torch.full_like(slope, -1)], dim=2)
        right = torch.stack([centred, sums], dim=1) / temperature
        for part in _blocks(weights):
            torch.softmax(left[part] @ right[part], dim=-1, out=weights[part])
        padding = _padding_ranks(mask).flatten().nonzero().squeeze(1)
        weights.flatten(0, 1).index_fill_(0, padding, 0)  # a masked fill would go through all rows
        return None if rows is None else _row_product(rows, weights, transposed=True), weights

    @staticmethod
    def backward(
        ctx: Context, to_values: Tensor | None, to_weights: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if to_values is None and to_weights is None:
            return (None,) * 6
        weights, rows, centred, order, slope = ctx.saved_tensors
        to_rows: Tensor | None = None
        # Not under the autocast of whoever calls backward: these sums want full precision.
        with without_autocast(weights):
            if to_values is not None:
                to_rows = _row_product(to_values, weights, transposed=False)
            to_scores, to_sums = _through_softmax(
                (to_values, rows, to_weights), weights, slope, ctx.temperature
            )
        # The gradient of the sums of distances, by running sums over the same order.
        ties = _ties(centred.gather(1, order), slope)
        outside, inside = _around(to_sums.gather(1, order), slope, ties)
        through_sums = torch.zeros_like(to_sums).scatter(1, order, inside - outside)
        return to_scores + through_sums, to_rows, None, None, None, None


def _through_softmax(
    gradients: tuple[Tensor | None, ...], weights: Tensor, slope: Tensor, temperature: float
) -> tuple[Tensor, ...]:
    """Gradients with respect to scores and sums of distances, (B, N) each.

    ``gradients`` are that of P @ rows, these rows, and that of P itself.
    """
    left = torch.stack([slope, torch.full_like(slope, -1)], dim=1)  # (B, 2, N)
    # With create_graph the blocks would be recorded one by one: take all at once.
    parts = [slice(None)] if torch.is_grad_enabled() else _blocks(weights)
    both = [
        left[part] @ softmax_backward(_whole_gradient(gradients, part), weights[part])
        for part in parts
    ]
    return (torch.cat(both) / temperature).unbind(dim=1)


def _whole_gradient(gradients: tuple[Tensor | None, ...], part: slice) -> Tensor:
    """The gradient of some matrices P, as itself and through P @ rows."""
    to_values, rows, to_weights = (None if one is None else one[part] for one in gradients)
    if to_values is None or rows is None:
        return cast(Tensor, to_weights)
    whole = to_values.unsqueeze(2) * rows.unsqueeze(1)
    return whole if to_weights is None else whole + to_weights


def multiply_rows(rows: Tensor, matrices: Tensor, *, transposed: bool = False) -> Tensor:
    """Multiply rows (..., N) with matrices (..., N, N), or their transposes: (..., N)."""
    return fast_or_plain(_RowProduct, _row_product, rows, matrices, transposed)


def _row_product(rows: Tensor, matrices: Tensor, transposed: bool) -> Tensor:
    return (rows.unsqueeze(-2) @ (matrices.transpose(-1, -2) if transposed else matrices)).squeeze(
        -2
    )


class _RowProduct(torch.autograd.Function):
    """:func:`_row_product`; a matmul takes several times as long for the matrices' gradients."""

    @staticmethod
    def forward(ctx: Context, *inputs: Any) -> Tensor:
        rows, matrices, transposed = inputs
        ctx.transposed = transposed
        ctx.save_for_backward(rows, matrices)
        return _row_product(rows, matrices, transposed)

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, matrices = ctx.saved_tensors
        to_rows = multiply_rows(gradient, matrices, transposed=not ctx.transposed)
        left, right = (gradient, rows) if ctx.transposed else (rows, gradient)
        return to_rows, left.unsqueeze(-1) * right.unsqueeze(-2), None


def _blocks(matrices: Tensor) -> list[slice]:
    """Slices of the first axis that each hold about a cache's worth of numbers."""
    count = max(1, _BLOCK // max(1, matrices[0].numel())) if len(matrices) else 1
    return [slice(start, start + count) for start in range(0, max(1, len(matrices)), count)]
