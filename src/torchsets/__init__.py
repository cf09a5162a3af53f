"""Deep learning on sets in PyTorch.

Nothing is imported until it is used, so ``import torchsets`` and ``torchsets --help`` are instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchsets.collating import collate as collate
    from torchsets.graphs import GraphBatch as GraphBatch
    from torchsets.padded import SetBatch as SetBatch
    from torchsets.padded import SetPrediction as SetPrediction
    from torchsets.padded import pad as pad
    from torchsets.padded import unpad as unpad
    from torchsets.sets import Sets as Sets

__version__ = "0.2.0"

_HOMES = {
    "GraphBatch": "graphs",
    "SetBatch": "padded",
    "SetPrediction": "padded",
    "Sets": "sets",
    "collate": "collating",
    "pad": "padded",
    "unpad": "padded",
}
_AREAS = (
    "attention",
    "boxes",
    "collating",
    "counting",
    "data",
    "decoders",
    "encoders",
    "estimators",
    "fitting",
    "flat",
    "giou",
    "graphs",
    "interop",
    "lab",
    "losses",
    "matching",
    "metrics",
    "mlp",
    "padded",
    "permutations",
    "piecewise",
    "pooling",
    "resnet",
    "sets",
    "sorting",
    "testing",
    "text",
    "transformer",
)

__all__ = ["GraphBatch", "SetBatch", "SetPrediction", "Sets", "collate", "pad", "unpad"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"torchsets.{_HOMES[name]}"), name)
    if name in _AREAS:
        return import_module(f"torchsets.{name}")
    raise AttributeError(f"module 'torchsets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_AREAS})
