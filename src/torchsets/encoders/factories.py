"""The set encoders of the set prediction experiments."""

import torch
from torch import Tensor, nn

from torchsets.encoders.deep_sets import DeepSets
from torchsets.encoders.relation import RelationNetwork
from torchsets.encoders.relu import ReLU
from torchsets.mlp import MLP, glorot_
from torchsets.pooling import FSPool

_SIZE_SCALE = 4.0  # what the author multiplied the mean presence by


def mlp_encoder(
    inputs: int,
    hidden: int,
    latent: int,
    *,
    slots: int,
    layers: int = 3,
    pool: nn.Module | None = None,
    size_feature: bool = False,
) -> nn.Module:
    """Build an MLP on each element with a pooling over them, divided by the number of slots.

    Args:
        inputs: Number of features of a slot, its presence included.
        hidden: Width of the hidden layers.
        latent: Size of the encoded vector.
        slots: Number of slots of a set.
        layers: Number of linear layers.
        pool: Set to vector. None: an FSPool with 20 pieces.
        size_feature: Make the sum of the presences, which must be the last feature of a slot,
            the last entry of the vector, scaled by 4 / slots.

    Returns:
        A module from sets (B, slots, inputs) to vectors (B, latent), with Glorot's weights.

    Example:
        >>> encoder = mlp_encoder(3, 256, 64, slots=342)
        >>> encoder(torch.zeros(2, 342, 3)).shape
        torch.Size([2, 64])
    """
    learned = latent - size_feature
    inner = MLP(inputs, hidden, learned, layers=layers, activation=ReLU)
    # Sorting, sums and maxima commute with the division: after the pooling it costs less.
    encoder = DeepSets(inner, pool or FSPool(learned), _Scale(1 / slots))
    return _finish(encoder, slots, size_feature)


def relation_encoder(
    inputs: int,
    hidden: int,
    latent: int,
    *,
    slots: int,
    pool: nn.Module | None = None,
    size_feature: bool = False,
) -> nn.Module:
    """Build a two-layer relation network with a pooling over the pairs, divided by their number.

    Args:
        inputs: Number of features of a slot, its presence included.
        hidden: Width of the hidden layer.
        latent: Size of the encoded vector.
        slots: Number of slots of a set.
        pool: Set of pairs to vector, such as SumPool() or MaxPool(). None: an FSPool with 20
            pieces.
        size_feature: As in :func:`mlp_encoder`.

    Returns:
        A module from sets (B, slots, inputs) to vectors (B, latent), with Glorot's weights.

    Example:
        >>> encoder = relation_encoder(19, 512, 512, slots=10)
        >>> encoder(torch.zeros(2, 10, 19)).shape
        torch.Size([2, 512])
    """
    learned = latent - size_feature
    scale = _Scale(1 / slots**2)
    inner = nn.Linear(hidden, learned)
    encoder = RelationNetwork(inputs, hidden, inner, pool or FSPool(learned), scale)
    return _finish(encoder, slots, size_feature)


class _Scale(nn.Module):
    """Multiply by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, vector: Tensor) -> Tensor:
        return vector * self.factor

    def extra_repr(self) -> str:
        return f"{self.factor:g}"


class _SizeFeature(nn.Module):
    """Append the scaled sum of the last feature of all elements to an encoded set."""

    def __init__(self, encoder: nn.Module, factor: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.factor = factor

    def forward(self, elements: Tensor) -> Tensor:
        size = elements[..., -1].sum(dim=1, keepdim=True) * self.factor
        encoded: Tensor = self.encoder(elements)
        return torch.cat([encoded, size.to(encoded.dtype)], dim=1)


def _finish(encoder: nn.Module, slots: int, size_feature: bool) -> nn.Module:
    glorot_(encoder)
    return _SizeFeature(encoder, _SIZE_SCALE / slots) if size_feature else encoder
