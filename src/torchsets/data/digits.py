"""Handwritten digits as point sets: the 8x8 images that come with scikit-learn."""

import torch
from torch import Tensor

from torchsets._extras import import_extra
from torchsets.data.point_sets import MEAN_LEVEL, PointSets, images_to_sets
from torchsets.padded import SetBatch

_TEST_DIGITS = 450


def digit_point_sets() -> tuple[SetBatch, Tensor]:
    """Load 1797 digits, each the set of its pixels with ink. Needs no download.

    Returns:
        The sets with features x and y in [-1, 1] (y points up) and ink in (0, 1], and the digit
        of each, (1797,), long.

    Example:
        >>> sets, labels = digit_point_sets()
        >>> sets
        SetBatch(1797 sets of 16 to 42 elements, 3 features, float32, cpu)
    """
    loaded = import_extra("sklearn.datasets", "app").load_digits()
    images = torch.from_numpy(loaded.images).float() / 16  # (1797, 8, 8), rows from the top
    position = torch.linspace(-1, 1, 8)
    y, x = torch.meshgrid(-position, position, indexing="ij")
    grid = torch.stack([x, y], dim=-1)
    sets = [torch.cat([grid[image > 0], image[image > 0].unsqueeze(1)], dim=1) for image in images]
    return SetBatch.from_list(sets), torch.from_numpy(loaded.target).long()


def small_digit_sets(split: str) -> PointSets:
    """Load the same digits in the form of MNIST's point sets: x and y in [0, 1], no ink.

    A pixel is a point if it is brighter than MNIST's mean level.

    Args:
        split: "train", the first 1347 digits, or "test", the last 450.

    Example:
        >>> sets = small_digit_sets("test")
        >>> len(sets), sets.sizes.max()
        (450, tensor(35))
    """
    if split not in ("train", "test"):
        raise ValueError(f'split must be "train" or "test", got {split!r}')
    loaded = import_extra("sklearn.datasets", "app").load_digits()
    chosen = slice(None, -_TEST_DIGITS) if split == "train" else slice(-_TEST_DIGITS, None)
    images, labels = loaded.images[chosen] / 16, loaded.target[chosen]
    return images_to_sets(images, labels, threshold=MEAN_LEVEL)
