"""How good predictions are: average precision, set sizes, mosaics, visual question answering."""

from torchsets.metrics.average_precision import (
    average_precision,
    box_average_precision,
    pairwise_average_precision,
    state_average_precision,
)
from torchsets.metrics.mosaics import MosaicScores, accuracy_ceiling, mosaic_scores
from torchsets.metrics.sizes import set_size_accuracy
from torchsets.metrics.vqa import (
    VQAScores,
    pair_accuracy,
    question_kinds,
    vqa_accuracy,
    vqa_scores,
)

__all__ = [
    "MosaicScores",
    "VQAScores",
    "accuracy_ceiling",
    "average_precision",
    "box_average_precision",
    "mosaic_scores",
    "pair_accuracy",
    "pairwise_average_precision",
    "question_kinds",
    "set_size_accuracy",
    "state_average_precision",
    "vqa_accuracy",
    "vqa_scores",
]
