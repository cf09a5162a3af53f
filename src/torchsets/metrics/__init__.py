"""How good predictions are: average precision, set sizes, mosaics."""

from torchsets.metrics.average_precision import (
    average_precision,
    box_average_precision,
    pairwise_average_precision,
    state_average_precision,
)
from torchsets.metrics.mosaics import MosaicScores, accuracy_ceiling, mosaic_scores
from torchsets.metrics.sizes import set_size_accuracy

__all__ = [
    "MosaicScores",
    "accuracy_ceiling",
    "average_precision",
    "box_average_precision",
    "mosaic_scores",
    "pairwise_average_precision",
    "set_size_accuracy",
    "state_average_precision",
]
