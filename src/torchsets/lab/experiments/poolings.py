"""The poolings that experiments choose from by name."""

from collections.abc import Callable

from torch import nn

from torchsets.pooling import FSPool, MaxPool, MeanPool, SumPool

POOLINGS: dict[str, Callable[[int], nn.Module]] = {
    "fspool": lambda features: FSPool(features),
    "sum": lambda features: SumPool(),
    "mean": lambda features: MeanPool(),
    "max": lambda features: MaxPool(),
}
