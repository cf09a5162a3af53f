"""Handwritten digits as point sets: the 8x8 images that come with scikit-learn."""

from torchsets._extras import import_extra
from torchsets.data.point_sets import MEAN_LEVEL, LabelledSets, images_to_sets

_TEST_DIGITS = 450


def small_digit_sets(split: str) -> LabelledSets:
    """Load digits in the form of MNIST's point sets: x and y in [0, 1]. Needs no download.

    A pixel is a point if it is brighter than MNIST's mean level.

    Args:
        split: "train", the first 1347 digits, or "test", the last 450.

    Example:
        >>> sets, labels = small_digit_sets("test")
        >>> sets
        Sets(450 sets of 16 to 35 elements, 2 features, float32, cpu)
    """
    if split not in ("train", "test"):
        raise ValueError(f'split must be "train" or "test", got {split!r}')
    loaded = import_extra("sklearn.datasets", "app").load_digits()
    chosen = slice(None, -_TEST_DIGITS) if split == "train" else slice(-_TEST_DIGITS, None)
    images, labels = loaded.images[chosen] / 16, loaded.target[chosen]
    return images_to_sets(images, labels, threshold=MEAN_LEVEL)
