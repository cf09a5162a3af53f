"""The network that the estimators use unless they are given another."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchsets._checks import check_padded_sets
from torchsets.mlp import MLP
from torchsets.padded import fill_padding
from torchsets.pooling import AttentionPool, FSPool, MaxPool, MeanPool, SumPool

_POOLINGS: dict[str, Callable[[int], nn.Module]] = {
    "fspool": FSPool,
    "sum": lambda features: SumPool(),
    "mean": lambda features: MeanPool(),
    "max": lambda features: MaxPool(),
    "attention": AttentionPool,
}
POOLINGS = tuple(_POOLINGS)


class SetNetwork(nn.Module):
    """Map sets to vectors: an MLP on each element, a pooling, an MLP on the result.

    The pooled vector is normalised, because that of most poolings grows with the set; the size is
    one more feature beside it, ``log(1 + n)``.

    Args:
        features: Number of features D of an element.
        outputs: Size L of the vector.
        pooling: One of "fspool", "sum", "mean", "max" and "attention".
        hidden: Width of all layers.
        layers: Number of linear layers before the pooling, and after it.

    Example:
        >>> SetNetwork(3, 10)(torch.zeros(5, 7, 3)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self,
        features: int,
        outputs: int,
        *,
        pooling: str = "fspool",
        hidden: int = 64,
        layers: int = 2,
    ) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {pooling!r}")
        self.inner = MLP(features, hidden, hidden, layers=layers)
        self.pool = _POOLINGS[pooling](hidden)
        self.norm = nn.LayerNorm(hidden)
        self.outer = MLP(hidden + 1, hidden, outputs, layers=layers)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded sets (B, N, D) with their mask (B, N) to vectors (B, L)."""
        mask = check_padded_sets(elements, mask)
        pooled = self.norm(self.pool(self.inner(fill_padding(elements, mask)), mask))
        size = mask.sum(dim=1, keepdim=True).to(pooled.dtype).log1p()
        outputs: Tensor = self.outer(torch.cat([pooled, size], dim=1))
        return outputs
