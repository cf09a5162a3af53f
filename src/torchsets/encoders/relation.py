"""Relation networks: a network on every pair of elements, a pooling over the pairs."""

from torch import Tensor, nn

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

    Example:
        >>> import torch
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
    ) -> None:
        super().__init__()
        self.first = PairLinear(features, hidden)
        self.inner = inner
        self.pool = pool
        self.outer = outer if outer is not None else nn.Identity()

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded sets (B, N, D) with their mask (B, N) to vectors (B, L)."""
        check_elements(elements)
        pair_mask = None
        if mask is not None:
            check_mask(mask, elements.shape[:2], of="elements")
            elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
            pair_mask = (mask.unsqueeze(2) & mask.unsqueeze(1)).flatten(1)  # (B, N * N)
        pairs = self.inner(self.first(elements).relu_()).flatten(1, 2)  # (B, N * N, P)
        result: Tensor = self.outer(self.pool(pairs, pair_mask))
        return result
