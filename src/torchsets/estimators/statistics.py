"""Plain statistics of sets: the baseline before any model for vectors."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from torchsets.estimators.inputs import read_sets
from torchsets.estimators.trained import check_features
from torchsets.pooling import max_pool_flat, mean_pool_flat, min_pool_flat, sum_pool_flat
from torchsets.sets import Sets


class SetStatistics(TransformerMixin, BaseEstimator):
    """Describe each set by statistics of its features and by its size. Nothing is trained.

    Followed by a random forest it is the baseline that a network on sets should beat.

    Args:
        statistics: Some of "mean", "std", "min", "max" and "sum".
        size: Whether to append the number of elements.

    Attributes:
        n_features_in_: Number of features of an element.

    Example:
        >>> SetStatistics(["mean", "max"]).fit_transform([[[1.0], [3.0]], [[5.0]]])
        array([[2., 3., 2.],
               [5., 5., 1.]])
    """

    def __init__(
        self,
        statistics: Sequence[str] = ("mean", "std", "min", "max", "sum"),
        *,
        size: bool = True,
    ) -> None:
        self.statistics = statistics
        self.size = size

    def fit(self, X: Any, y: object = None) -> Self:
        """Remember the number of features, and check the names of the statistics."""
        unknown = [name for name in self.statistics if name not in _STATISTICS]
        if unknown:
            raise ValueError(
                f"statistics must be among {', '.join(_STATISTICS)}, got {unknown[0]!r}"
            )
        if not (len(self.statistics) or self.size):
            raise ValueError("statistics must name at least one if size is False, got none")
        self._read(X, reset=True)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the statistics of each set, (S, K); an empty set gives zeros."""
        check_is_fitted(self)
        sets = self._read(X, reset=False)
        values = sets.values.double()
        columns = [_STATISTICS[name](values, sets.sizes) for name in self.statistics]
        if self.size:
            columns.append(sets.sizes.double().unsqueeze(1))
        return torch.cat(columns, dim=1).numpy()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names such as ``mean_x0``, and ``size``."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            names = input_features
        elif names is None:
            names = [f"x{index}" for index in range(self.n_features_in_)]
        both = [f"{statistic}_{name}" for statistic in self.statistics for name in names]
        return np.asarray(both + ["size"] * bool(self.size), dtype=object)

    def _read(self, X: Any, *, reset: bool) -> Sets:
        sets = read_sets(X, features=None if reset else self.n_features_in_)
        check_features(self, X, sets, reset=reset)
        return sets

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def _std(values: Tensor, sizes: Tensor) -> Tensor:
    """The spread about each set's mean; subtracting it first keeps the digits."""
    centred = values - mean_pool_flat(values, sizes).repeat_interleave(sizes, dim=0)
    return mean_pool_flat(centred.square(), sizes).sqrt()


_STATISTICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": mean_pool_flat,
    "std": _std,
    "min": min_pool_flat,
    "max": max_pool_flat,
    "sum": sum_pool_flat,
}
