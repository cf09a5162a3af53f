"""Which sets of a dataset each step takes: at random, or of similar size to cut padding."""

import numpy as np
import torch
from torch import Tensor

_WINDOW = 32  # batches that are sorted by size together


class Minibatches:
    """Indices of shuffled minibatches: a function of the step alone, so resuming is exact.

    Each epoch has its own order and drops the incomplete rest.

    Example:
        >>> minibatches = Minibatches(5, 2, seed=0)
        >>> [len(minibatches(step)) for step in range(3)]
        [2, 2, 2]
    """

    def __init__(self, count: int, batch_size: int, *, seed: int) -> None:
        if not 1 <= batch_size <= count:
            raise ValueError(f"batch_size must be between 1 and {count}, got {batch_size}")
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self.per_epoch = count // batch_size
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def __call__(self, step: int) -> Tensor:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng([self.seed, epoch])
            self._epoch, self._order = epoch, torch.from_numpy(rng.permutation(self.count))
        return self._order[position * self.batch_size : (position + 1) * self.batch_size]


class SizeBuckets:
    """Indices of minibatches whose sets have similar sizes: a function of the step alone.

    Each epoch is shuffled, sorted by size within windows of 32 batches, and the batches of all
    windows are shuffled again. Sizes say something about labels, so a batch is less mixed than a
    random one; where that matters, take plain minibatches.

    Args:
        sizes: The sizes of all sets, (S,), long.
        batch_size: Sets per batch. The incomplete rest of an epoch is dropped.
        seed: Of the shuffling.

    Example:
        >>> buckets = SizeBuckets(torch.tensor([9, 1, 8, 2]), 2, seed=0)
        >>> sorted(sorted(buckets(step).tolist()) for step in range(2))
        [[0, 2], [1, 3]]
    """

    def __init__(self, sizes: Tensor, batch_size: int, *, seed: int) -> None:
        if not 1 <= batch_size <= len(sizes):
            raise ValueError(f"batch_size must be between 1 and {len(sizes)}, got {batch_size}")
        self.sizes, self.batch_size, self.seed = sizes.numpy(), batch_size, seed
        self.per_epoch = len(sizes) // batch_size
        self._epoch, self._batches = -1, torch.empty(0, batch_size, dtype=torch.long)

    def __call__(self, step: int) -> Tensor:
        epoch, position = divmod(step, self.per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffle(epoch)
        return self._batches[position]

    def _shuffle(self, epoch: int) -> Tensor:
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(len(self.sizes))[: self.per_epoch * self.batch_size]
        window = np.arange(len(order)) // (_WINDOW * self.batch_size)
        order = order[np.lexsort((self.sizes[order], window))]
        batches = order.reshape(self.per_epoch, self.batch_size)
        return torch.from_numpy(batches[rng.permutation(self.per_epoch)])
