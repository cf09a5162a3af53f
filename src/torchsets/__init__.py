"""Deep learning on sets in PyTorch.

Nothing is imported until it is used, so ``import torchsets`` and ``torchsets --help`` are instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchsets.padded import SetBatch as SetBatch
    from torchsets.padded import SetPrediction as SetPrediction
    from torchsets.padded import collate as collate
    from torchsets.padded import pad as pad
    from torchsets.padded import unpad as unpad

__version__ = "0.1.0"

_PADDED = ("SetBatch", "SetPrediction", "collate", "pad", "unpad")
_AREAS = (
    "benchmarks",
    "counting",
    "data",
    "decoders",
    "encoders",
    "experiments",
    "losses",
    "matching",
    "metrics",
    "padded",
    "permutations",
    "piecewise",
    "pooling",
    "records",
    "reports",
    "resnet",
    "sorting",
    "testing",
    "training",
)

__all__ = ["SetBatch", "SetPrediction", "collate", "pad", "unpad"]


def __getattr__(name: str) -> Any:
    if name in _PADDED:
        return getattr(import_module("torchsets.padded"), name)
    if name in _AREAS:
        return import_module(f"torchsets.{name}")
    raise AttributeError(f"module 'torchsets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PADDED, *_AREAS})
