"""Featurewise sort pooling of flat sets, with its own backward pass on the CPU."""

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from torchsets._autograd import Context, apply, differentiate_plainly, is_traced, without_autocast
from torchsets._checks import check_shape
from torchsets.flat import check_flat, flat_order, flat_ranks, flat_sums, set_numbers, sort_flat
from torchsets.sorting import runs_on_numpy


def fspool_flat(values: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """:func:`fspool` of flat sets, without padding: a huge set costs the others nothing.

    Args:
        values: The elements of all sets, one set after the other, (total, D), floating point.
        sizes: The number of elements of each set, (B,), integer.
        weight: The D functions at K >= 2 evenly spaced points, (D, K).

    Returns:
        One vector per set, (B, D), with the numbers of :func:`fspool`.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> values = torch.tensor([[1.0], [5.0], [3.0], [7.0]])
        >>> fspool_flat(values, torch.tensor([3, 1]), torch.tensor([[1.0, 0.0, -1.0]]))
        tensor([[4.],
                [7.]])
    """
    check_flat(values, sizes)
    check_points(weight, values.shape[1])
    with without_autocast(values):  # a sum over many ranks
        if is_traced() or not runs_on_numpy(values) or type(sizes) is not Tensor:
            return _pool_plainly(values, weight, sizes)
        return apply(_FlatFSPool, values, weight, sizes)


def check_points(weight: Tensor, features: int) -> None:
    """Raise ``ValueError`` unless ``weight`` is (D, K) for D features, with K at least 2."""
    check_shape(weight, (features, None), name="weight", letters="(D, K)")
    if weight.shape[1] < 2:
        raise ValueError(f"weight must have K >= 2 points, got {tuple(weight.shape)}")


def exact_dtype(data: Tensor, weight: Tensor) -> torch.dtype:
    """What sums over many ranks are computed in: float32 at least."""
    return torch.promote_types(torch.promote_types(data.dtype, weight.dtype), torch.float32)


def _pool_plainly(values: Tensor, weight: Tensor, sizes: Tensor) -> Tensor:
    exact = exact_dtype(values, weight)
    basis = _flat_basis(sizes, values.shape[0], weight.shape[1], exact)
    weighted = sort_flat(values, sizes).to(exact) * (basis @ weight.to(exact).t())
    return flat_sums(weighted, sizes).to(values.dtype)


class _FlatFSPool(Function):
    """The same with everything in rows of one feature, (D, total), where sets lie together.

    Sums over sets are then sums over neighbours, and the gradient of a value has one summand, so
    that it is put into its place instead of added.
    """

    @staticmethod
    def forward(ctx: Context, values: Tensor, weight: Tensor, sizes: Tensor) -> Tensor:
        exact = exact_dtype(values, weight)
        rows = values.t().contiguous()
        order = flat_order(rows, sizes)
        ranked = rows.gather(1, order).to(exact)
        basis = _flat_basis(sizes, values.shape[0], weight.shape[1], exact)
        ctx.save_for_backward(values, weight, sizes, order, ranked, basis)
        products = (weight.to(exact) @ basis.t()).mul_(ranked)
        pooled = products.new_zeros(len(sizes), len(rows))
        real = (sizes > 0).nonzero().squeeze(1)
        if len(real):
            starts = (sizes.cumsum(0) - sizes)[real].numpy()
            sums = np.add.reduceat(products.numpy(), starts, axis=1)  # (D, sets)
            pooled[real] = torch.from_numpy(sums).t()
        return pooled.to(values.dtype)

    @staticmethod
    def backward(ctx: Context, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        values, weight, sizes, order, ranked, basis = ctx.saved_tensors
        (cotangent,) = cotangents
        with without_autocast(cotangent):
            if torch.is_grad_enabled():

                def again(values: Tensor, weight: Tensor) -> Tensor:
                    return _pool_plainly(values, weight, sizes)

                return *differentiate_plainly(ctx, again, cotangent, inputs=2), None
            numbers = set_numbers(sizes, values.shape[0])
            spread = cotangent.to(ranked.dtype).t().index_select(1, numbers)  # (D, total)
            at_values = at_weight = None
            if ctx.needs_input_grad[1]:
                at_weight = ((ranked * spread) @ basis).to(weight.dtype)
            if ctx.needs_input_grad[0]:
                at_ranked = spread.mul_(weight.to(ranked.dtype) @ basis.t())
                at_rows = torch.empty_like(at_ranked).scatter_(1, order, at_ranked)
                at_values = at_rows.t().to(values.dtype)
            return at_values, at_weight, None


def _flat_basis(sizes: Tensor, total: int, points: int, dtype: torch.dtype) -> Tensor:
    """The rows of :func:`torchsets.piecewise.hat_basis` for flat sets, (total, K)."""
    last = (sizes - 1).clamp(min=1).index_select(0, set_numbers(sizes, total))
    position = (flat_ranks(sizes, total) * (points - 1)).to(dtype) / last.to(dtype)
    knots = torch.arange(points, device=sizes.device, dtype=dtype)
    return (position.unsqueeze(1) - knots).abs_().neg_().add_(1).clamp_(min=0)
