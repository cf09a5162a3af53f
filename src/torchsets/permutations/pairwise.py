"""The learned cost of putting one element before another."""

import itertools
import math
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchsets._autograd import (
    Context,
    differentiate_plainly,
    fast_or_plain,
    relu_backward,
    without_autocast,
)
from torchsets._checks import check_counts, check_padded_sets
from torchsets.permutations.sinkhorn import widen

# Hidden units of all pairs in one go: a block of this many numbers stays in a core's cache.
# On a GPU a block must be large enough to keep it busy.
_BLOCK = 1 << 18
_GPU_BLOCK = 1 << 25

# From this size on a CPU reads a transposed matrix faster when it is copied in tiles first.
_TILED = 256


class PairwiseCost(nn.Module):
    """F(x_i, x_j) = f(x_i, x_j) - f(x_j, x_i) with a small network f: cost of i before j.

    f is evaluated once per pair, its first layer once per element, and hidden units of pairs exist
    only in blocks: memory grows with N x N, not with N x N x hidden.

    Args:
        features: Features of an element.
        hidden: Hidden units of f.
        outputs: Costs per pair: 1 for a sequence, 2 for a grid.

    Attributes:
        compare: f on concatenated pairs: Linear(2 * features, hidden), ReLU, Linear(hidden,
            outputs), with Xavier's initial weights. The last bias cancels in F.

    Example:
        >>> cost = PairwiseCost(1, hidden=16)
        >>> costs = cost(torch.rand(8, 5, 1))
        >>> costs.shape
        torch.Size([8, 5, 5])
        >>> torch.equal(costs, -costs.transpose(1, 2))
        True
    """

    def __init__(self, features: int, hidden: int, *, outputs: int = 1) -> None:
        super().__init__()
        check_counts(features=features, hidden=hidden, outputs=outputs)
        self.compare = nn.Sequential(
            nn.Linear(2 * features, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
        )
        for parameter in self.compare.parameters():
            if parameter.ndim == 2:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Compare all pairs of each set.

        Args:
            elements: Padded sets, (B, N, D), floating point.
            mask: True where an element is real, (B, N), bool. None: all are real.

        Returns:
            Antisymmetric costs, (B, N, N), or (B, outputs, N, N) for several outputs; 0 where an
            element is padding.
        """
        real = check_padded_sets(elements, mask)
        first, last = cast(nn.Linear, self.compare[0]), cast(nn.Linear, self.compare[2])
        features = first.in_features // 2
        if elements.shape[2] != features:
            raise ValueError(f"elements must have {features} features, got {elements.shape[2]}")
        if mask is not None:
            elements = elements.masked_fill(~real.unsqueeze(-1), 0)
        # The two halves of each row of weights become two rows: one product gives both.
        both = functional.linear(elements, first.weight.view(-1, features))
        left, right = both.view(*elements.shape[:2], len(first.weight), 2).unbind(dim=3)
        # (B, hidden, N): the axis that blocks run along lies last
        left, right = widen(left + first.bias).transpose(1, 2), widen(right).transpose(1, 2)
        costs = _compare(left, right, widen(last.weight), widen(last.bias)).to(elements.dtype)
        # Equal pairs have cost 0, which rounding may miss: their norm must not be scaled to 1.
        alike = _all_equal(elements, real)[:, None, None, None]
        costs = costs - torch.where(alike, costs.detach(), 0)
        if mask is not None:
            pairs = real.unsqueeze(2) & real.unsqueeze(1)
            costs = costs.masked_fill(~pairs.unsqueeze(1), 0)
        return costs.squeeze(1) if costs.shape[1] == 1 else costs


def _all_equal(elements: Tensor, real: Tensor) -> Tensor:
    """Whether all real elements (B, N, D) of a set are the same one, (B,)."""
    if elements.shape[1] == 0:
        return real.any(dim=1)
    # Not take_along_dim, which would fix all sizes in torch.export.
    place = real.int().argmax(1)[:, None, None].expand(-1, 1, elements.shape[2])
    first = elements.detach().gather(1, place)
    same = (elements.detach() == first).all(dim=2)
    return (same | ~real).all(dim=1)


def _compare(left: Tensor, right: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    with without_autocast(left):
        return fast_or_plain(_Compare, _compare_at_once, left, right, weight, bias)


def _compare_at_once(left: Tensor, right: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The same in plain operations, with all hidden units in memory."""
    left, right = left.transpose(1, 2), right.transpose(1, 2)
    hidden = (left.unsqueeze(2) + right.unsqueeze(1)).relu()  # (B, N, N, hidden)
    one_way = functional.linear(hidden, weight, bias).permute(0, 3, 1, 2)
    return one_way - one_way.transpose(2, 3)


class _Compare(torch.autograd.Function):
    """F from the two halves of f's first layer, (B, hidden, N) each, block by block."""

    @staticmethod
    def forward(ctx: Context, left: Tensor, right: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(left, right, weight, bias)
        left, right = left.contiguous(), right.contiguous()
        batch, _, size = left.shape
        one_way = left.new_empty(batch, len(weight), size, size)
        for sets, rows, hidden in _blocks(left):
            torch.add(left[sets, :, rows, None], right[sets, :, None], out=hidden).relu_()
            block = weight @ hidden.flatten(2)
            one_way[sets, :, rows] = block.view(len(hidden), -1, *hidden.shape[2:])
        return _minus_transpose(one_way)

    @staticmethod
    def backward(ctx: Context, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        left, right, weight, bias = ctx.saved_tensors
        (cotangent,) = cotangents
        with without_autocast(cotangent):
            if torch.is_grad_enabled():  # a gradient of the gradient is wanted
                return differentiate_plainly(ctx, _compare_at_once, cotangent, inputs=4)
            return *_differentiate(left, right, weight, cotangent), torch.zeros_like(bias)


def _differentiate(
    left: Tensor, right: Tensor, weight: Tensor, cotangent: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    left, right = left.contiguous(), right.contiguous()
    at_one_way = _minus_transpose(cotangent)  # (B, outputs, N, N)
    # What reaches the active hidden units, summed over the second or the first element of pairs.
    over_right = left.new_zeros(len(weight), *left.shape)
    over_left = torch.zeros_like(over_right)
    for sets, rows, hidden in _blocks(left):
        for output in range(len(weight)):
            torch.add(left[sets, :, rows, None], right[sets, :, None], out=hidden)
            incoming = at_one_way[sets, output, rows].unsqueeze(1).expand_as(hidden)
            relu_backward(incoming, hidden, out=hidden)
            over_right[output, sets, :, rows] = hidden.sum(dim=3)
            over_left[output, sets] += hidden.sum(dim=2)
    at_weight = torch.einsum("obhn,bhn->oh", over_right, left)
    at_weight += torch.einsum("obhn,bhn->oh", over_left, right)
    scale = weight[:, None, :, None]
    return (over_right * scale).sum(dim=0), (over_left * scale).sum(dim=0), at_weight


def _minus_transpose(matrices: Tensor) -> Tensor:
    """``matrices - matrices.mT`` for (B, outputs, N, N), several times faster for large N."""
    if matrices.device.type != "cpu" or matrices.shape[2] < _TILED:
        return matrices - matrices.mT
    result = torch.empty_like(matrices, memory_format=torch.contiguous_format)
    for batch, output in itertools.product(range(len(matrices)), range(matrices.shape[1])):
        result[batch, output].copy_(matrices[batch, output].t())  # in tiles, for two axes only
    return torch.sub(matrices, result, out=result)


def _blocks(left: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Sets, rows of their pairs, and memory for the hidden units of these; left (B, hidden, N)."""
    batch, hidden, size = left.shape
    if size == 0 or batch == 0:
        return
    limit = _BLOCK if left.device.type == "cpu" else _GPU_BLOCK
    sets = min(batch, max(1, limit // (hidden * size * size)))
    rows = max(1, min(size, limit // (hidden * size)))
    memory = left.new_empty(sets * hidden * rows * size)
    for start in range(0, batch, sets):
        for row in range(0, size, rows):
            shape = (min(sets, batch - start), hidden, min(rows, size - row), size)
            block = memory[: math.prod(shape)].view(shape)
            yield slice(start, start + sets), slice(row, row + rows), block
