"""Sets to learn from: generated and embedded, no download."""

from torchsets.data.digits import digit_point_sets
from torchsets.data.polygons import random_polygons, turned_polygons

__all__ = ["digit_point_sets", "random_polygons", "turned_polygons"]
