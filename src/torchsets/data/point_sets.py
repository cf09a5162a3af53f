"""Labelled sets of points, with noise, jitter and images as sets."""

import hashlib
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsets._inputs import Array
from torchsets.padded import SetBatch
from torchsets.sets import Sets

MEAN_LEVEL = 0.1307  # the mean brightness of a pixel of MNIST, of 1


class LabelledSets(NamedTuple):
    """Sets with a label each; it unpacks as ``sets, labels = ...``.

    Attributes:
        sets: S sets, stored flat.
        labels: The label of each, (S,), long.
    """

    sets: Sets
    labels: Tensor

    def select(self, index: Tensor) -> "LabelledSets":
        """Some of the sets, (K,) long, in that order, with their labels."""
        return LabelledSets(self.sets[index], self.labels[index])

    def digest(self) -> str:
        """Return a short fingerprint of all elements, sizes and labels."""
        parts = self.sets.digest().encode() + self.labels.numpy().tobytes()
        return hashlib.sha256(parts).hexdigest()[:16]


def add_noise(sets: SetBatch, sigma: float, *, generator: torch.Generator) -> SetBatch:
    """Add Gaussian noise of standard deviation ``sigma`` to the real elements of a batch.

    Example:
        >>> sets = SetBatch.from_list([[[1.0]], [[2.0], [3.0]]])
        >>> add_noise(sets, 0.1, generator=torch.Generator()).elements[0, 1]
        tensor([0.])
    """
    if sigma == 0:
        return sets
    noise = torch.randn(sets.elements.shape, generator=generator, dtype=sets.elements.dtype)
    noise = noise.to(sets.elements.device).masked_fill_(~sets.mask.unsqueeze(-1), 0)
    return SetBatch(torch.add(sets.elements, noise, alpha=sigma), sets.mask)


def with_mask_feature(sets: SetBatch) -> SetBatch:
    """Append a feature that is 1 at real elements and 0 at padding.

    Example:
        >>> sets = SetBatch.from_list([[[0.5]], [[2.0], [3.0]]])
        >>> with_mask_feature(sets).elements[0].tolist()
        [[0.5, 1.0], [0.0, 0.0]]
    """
    presence = sets.mask.unsqueeze(-1).to(sets.elements.dtype)
    return SetBatch(torch.cat([sets.elements, presence], dim=-1), sets.mask)


def jitter(sets: SetBatch, scale: float, *, generator: torch.Generator) -> SetBatch:
    """Turn, stretch and shift each set of points in [0, 1]^2 a little, about the centre.

    Args:
        sets: Sets of (x, y).
        scale: Standard deviation of the entries that are added to the identity matrix of each
            set; shifts have half of it.
        generator: Of the maps.
    """
    count = len(sets.mask)
    matrix = torch.eye(2) + scale * torch.randn(count, 2, 2, generator=generator)
    shift = 0.5 + 0.5 * scale * torch.randn(count, 1, 2, generator=generator)
    moved = (sets.elements - 0.5) @ matrix.to(sets.elements) + shift.to(sets.elements)
    return SetBatch(moved.masked_fill_(~sets.mask.unsqueeze(-1), 0), sets.mask)


def images_to_sets(
    images: Array, labels: Array, *, threshold: float, seed: int = 0
) -> LabelledSets:
    """Turn images into the sets of their bright pixels, in random order.

    Args:
        images: (S, rows, columns), in [0, 1], or integers up to the largest of their type.
        labels: (S,), integer.
        threshold: A pixel is a point if it is brighter, in units of the full range.
        seed: Of the order of the points within each set.

    Returns:
        Sets of (x, y) in [0, 1], y pointing up.
    """
    whole = np.issubdtype(images.dtype, np.integer)
    bright = images > (np.iinfo(images.dtype).max * threshold if whole else threshold)
    which, row, column = np.nonzero(bright)
    keys = np.random.default_rng(seed).integers(1 << 32, size=len(which))
    shuffled = np.argsort((which << 32) | keys)  # within each set
    x = column[shuffled] / max(images.shape[2] - 1, 1)
    y = 1 - row[shuffled] / max(images.shape[1] - 1, 1)
    points = torch.from_numpy(np.stack([x, y], axis=1)).float()
    sizes = torch.from_numpy(bright.sum(axis=(1, 2), dtype=np.int64))
    return LabelledSets(Sets(points, sizes), torch.from_numpy(labels.astype(np.int64)))
