"""Poolings that an encoder makes for itself, as many as it needs."""

import inspect
from collections.abc import Callable

import torch
from torch import nn


def make_pool(pooling: Callable[..., nn.Module], features: int) -> nn.Module:
    """Make a pooling: called with the features if it has a required parameter, else with nothing.

    Example:
        >>> from torchsets.pooling import FSPool, SumPool
        >>> make_pool(FSPool, 8), make_pool(SumPool, 8)
        (FSPool(features=8, pieces=20), SumPool())
    """
    required = any(
        one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        for one in inspect.signature(pooling).parameters.values()
    )
    return pooling(features) if required else pooling()


def pooled_width(pool: nn.Module, features: int) -> int:
    """The number of features that a pooling of padded sets makes of ``features``.

    Example:
        >>> from torchsets.pooling import SortPool
        >>> pooled_width(SortPool(3), 8)
        24
    """
    with torch.no_grad():
        width: int = pool(torch.zeros(1, 1, features), torch.ones(1, 1, dtype=torch.bool)).shape[1]
    return width
