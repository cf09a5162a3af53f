"""Sets to learn from: generated, embedded, and downloaded once."""

from torchsets._catalogue import data_folder
from torchsets.data.digits import small_digit_sets
from torchsets.data.idx import read_idx
from torchsets.data.minibatches import Minibatches, SizeBuckets
from torchsets.data.mnist import idx_point_sets, mnist_point_sets
from torchsets.data.point_sets import LabelledSets, add_noise, jitter, with_mask_feature
from torchsets.data.polygons import random_polygons, turned_polygons
from torchsets.data.toy_counting import CountingSets, toy_counting_sets

__all__ = [
    "CountingSets",
    "LabelledSets",
    "Minibatches",
    "SizeBuckets",
    "add_noise",
    "data_folder",
    "idx_point_sets",
    "jitter",
    "mnist_point_sets",
    "random_polygons",
    "read_idx",
    "small_digit_sets",
    "toy_counting_sets",
    "turned_polygons",
    "with_mask_feature",
]
