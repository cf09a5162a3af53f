"""Which samples of a dataset each step takes."""

import numpy as np
import torch
from torch import Tensor


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
            random_state = np.random.default_rng([self.seed, epoch])
            self._epoch, self._order = epoch, torch.from_numpy(random_state.permutation(self.count))
        return self._order[position * self.batch_size : (position + 1) * self.batch_size]
