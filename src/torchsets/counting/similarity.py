"""How many rows of a symmetric graph are like each row: the cubic part of the counting module.

The batch is the last axis throughout, and each unordered pair of rows is visited once: row i meets
row i + shift (mod n) for shift = 1 .. n // 2. One shift is one pass over a tensor of the size of
the graph, so that time is cubic in n but memory is not.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from torchsets._autograd import Context, fast_or_plain
from torchsets.piecewise import piecewise_linear


def similar_rows(rows: Tensor, values: Tensor, valid: Tensor | None = None) -> Tensor:
    """Count the rows that are similar to each row, itself included.

    The similarity of two rows is the product over their features of ``f(1 - abs(difference))``.
    It is computed again in the backward pass instead of being kept.

    Args:
        rows: Features of each row from 0 to 1, (F, n, B): B is the batch.
        values: The function f at K evenly spaced points from 0 to 1, (K,); f(1) = 1.
        valid: True where a row takes part, (n, B), bool. None: all do.

    Returns:
        The sum of similarities of each row, (n, B), at least 1.
    """
    return fast_or_plain(_SimilarRows, _similar_rows, rows, values, valid)


def shifts(n: int) -> Iterator[tuple[int, int]]:
    """Shifts s and numbers m: the pairs (i, (i + s) mod n), i < m, are all pairs of n, once each.

    Example:
        >>> [(i, (i + s) % 4) for s, m in shifts(4) for i in range(m)]
        [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)]
    """
    for shift in range(1, n // 2 + 1):
        yield shift, n // 2 if 2 * shift == n else n


def _similar_rows(rows: Tensor, values: Tensor, valid: Tensor | None) -> Tensor:
    """The same for all pairs at once, for second derivatives and for whoever records it."""
    distance = (rows.unsqueeze(1) - rows.unsqueeze(2)).abs()  # (F, n, n, B)
    similarity = piecewise_linear(distance, values.flip(0)).prod(dim=0)  # f(1 - x) from 0 up
    index = torch.arange(rows.shape[1], device=rows.device)
    others = (index.unsqueeze(0) != index.unsqueeze(1)).unsqueeze(-1)  # (n, n, 1)
    if valid is not None:
        others = others & valid.unsqueeze(0) & valid.unsqueeze(1)
    return 1 + similarity.where(others, 0).sum(dim=1)  # a row is always like itself


class _SimilarRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, rows: Tensor, values: Tensor, valid: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, values, valid)
        n = rows.shape[1]
        falling = values.flip(0)
        around = torch.cat([rows, rows], dim=1)
        total = rows.new_zeros(2 * n, rows.shape[2])
        for shift, m in shifts(n):
            similarity = _factors(rows[:, :m] - around[:, shift : shift + m], falling).factor.prod(
                0
            )
            if valid is not None:
                similarity.masked_fill_(~_both(valid, shift, m), 0)
            total[:m] += similarity
            total[shift : shift + m] += similarity
        return (total[:n] + total[n:]).add_(1)

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, values, valid = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants second derivatives
            with torch.enable_grad():
                total = _similar_rows(rows, values, valid)
            needed = ctx.needs_input_grad[:2]
            inputs = [x for x, need in zip((rows, values), needed, strict=True) if need]
            found = iter(torch.autograd.grad(total, inputs, gradient, create_graph=True))
            return *(next(found) if need else None for need in needed), None
        n, pieces = rows.shape[1], len(values) - 1
        falling = values.flip(0)
        around = torch.cat([rows, rows], dim=1)
        gradients = torch.cat([gradient, gradient])
        to_rows = torch.zeros_like(around)
        at_piece, along_piece = rows.new_zeros(pieces), rows.new_zeros(pieces)
        for shift, m in shifts(n):
            difference = rows[:, :m] - around[:, shift : shift + m]
            factor, piece, along, rise = _factors(difference, falling)
            incoming = gradients[:m] + gradients[shift : shift + m]
            if valid is not None:
                incoming.masked_fill_(~_both(valid, shift, m), 0)
            incoming = _products_of_others(factor).mul_(incoming)  # (F, m, B), to each factor
            at_piece += torch.bincount(piece, incoming.view(-1), minlength=pieces)
            along_piece += torch.bincount(piece, along.mul_(incoming).view(-1), minlength=pieces)
            incoming.mul_(rise).mul_(difference.sign_())
            to_rows[:, :m] += incoming
            to_rows[:, shift : shift + m] -= incoming
        to_falling = pad(at_piece - along_piece, (0, 1)) + pad(along_piece, (1, 0))
        return (to_rows[:, :n] + to_rows[:, n:]).mul_(pieces), to_falling.flip(0), None


class _Factors(NamedTuple):
    """f(1 - abs(difference)) and where it comes from.

    Attributes:
        factor: The function, (F, m, B).
        piece: Piece of each entry, flat, int32.
        along: How far along its piece each entry lies, (F, m, B).
        rise: How much the function rises over that piece, (F, m, B).
    """

    factor: Tensor
    piece: Tensor
    along: Tensor
    rise: Tensor


def _factors(difference: Tensor, falling: Tensor) -> _Factors:
    # Measured from 0 up, equal rows get exactly f(1) = 1 and opposite ones exactly f(0) = 0.
    pieces = len(falling) - 1
    along = difference.abs().mul_(pieces)
    piece = along.int().clamp_(0, pieces - 1)  # 0: also nan needs a piece
    along.sub_(piece)
    flat = piece.view(-1)
    rise = falling.diff().index_select(0, flat).view(along.shape)
    factor = falling.index_select(0, flat).view(along.shape).addcmul_(along, rise)
    return _Factors(factor, flat, along, rise)


def _products_of_others(factor: Tensor) -> Tensor:
    """Product over the first axis of all entries but one, for each entry; zeros are allowed."""
    product = factor.prod(dim=0)
    if factor.device.type == "cpu" and bool(product.all()):
        return product / factor
    zero = factor == 0
    filled = factor.masked_fill(zero, 1)
    others = filled.prod(dim=0) / filled
    other_zeros = zero.sum(dim=0, dtype=torch.int32) - zero.int()
    return others.masked_fill_(other_zeros > 0, 0)


def _both(valid: Tensor, shift: int, m: int) -> Tensor:
    return valid[:m] & valid.roll(-shift, dims=0)[:m]
