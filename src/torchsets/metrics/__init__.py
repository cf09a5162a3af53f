"""How good predictions are: average precision, set sizes, descents, mosaics."""

from torchsets.metrics.average_precision import (
    average_precision,
    box_average_precision,
    pairwise_average_precision,
    state_average_precision,
)
from torchsets.metrics.descent import DescentProgress, descent_progress
from torchsets.metrics.mosaics import MosaicScores, accuracy_ceiling, mosaic_scores
from torchsets.metrics.sizes import set_size_accuracy, set_size_error

__all__ = [
    "DescentProgress",
    "MosaicScores",
    "accuracy_ceiling",
    "average_precision",
    "box_average_precision",
    "descent_progress",
    "mosaic_scores",
    "pairwise_average_precision",
    "set_size_accuracy",
    "set_size_error",
    "state_average_precision",
]
