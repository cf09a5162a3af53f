"""How good predicted sets are: average precision and set sizes."""

from torchsets.metrics.average_precision import (
    average_precision,
    box_average_precision,
    pairwise_average_precision,
    state_average_precision,
)
from torchsets.metrics.sizes import set_size_accuracy

__all__ = [
    "average_precision",
    "box_average_precision",
    "pairwise_average_precision",
    "set_size_accuracy",
    "state_average_precision",
]
