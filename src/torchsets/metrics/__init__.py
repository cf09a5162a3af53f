"""How good predictions are: average precision, set sizes, mosaics, and the spread over runs."""

from torchsets.metrics.average_precision import (
    average_precision,
    box_average_precision,
    state_average_precision,
)
from torchsets.metrics.mosaics import MosaicScores, accuracy_ceiling, mosaic_scores
from torchsets.metrics.runs import RunSummary, summarise_runs
from torchsets.metrics.sizes import set_size_accuracy

__all__ = [
    "MosaicScores",
    "RunSummary",
    "accuracy_ceiling",
    "average_precision",
    "box_average_precision",
    "mosaic_scores",
    "set_size_accuracy",
    "state_average_precision",
    "summarise_runs",
]
