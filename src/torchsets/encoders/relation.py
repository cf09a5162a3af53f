"""Relation networks: a network on every pair of elements, a pooling over the pairs."""

from typing import Any

import torch
from torch import Tensor, nn

from torchsets._autograd import is_traced
from torchsets._checks import check_elements, check_mask
from torchsets.mlp import PairLinear


class RelationNetwork(nn.Module):
    """Encode a set by all ordered pairs of its elements, those of an element with itself included.

    Args:
        features: Number of features D of an element.
        hidden: Width H of the first layer on a pair, which is computed once per element.
        inner: Applied to each pair after the first layer and a ReLU: (..., H) -> (..., P).
        pool: Set of pairs to vector, such as ``FSPool(P)`` or ``SumPool()``.
        outer: Applied to the pooled vector, (B, P) -> (B, L). None: nothing.
        context: Number of features C of a vector that every pair sees, such as a question about
            the set; 0 for none. It enters the first layer once per set.

    With a mask only pairs of real elements are computed, if ``pool`` has ``pool_flat``, as those of
    torchsets do.

    Example:
        >>> from torchsets.pooling import SumPool
        >>> encoder = RelationNetwork(3, 32, nn.Linear(32, 8), SumPool())
        >>> encoder(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 8])

    Reference:
        Santoro et al. (2017), "A simple neural network module for relational reasoning", equation
        1. https://arxiv.org/abs/1706.01427
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        inner: nn.Module,
        pool: nn.Module,
        outer: nn.Module | None = None,
        *,
        context: int = 0,
    ) -> None:
        super().__init__()
        self.first = PairLinear(features, hidden, context=context)
        self.inner = inner
        self.pool = pool
        self.outer = outer if outer is not None else nn.Identity()

    def forward(
        self, elements: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """Encode padded sets (B, N, D) with their mask (B, N) to vectors (B, L).

        The context is (B, C), if there is one.
        """
        check_elements(elements)
        if mask is None:
            pairs = self.inner(self.first(elements, context).relu_()).flatten(1, 2)
            return self._finish(self.pool(pairs, None))
        check_mask(mask, elements.shape[:2], of="elements")
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        real = (mask.unsqueeze(2) & mask.unsqueeze(1)).flatten(1)  # (B, N * N)
        if is_traced() or not hasattr(self.pool, "pool_flat"):
            pairs = self.inner(self.first(elements, context).relu_()).flatten(1, 2)
            return self._finish(self.pool(pairs, real))
        pairs = self.inner(_real_pairs(*self.first.halves(elements, context), real).relu_())
        pool: Any = self.pool
        return self._finish(pool.pool_flat(pairs, real.sum(dim=1)))

    def _finish(self, pooled: Tensor) -> Tensor:
        result: Tensor = self.outer(pooled)
        return result


def _real_pairs(left: Tensor, right: Tensor, real: Tensor) -> Tensor:
    """left_i + right_j of the real pairs alone, set after set: (B, N, H) twice -> (pairs, H)."""
    size = left.shape[1]
    sets, pairs = real.nonzero().unbind(1)
    start = sets * size
    first = start + torch.div(pairs, max(size, 1), rounding_mode="floor")
    second = start + torch.remainder(pairs, max(size, 1))
    return left.flatten(0, 1).index_select(0, first) + right.flatten(0, 1).index_select(0, second)
