"""Any transformer of scikit-learn, applied to the elements of sets."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from torchsets.estimators.inputs import read_sets
from torchsets.estimators.rollback import unchanged_on_error
from torchsets.estimators.trained import check_features
from torchsets.sets import Sets


class ElementTransformer(
    TransformerMixin,
    BaseEstimator,
    auto_wrap_output_keys=None,  # type: ignore[call-arg]  # sets are no columns
):
    """Fit a transformer on all elements of all sets, and apply it to each of them.

    So ``StandardScaler``, ``PCA`` and their like can stand in a pipeline before an estimator of
    sets. The sets keep their sizes.

    Args:
        transformer: A transformer of rows (n, D) that keeps their number.

    Attributes:
        transformer_: The fitted copy of it.
        n_features_in_: Number of features of an element.
        n_features_out_: Number of features afterwards.

    Example:
        >>> from sklearn.preprocessing import MinMaxScaler
        >>> ElementTransformer(MinMaxScaler()).fit_transform([[[1.0], [3.0]], [[2.0]]]).to_list()
        [tensor([[0.],
                [1.]]), tensor([[0.5000]])]
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    @unchanged_on_error
    def fit(self, X: Any, y: object = None) -> Self:
        """Fit the transformer on the elements; y, which is one for each set, is not used."""
        sets = read_sets(X)
        check_features(self, X, sets, reset=True)
        if len(sets.values) == 0:
            raise ValueError("X must hold at least one element, got empty sets only")
        self.transformer_ = clone(self.transformer).fit(sets.values.numpy())
        self.n_features_out_ = self._apply(self.transformer_.transform, sets.values[:1]).shape[1]
        return self

    def transform(self, X: Any) -> Sets:
        """Return the transformed sets."""
        check_is_fitted(self)
        sets = read_sets(X, features=self.n_features_in_)
        check_features(self, X, sets, reset=False)
        if len(sets.values) == 0:
            return _like(X, torch.zeros(0, self.n_features_out_), sets)
        return _like(X, self._apply(self.transformer_.transform, sets.values), sets)

    def inverse_transform(self, X: Any) -> Sets:
        """Undo :meth:`transform`, if the transformer can."""
        check_is_fitted(self)
        sets = read_sets(X, features=self.n_features_out_)
        if len(sets.values) == 0:
            return _like(X, torch.zeros(0, self.n_features_in_), sets)
        return _like(X, self._apply(self.transformer_.inverse_transform, sets.values), sets)

    def _apply(self, transform: Any, values: Tensor) -> Tensor:
        rows = transform(values.numpy())
        array = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float32)
        if array.ndim != 2 or len(array) != len(values):
            raise ValueError(
                f"transformer must keep the number of rows, got {array.shape} for {len(values)}"
            )
        return torch.from_numpy(array)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def _like(X: Any, values: Tensor, sets: Sets) -> Sets:
    """Sets with other elements, and the labels and keys of those that were given."""
    if not isinstance(X, Sets):
        return Sets(values, sets.sizes)
    return Sets(values, sets.sizes, labels=X.labels, keys=X.keys)
