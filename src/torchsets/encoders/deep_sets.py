"""Deep Sets: a network on every element, a pooling, a network on the result."""

from torch import Tensor, nn

from torchsets._checks import check_elements, check_mask


class DeepSets(nn.Module):
    """Encode a set as ``outer(pool(inner(x)))``.

    Args:
        inner: Applied to the features of every element: (B, N, D) -> (B, N, H). Padding reaches it
            as zeros, so its gradient must be finite there: a norm of 0 needs an epsilon.
        pool: Set to vector, such as ``FSPool(H)`` or ``SumPool()``: called as pool(x, mask).
        outer: Applied to the pooled vector, (B, H) -> (B, L). None: nothing.

    Example:
        >>> import torch
        >>> from torchsets.mlp import MLP
        >>> from torchsets.pooling import FSPool
        >>> classifier = DeepSets(MLP(3, 64, 64), FSPool(64), MLP(64, 64, 10))
        >>> classifier(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 10])

    Reference:
        Zaheer et al. (2017), "Deep sets", theorem 2. https://arxiv.org/abs/1703.06114
    """

    def __init__(self, inner: nn.Module, pool: nn.Module, outer: nn.Module | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.pool = pool
        self.outer = outer if outer is not None else nn.Identity()

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded sets (B, N, D) with their mask (B, N) to vectors (B, L)."""
        check_elements(elements)
        if mask is not None:
            check_mask(mask, elements.shape[:2], of="elements")
            # Before the first layer: nan in padding would give nan in its weight gradient.
            elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        result: Tensor = self.outer(self.pool(self.inner(elements), mask))
        return result
