"""Multi-layer perceptrons, on elements and on pairs of elements."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

_Module = TypeVar("_Module", bound=nn.Module)


class MLP(nn.Sequential):
    """Linear layers with an activation between them, applied to the last axis.

    Args:
        inputs: Number of input features.
        hidden: Width of every layer but the last.
        outputs: Number of output features.
        layers: Number of linear layers.
        activation: Makes what stands between two layers.

    Example:
        >>> MLP(2, 16, 3)(torch.zeros(5, 7, 2)).shape
        torch.Size([5, 7, 3])
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        outputs: int,
        *,
        layers: int = 2,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ) -> None:
        if layers < 1:
            raise ValueError(f"layers must be at least 1, got {layers}")
        sizes = [inputs, *[hidden] * (layers - 1), outputs]
        parts: list[nn.Module] = []
        for before, after in pairwise(sizes):
            parts += [nn.Linear(before, after), activation()]
        super().__init__(*parts[:-1])


class PairLinear(nn.Module):
    """A linear layer on all ordered pairs [x_i; x_j], computed once per element.

    ``W [x_i; x_j] + b`` is a part for x_i plus a part for x_j, so a set of N elements costs 2N
    products instead of N^2.

    Args:
        features: Number of features D of one element.
        outputs: Number of output features H.

    Attributes:
        weight: (H, 2 D), as in ``nn.Linear(2 * features, outputs)``.
        bias: (H,).

    Example:
        >>> PairLinear(2, 3)(torch.zeros(5, 7, 2)).shape
        torch.Size([5, 7, 7, 3])
    """

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(2 * features)  # the same start as nn.Linear
        self.weight = nn.Parameter(torch.empty(outputs, 2 * features).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, elements: Tensor) -> Tensor:
        """Map elements (B, N, D) to pairs (B, N, N, H); [b, i, j] belongs to [x_i; x_j]."""
        first, second = self.weight.chunk(2, dim=1)
        left = nn.functional.linear(elements, first, self.bias)
        right = nn.functional.linear(elements, second)
        return left.unsqueeze(2) + right.unsqueeze(1)


def glorot_(module: _Module) -> _Module:
    """Set all linear layers of a module to Glorot's uniform weights and zero biases, in place.

    Example:
        >>> glorot_(MLP(2, 16, 3))[0].bias.abs().max().item()
        0.0
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | PairLinear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module
