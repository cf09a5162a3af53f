"""The FSPool auto-encoder: the order of the encoder's sort is undone in the decoder."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_elements, check_mask
from torchsets.mlp import MLP
from torchsets.pooling import FSPool, FSUnpool


class FSPoolAutoEncoder(nn.Module):
    """Squeeze a set into a vector and restore it in its own order, so that plain MSE is a loss.

    It is equivariant: permuting the set permutes the output. With ``temperature=None`` this holds
    for distinct elements: the exact order gives equal ones different ranks, by their slots or by
    the rounding of the encoder. The order carries information past the latent vector, so this is an
    auto-encoder and not a way to generate sets.

    Args:
        features: Number of features of an element.
        hidden: Width of all hidden layers and of the pooled vector.
        latent: Size of the latent vector.
        pieces: Number of pieces of the weight functions.
        temperature: Of the relaxed sort; None sorts exactly, without a gradient to the order.

    Example:
        >>> model = FSPoolAutoEncoder(features=2)
        >>> points = torch.rand(4, 9, 2)
        >>> loss = (model(points) - points).square().mean()

    Reference:
        Zhang, Hare, Prügel-Bennett (2020), "FSPool: learning set representations with featurewise
        sort pooling", section 3.3. https://arxiv.org/abs/1906.02795
    """

    def __init__(
        self,
        features: int,
        *,
        hidden: int = 16,
        latent: int = 1,
        pieces: int = 20,
        temperature: float | None = 1.0,
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.element_encoder = MLP(features, hidden, hidden)
        self.pool = FSPool(hidden, pieces=pieces)
        self.vector_encoder = MLP(hidden, hidden, latent)
        self.vector_decoder = MLP(latent, hidden, hidden)
        self.unpool = FSUnpool(hidden, pieces=pieces)
        self.element_decoder = MLP(hidden, hidden, features)

    def encode(self, elements: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the latent vectors (B, L) and the order, as FSPool gives it."""
        check_elements(elements)
        if mask is not None:
            check_mask(mask, elements.shape[:2], of="elements")
            elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        hidden = self.element_encoder(elements)
        pooled, order = self.pool.pool_with_order(hidden, mask, temperature=self.temperature)
        return self.vector_encoder(pooled), order

    def decode(self, latent: Tensor, order: Tensor, mask: Tensor | None = None) -> Tensor:
        """Turn latent vectors into sets (B, N, D), zeros at padding."""
        spread = self.unpool(self.vector_decoder(latent), order, mask)
        elements: Tensor = self.element_decoder(spread)
        return elements if mask is None else torch.where(mask.unsqueeze(-1), elements, 0)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Restore the sets (B, N, D) from their latent vectors and order."""
        latent, order = self.encode(elements, mask)
        return self.decode(latent, order, mask)
