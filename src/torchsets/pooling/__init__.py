"""Set to vector: sum, mean, max, min, sort, featurewise sort, attention; padded and flat sets."""

from torchsets.pooling.attention import AttentionPool
from torchsets.pooling.by_size import BySize, by_size
from torchsets.pooling.flat_fspool import fspool_flat
from torchsets.pooling.fspool import FSPool, FSUnpool, fspool
from torchsets.pooling.glimpses import GlimpsePool, fuse, glimpse_pool
from torchsets.pooling.max import MaxPool, MinPool, max_pool, max_pool_flat, min_pool, min_pool_flat
from torchsets.pooling.mean import MeanPool, mean_pool, mean_pool_flat
from torchsets.pooling.sort import SortPool, sort_pool, sort_pool_flat
from torchsets.pooling.sum import SumPool, sum_pool, sum_pool_flat

__all__ = [
    "AttentionPool",
    "BySize",
    "FSPool",
    "FSUnpool",
    "GlimpsePool",
    "MaxPool",
    "MeanPool",
    "MinPool",
    "SortPool",
    "SumPool",
    "by_size",
    "fspool",
    "fspool_flat",
    "fuse",
    "glimpse_pool",
    "max_pool",
    "max_pool_flat",
    "mean_pool",
    "mean_pool_flat",
    "min_pool",
    "min_pool_flat",
    "sort_pool",
    "sort_pool_flat",
    "sum_pool",
    "sum_pool_flat",
]
