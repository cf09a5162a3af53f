"""Multi-layer perceptrons, on elements and on pairs of elements."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts, check_shape

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
        check_counts(layers=layers)
        sizes = [inputs, *[hidden] * (layers - 1), outputs]
        parts: list[nn.Module] = []
        for before, after in pairwise(sizes):
            parts += [nn.Linear(before, after), activation()]
        super().__init__(*parts[:-1])

    def __getitem__(self, index: slice | int) -> nn.Module:
        """A layer, or several of them as an ``nn.Sequential``: ``mlp[:-1]`` cuts off the last."""
        parts = list(self)
        return nn.Sequential(*parts[index]) if isinstance(index, slice) else parts[index]


class ContextLinear(nn.Module):
    """A linear layer on [x_i; c], where the context c is the same for all elements of a set.

    ``W [x_i; c] + b`` is a part for x_i plus a part for c, which is computed once per set.

    Args:
        features: Number of features D of one element.
        context: Number of features C of the context.
        outputs: Number of output features H.

    Attributes:
        weight: (H, D + C), as in ``nn.Linear(features + context, outputs)``.
        bias: (H,).

    Example:
        >>> ContextLinear(2, 4, 3)(torch.zeros(5, 7, 2), torch.zeros(5, 4)).shape
        torch.Size([5, 7, 3])
    """

    def __init__(self, features: int, context: int, outputs: int) -> None:
        super().__init__()
        self.features, self.context = features, context
        self.weight, self.bias = _linear_weights(features + context, outputs)

    def forward(self, elements: Tensor, context: Tensor) -> Tensor:
        """Map elements (B, N, D), each set with its context (B, C), to (B, N, H)."""
        _check_context(context, elements, self.context)
        once = nn.functional.linear(context, self.weight[:, self.features :], self.bias)
        own = nn.functional.linear(elements, self.weight[:, : self.features])
        return own + once.unsqueeze(1)


class PairLinear(nn.Module):
    """A linear layer on all ordered pairs [x_i; x_j], computed once per element.

    ``W [x_i; x_j] + b`` is a part for x_i plus a part for x_j, so a set of N elements costs 2N
    products instead of N^2. With a context c it is ``W [x_i; x_j; c] + b``, whose third part is
    computed once per set.

    Args:
        features: Number of features D of one element.
        outputs: Number of output features H.
        context: Number of features C of the context; 0 for none.

    Attributes:
        weight: (H, 2 D + C), as in ``nn.Linear(2 * features + context, outputs)``.
        bias: (H,).

    Example:
        >>> PairLinear(2, 3)(torch.zeros(5, 7, 2)).shape
        torch.Size([5, 7, 7, 3])
    """

    def __init__(self, features: int, outputs: int, *, context: int = 0) -> None:
        super().__init__()
        self.features, self.context = features, context
        self.weight, self.bias = _linear_weights(2 * features + context, outputs)

    def forward(self, elements: Tensor, context: Tensor | None = None) -> Tensor:
        """Map elements (B, N, D) to pairs (B, N, N, H); [b, i, j] belongs to [x_i; x_j]."""
        left, right = self.halves(elements, context)
        return left.unsqueeze(2) + right.unsqueeze(1)

    def halves(self, elements: Tensor, context: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What x_i gives, with the bias and the context, and what x_j gives: (B, N, H) each.

        Raises:
            ValueError: If a context is missing or has another shape than (B, C), or is given to a
                layer without one.
        """
        if (context is None) != (self.context == 0):
            raise ValueError(
                f"context must be (B, {self.context}), got None"
                if self.context
                else "a layer made without context takes none"
            )
        one, both = self.features, 2 * self.features
        left = nn.functional.linear(elements, self.weight[:, :one], self.bias)
        if context is not None:
            _check_context(context, elements, self.context)
            left = left + nn.functional.linear(context, self.weight[:, both:]).unsqueeze(1)
        return left, nn.functional.linear(elements, self.weight[:, one:both])


def _check_context(context: Tensor, elements: Tensor, features: int) -> None:
    shape = (elements.shape[0], features)
    check_shape(context, shape, name="context", letters="(B, C)")


def _linear_weights(inputs: int, outputs: int) -> tuple[nn.Parameter, nn.Parameter]:
    """Weight and bias with the same start as those of nn.Linear."""
    bound = 1 / math.sqrt(inputs)
    weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
    return weight, nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))


def glorot_(module: _Module) -> _Module:
    """Set all linear layers of a module to Glorot's uniform weights and zero biases, in place.

    Example:
        >>> glorot_(MLP(2, 16, 3))[0].bias.abs().max().item()
        0.0
    """
    for part in module.modules():
        if isinstance(part, nn.Linear | ContextLinear | PairLinear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return module
