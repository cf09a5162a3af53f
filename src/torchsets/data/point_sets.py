"""Many labelled sets of different sizes without padding: all points one after the other."""

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchsets.padded import SetBatch

MEAN_LEVEL = 0.1307  # the mean brightness of a pixel of MNIST, of 1


class PointSets:
    """Labelled sets, flat, so that a batch is one gather and no loop over sets.

    Args:
        values: The elements of all sets, (total, D), floating point.
        sizes: The number of elements of each set, (S,), long.
        labels: The label of each set, (S,), long.

    Example:
        >>> sets = PointSets(torch.rand(5, 2), torch.tensor([2, 3]), torch.tensor([7, 1]))
        >>> sets.batch(torch.tensor([1]))
        SetBatch(1 set of 3 elements, 2 features, float32, cpu)
    """

    def __init__(self, values: Tensor, sizes: Tensor, labels: Tensor) -> None:
        if int(sizes.sum()) != len(values) or sizes.shape != labels.shape:
            raise ValueError(
                f"sizes must add up to the {len(values)} rows of values and have a label each, "
                f"got {len(sizes)} sizes with the sum {int(sizes.sum())} and {len(labels)} labels"
            )
        self.values, self.sizes, self.labels = values, sizes, labels
        self._starts = sizes.cumsum(0) - sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def batch(self, chosen: Tensor, *, size: int | None = None) -> SetBatch:
        """Pad some of the sets, (B,) long, to ``size`` slots; None: to the largest of them."""
        sizes = self.sizes[chosen]
        largest = int(sizes.max()) if len(sizes) else 0
        slots = largest if size is None else size
        if slots < largest:
            raise ValueError(f"size must be at least {largest}, the largest set, got {size}")
        position = torch.arange(slots)
        mask = position < sizes.unsqueeze(1)
        # Where there is padding any row will do: it is set to 0 below.
        rows = torch.where(mask, self._starts[chosen].unsqueeze(1) + position, 0)
        return SetBatch(self.values[rows].masked_fill_(~mask.unsqueeze(-1), 0), mask)

    def digest(self) -> str:
        """Return a short fingerprint of all points, sizes and labels."""
        digest = hashlib.sha256()
        for part in (self.values, self.sizes, self.labels):
            digest.update(part.numpy().tobytes())
        return digest.hexdigest()[:16]

    def select(self, chosen: Tensor) -> "PointSets":
        """Some of the sets, (B,) long, in that order."""
        batch = self.batch(chosen)
        return PointSets(batch.elements[batch.mask], self.sizes[chosen], self.labels[chosen])


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
    noise.masked_fill_(~sets.mask.unsqueeze(-1), 0)
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
    images: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], *, threshold: float, seed: int = 0
) -> PointSets:
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
    chance = np.random.default_rng(seed).integers(1 << 32, size=len(which))
    shuffled = np.argsort((which << 32) | chance)  # within each set
    x = column[shuffled] / (images.shape[2] - 1)
    y = 1 - row[shuffled] / (images.shape[1] - 1)
    return PointSets(
        torch.from_numpy(np.stack([x, y], axis=1)).float(),
        torch.from_numpy(bright.sum(axis=(1, 2), dtype=np.int64)),
        torch.from_numpy(labels.astype(np.int64)),
    )
