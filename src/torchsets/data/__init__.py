"""Sets to learn from: generated and embedded, no download."""

from torchsets.data.digits import digit_point_sets
from torchsets.data.polygons import random_polygons, turned_polygons
from torchsets.data.toy_counting import CountingSets, toy_counting_sets

__all__ = [
    "CountingSets",
    "digit_point_sets",
    "random_polygons",
    "toy_counting_sets",
    "turned_polygons",
]
