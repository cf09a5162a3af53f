"""Set to vector: sum, mean, max, min, and featurewise sort pooling."""

from torchsets.pooling.fspool import FSPool, FSUnpool, fspool
from torchsets.pooling.max import MaxPool, MinPool, max_pool, min_pool
from torchsets.pooling.mean import MeanPool, mean_pool
from torchsets.pooling.sum import SumPool, sum_pool

__all__ = [
    "FSPool",
    "FSUnpool",
    "MaxPool",
    "MeanPool",
    "MinPool",
    "SumPool",
    "fspool",
    "max_pool",
    "mean_pool",
    "min_pool",
    "sum_pool",
]
