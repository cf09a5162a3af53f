"""Boxes and scores in, count features out."""

from torchsets.boxes import box_iou
from torchsets.counting.counter import CountDetails, Counter
from torchsets.counting.expected import expected_count
from torchsets.counting.features import count_features
from torchsets.counting.nms import count_by_nms

__all__ = [
    "CountDetails",
    "Counter",
    "box_iou",
    "count_by_nms",
    "count_features",
    "expected_count",
]
