"""Weights of sets, and the sets that take part."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def check_weights(
    sample_weight: ArrayLike | None, count: int, *, name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Weights of sets as an array (S,); None: all are 1."""
    if sample_weight is None:
        return np.ones(count)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(count, weights)
    if weights.shape != (count,):
        raise ValueError(f"{name} must have shape ({count},), got {weights.shape}")
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise ValueError(f"{name} must be finite and not negative, got other numbers")
    if weights.sum() == 0:
        raise ValueError(f"{name} must be above 0 for some sets, got zero for all")
    return weights


def keep_weighted(
    sample_weight: ArrayLike | None, *data: Any, name: str = "sample_weight"
) -> tuple[Any, ...]:
    """The weights above 0, and the entries of all data that have them: the others take no part."""
    weights = check_weights(sample_weight, len(data[0]), name=name)
    kept = weights > 0
    return weights[kept], *(one if kept.all() else one[kept] for one in data)
