"""Sets to learn from: generated, embedded, and downloaded once."""

from torchsets._catalogue import data_folder
from torchsets.data.cifar import cifar10_images
from torchsets.data.colours import (
    CIFAR10_COLOURS,
    IMAGENET_COLOURS,
    MNIST_COLOURS,
    ColourScale,
)
from torchsets.data.digits import small_digit_sets
from torchsets.data.idx import read_idx
from torchsets.data.minibatches import Minibatches, SizeBuckets
from torchsets.data.mnist import (
    idx_images,
    idx_point_sets,
    mnist_images,
    mnist_point_sets,
)
from torchsets.data.motifs import motif_graphs
from torchsets.data.picture_folders import PictureFolder, imagenet_pictures
from torchsets.data.point_sets import LabelledSets, add_noise, jitter, with_mask_feature
from torchsets.data.polygons import random_polygons, turned_polygons
from torchsets.data.resize import resize_and_crop, resize_bilinear
from torchsets.data.tiles import (
    gather_tiles,
    image_to_tiles,
    mosaic_size,
    shuffle_tiles,
    tiles_to_image,
)
from torchsets.data.toy_counting import CountingSets, toy_counting_sets
from torchsets.data.tu import LabelledGraphs, read_tu, tu_graphs

__all__ = [
    "CIFAR10_COLOURS",
    "IMAGENET_COLOURS",
    "MNIST_COLOURS",
    "ColourScale",
    "CountingSets",
    "LabelledGraphs",
    "LabelledSets",
    "Minibatches",
    "PictureFolder",
    "SizeBuckets",
    "add_noise",
    "cifar10_images",
    "data_folder",
    "gather_tiles",
    "idx_images",
    "idx_point_sets",
    "image_to_tiles",
    "imagenet_pictures",
    "jitter",
    "mnist_images",
    "mnist_point_sets",
    "mosaic_size",
    "motif_graphs",
    "random_polygons",
    "read_idx",
    "read_tu",
    "resize_and_crop",
    "resize_bilinear",
    "shuffle_tiles",
    "small_digit_sets",
    "tiles_to_image",
    "toy_counting_sets",
    "tu_graphs",
    "turned_polygons",
    "with_mask_feature",
]
