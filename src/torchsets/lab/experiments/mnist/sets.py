"""The datasets that the experiments on MNIST choose from by name."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from torchsets.data import (
    PointSets,
    SizeBuckets,
    idx_point_sets,
    mnist_point_sets,
    small_digit_sets,
)
from torchsets.lab.training import Minibatches
from torchsets.padded import SetBatch

TEST_SEED = 10_007  # of the noise on the test sets


def load_sets(dataset: str, split: str, limit: int | None = None) -> PointSets:
    """Load "mnist", "digits" (8x8, embedded) or a folder of idx files; at most ``limit`` sets."""
    if dataset == "mnist":
        sets = mnist_point_sets(split)
    elif dataset == "digits":
        sets = small_digit_sets(split)
    elif Path(dataset).is_dir():
        sets = idx_point_sets(dataset, split)
    else:
        raise ValueError(f"dataset must be mnist, digits or a folder of idx files, got {dataset!r}")
    return sets if limit is None else sets.select(torch.arange(min(limit, len(sets))))


def check_sigmas(sigmas: Sequence[float]) -> None:
    """Raise ``ValueError`` where two noises would have one name: names have two decimals."""
    names = [f"{sigma:.2f}" for sigma in sigmas]
    if len(set(names)) < len(names) or any(sigma < 0 for sigma in sigmas):
        shown = ", ".join(map(str, sigmas))
        raise ValueError(f"sigmas must be at least 0 and differ in two decimals, got {shown}")


def minibatches(
    sets: PointSets, batch_size: int, *, seed: int, bucketed: bool = False
) -> Minibatches | SizeBuckets:
    """Choose sets at random, or such that those of a batch have similar sizes."""
    if bucketed:
        return SizeBuckets(sets.sizes, batch_size, seed=seed)
    return Minibatches(len(sets), batch_size, seed=seed)


def with_mask_feature(sets: SetBatch) -> SetBatch:
    """Append a feature that is 1 at real elements and 0 at padding."""
    presence = sets.mask.unsqueeze(-1).to(sets.elements.dtype)
    return SetBatch(torch.cat([sets.elements, presence], dim=-1), sets.mask)


def pieces_of(sets: PointSets, size: int) -> list[Tensor]:
    """Indices of all sets in groups of similar size, for an evaluation with little padding."""
    return list(torch.split(sets.sizes.argsort(), size))
