"""How good predictions are: average precision, set sizes, descents, mosaics, VQA."""

from torchsets.metrics.average_precision import (
    average_precision,
    box_average_precision,
    pairwise_average_precision,
    state_average_precision,
)
from torchsets.metrics.descent import DescentProgress, descent_progress
from torchsets.metrics.mosaics import MosaicScores, accuracy_ceiling, mosaic_scores
from torchsets.metrics.sizes import set_size_accuracy, set_size_error
from torchsets.metrics.vqa import (
    VQAScores,
    pair_accuracy,
    question_kinds,
    vqa_accuracy,
    vqa_scores,
)

__all__ = [
    "DescentProgress",
    "MosaicScores",
    "VQAScores",
    "accuracy_ceiling",
    "average_precision",
    "box_average_precision",
    "descent_progress",
    "mosaic_scores",
    "pair_accuracy",
    "pairwise_average_precision",
    "question_kinds",
    "set_size_accuracy",
    "set_size_error",
    "state_average_precision",
    "vqa_accuracy",
    "vqa_scores",
]
