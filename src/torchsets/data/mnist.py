"""MNIST as point sets or images, from its four idx files; datasets in its format work too."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from torchsets._catalogue import MNIST
from torchsets._downloads import find_file
from torchsets._inputs import Array
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
    return idx_point_sets(_mnist_folder(split, mirrors), split)


def mnist_images(split: str, *, mirrors: Sequence[str] = MNIST.mirrors) -> tuple[Tensor, Tensor]:
    """Load MNIST as images, from the same files as :func:`mnist_point_sets`.

    Args:
        split: "train", 60000 digits, or "test", 10000.
        mirrors: Where to download from.

    Returns:
        Images, (S, 1, 28, 28), uint8, and the digit of each, (S,), long.

    Raises:
        ValueError: If a file is not the published one.
        OSError: If a file is missing and cannot be downloaded.
    """
    return idx_images(_mnist_folder(split, mirrors), split)


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
    images, labels = _read_both(Path(folder), split)
    return images_to_sets(images, labels, threshold=threshold)


def idx_images(folder: str | Path, split: str) -> tuple[Tensor, Tensor]:
    """Load a dataset that has MNIST's file names and format, such as Fashion-MNIST, as images.

    Args:
        folder: See :func:`idx_point_sets`.
        split: "train" or "test".

    Returns:
        Images, (S, 1, H, W), of the files' dtype, and the label of each, (S,), long.

    Raises:
        ValueError: If a file is no idx file, is cut off, or does not fit the other.
        OSError: If a file is missing.
    """
    images, labels = _read_both(Path(folder), split)
    return torch.from_numpy(images).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def _mnist_folder(split: str, mirrors: Sequence[str]) -> Path:
    """The folder of MNIST, with the files of the split in it and checked."""
    for name, md5 in MNIST.md5.items():
        if name.startswith(_prefix(split)):
            find_file(MNIST.path(name), md5=md5, mirrors=mirrors)
    return MNIST.path("")


def _prefix(split: str) -> str:
    if split not in _SPLITS:
        raise ValueError(f'split must be "train" or "test", got {split!r}')
    return _SPLITS[split]


def _read_both(folder: Path, split: str) -> tuple[Array, Array]:
    images = _read(folder, f"{_prefix(split)}-images-idx3-ubyte")
    labels = _read(folder, f"{_prefix(split)}-labels-idx1-ubyte")
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"images must be (S, rows, columns) with a label each, got {images.shape} and labels "
            f"{labels.shape} in {folder}"
        )
    return images, labels


def _read(folder: Path, name: str) -> Array:
    for path in (folder / f"{name}.gz", folder / name):
        if path.exists():
            return read_idx(path)
    raise FileNotFoundError(f"{folder / name} is missing, and so is {name}.gz")
