"""MNIST as point sets, from its four idx files; any dataset in the same format works too."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchsets._catalogue import MNIST
from torchsets.data.files import find_file
from torchsets.data.idx import read_idx
from torchsets.data.point_sets import MEAN_LEVEL, LabelledSets, images_to_sets

_SPLITS = {"train": "train", "test": "t10k"}


def mnist_point_sets(split: str, *, mirrors: Sequence[str] = MNIST.mirrors) -> LabelledSets:
    """Load MNIST as sets of points: the pixels above the mean level, x and y in [0, 1].

    The files are looked for in the folder ``mnist`` of ``TORCHSETS_DATA`` (by default of the
    user's cache), checked, and downloaded if they are missing.

    Args:
        split: "train", 60000 digits, or "test", 10000.
        mirrors: Where to download from.

    Returns:
        Sets of 32 to 342 points in random order, y pointing up, with the digit of each.

    Raises:
        ValueError: If a file is not the published one.
        OSError: If a file is missing and cannot be downloaded.
    """
    for name, md5 in MNIST.md5.items():
        if name.startswith(_prefix(split)):
            find_file(MNIST.path(name), md5=md5, mirrors=mirrors)
    return idx_point_sets(MNIST.path(""), split)


def idx_point_sets(
    folder: str | Path, split: str, *, threshold: float = MEAN_LEVEL
) -> LabelledSets:
    """Load a dataset that has MNIST's file names and format, such as Fashion-MNIST, as sets.

    Args:
        folder: Holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same with
            ``t10k``, each plain or with ``.gz``.
        split: "train" or "test".
        threshold: A pixel is a point if it is brighter, as a share of the full range.

    Raises:
        ValueError: If a file is no idx file, is cut off, or does not fit the other.
        OSError: If a file is missing.
    """
    images = _read(Path(folder), f"{_prefix(split)}-images-idx3-ubyte")
    labels = _read(Path(folder), f"{_prefix(split)}-labels-idx1-ubyte")
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"images must be (S, rows, columns) with a label each, got {images.shape} and labels "
            f"{labels.shape} in {folder}"
        )
    return images_to_sets(images, labels, threshold=threshold)


def _prefix(split: str) -> str:
    if split not in _SPLITS:
        raise ValueError(f'split must be "train" or "test", got {split!r}')
    return _SPLITS[split]


def _read(folder: Path, name: str) -> np.ndarray[Any, Any]:
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return read_idx(path)
    raise FileNotFoundError(f"{folder / name} is missing, and so is {name}.gz")
