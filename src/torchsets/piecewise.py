"""Piecewise linear functions on [0, 1]: FSPool's weights and the counting activations.

A function is given by its values at K evenly spaced points. Between two points it is a straight
line; an input outside [0, 1] counts as the nearer end.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from torchsets._autograd import Context, fast_or_plain
from torchsets._checks import check_counts


def piecewise_linear(inputs: Tensor, values: Tensor) -> Tensor:
    """Evaluate one piecewise linear function at many inputs.

    At a point where two pieces meet, the gradient is that of the piece on the right; at 1 that of
    the last piece. Inputs outside [0, 1] get no gradient.

    Args:
        inputs: Where to evaluate, any shape, floating point.
        values: The function at K >= 2 evenly spaced points from 0 to 1, (K,).

    Returns:
        The function at each input, shaped like ``inputs``.

    Raises:
        ValueError: If ``values`` has another rank or fewer than two entries.

    Example:
        >>> piecewise_linear(torch.tensor([0.0, 0.25, 0.75]), torch.tensor([0.0, 1.0, 3.0]))
        tensor([0.0000, 0.5000, 2.0000])
    """
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"values must have shape (K,) with K >= 2, got {tuple(values.shape)}")
    values = values.to(inputs.dtype)
    return fast_or_plain(_Interpolation, _interpolate, inputs.contiguous(), values)


def monotone_values(weight: Tensor) -> Tensor:
    """Turn ``pieces`` free numbers into values that rise from 0 to 1: (pieces,) -> (pieces + 1,).

    The rise over piece i is ``abs(weight[i]) / sum(abs(weight))``.

    Example:
        >>> monotone_values(torch.tensor([1.0, -3.0]))
        tensor([0.0000, 0.2500, 1.0000])
    """
    rises = weight.abs()
    return torch.cat([rises.new_zeros(1), rises.cumsum(0)]) / rises.sum()


def hat_basis(sizes: Tensor, *, slots: int, points: int, dtype: torch.dtype) -> Tensor:
    """Interpolation matrices for functions evaluated at 0, 1/(n-1), ..., 1, one per set size n.

    The rows of ``hat_basis(...)[b] @ values`` are a function at the n ranks of set b. A set of
    one element is evaluated at 0 only.

    Args:
        sizes: Number n of elements of each set, (B,), integer.
        slots: Number of rows; those from n on are zero.
        points: Number K >= 2 of points of the function.
        dtype: Of the result. Half precision is computed in float32 first.

    Returns:
        The matrices, (B, slots, K), with at most two entries per row.

    Example:
        >>> hat_basis(torch.tensor([2]), slots=3, points=3, dtype=torch.float32)
        tensor([[[1., 0., 0.],
                 [0., 0., 1.],
                 [0., 0., 0.]]])
    """
    exact = torch.promote_types(dtype, torch.float32)
    rank = torch.arange(slots, device=sizes.device)
    last = (sizes - 1).clamp(min=1).unsqueeze(1)  # (B, 1)
    # Multiply before dividing: positions that fall on a point are then exactly whole.
    position = (rank * (points - 1)).to(exact) / last.to(exact)  # (B, slots)
    position = position.masked_fill(rank >= sizes.unsqueeze(1), -1)  # where every hat is 0
    knots = torch.arange(points, device=sizes.device, dtype=exact)
    distance = position.unsqueeze(-1) - knots  # (B, slots, K)
    return distance.abs_().neg_().add_(1).clamp_(min=0).to(dtype)


class PiecewiseLinear(nn.Module):
    """A learned monotone function with f(0) = 0 and f(1) = 1; it starts as the identity.

    Args:
        pieces: Number of straight pieces.

    Attributes:
        weight: The rise of each piece up to sign and scale, (pieces,).

    Example:
        >>> PiecewiseLinear(4)(torch.tensor([0.1, 0.5]))
        tensor([0.1000, 0.5000], grad_fn=<_InterpolationBackward>)
    """

    def __init__(self, pieces: int) -> None:
        super().__init__()
        check_counts(pieces=pieces)
        self.weight = nn.Parameter(torch.ones(pieces))

    def forward(self, inputs: Tensor) -> Tensor:
        return piecewise_linear(inputs, monotone_values(self.weight))


def _locate(inputs: Tensor, points: int) -> tuple[Tensor, Tensor]:
    """The piece that each input lies on, and how far along it (0 to 1)."""
    position = inputs.clamp(0, 1) * (points - 1)
    piece = position.long().clamp(0, points - 2)  # last, so that nan too has a valid index
    return piece, position - piece


def _interpolate(inputs: Tensor, values: Tensor) -> Tensor:
    piece, along = _locate(inputs, len(values))
    rises = values[1:] - values[:-1]  # not diff(), which the older ONNX exporter lacks
    return values[:-1][piece] + along * rises[piece]


class _Interpolation(torch.autograd.Function):
    """:func:`_interpolate`, several times faster; the backward pass keeps the inputs only."""

    @staticmethod
    def forward(ctx: Context, inputs: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, values)
        piece, along = _locate(inputs, len(values))
        flat = piece.view(-1)
        rise = values.diff().index_select(0, flat).view(inputs.shape)
        return rise.mul_(along).add_(values.index_select(0, flat).view(inputs.shape))

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        inputs, values = ctx.saved_tensors
        piece, along = _locate(inputs, len(values))
        flat = piece.view(-1)
        to_inputs = to_values = None
        if ctx.needs_input_grad[0]:
            slope = (values.diff() * (len(values) - 1)).index_select(0, flat).view(inputs.shape)
            outside = inputs.clamp(0, 1) != inputs
            to_inputs = (slope * gradient).masked_fill(outside, 0)
        if ctx.needs_input_grad[1]:
            right = gradient * along
            pieces = values.new_zeros(len(values) - 1)
            at_left = pieces.index_add(0, flat, (gradient - right).reshape(-1))
            at_right = pieces.index_add(0, flat, right.reshape(-1))
            to_values = F.pad(at_left, (0, 1)) + F.pad(at_right, (1, 0))
        return to_inputs, to_values
