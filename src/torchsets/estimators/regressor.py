"""A regressor of sets."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length
from torch import Tensor

from torchsets.estimators.rollback import unchanged_on_error
from torchsets.estimators.saving import SavesItself
from torchsets.estimators.trained import Network, TrainedEstimator, moments
from torchsets.estimators.weights import keep_weighted
from torchsets.fitting import find_device
from torchsets.sets import Sets


class SetRegressor(RegressorMixin, SavesItself, TrainedEstimator):
    """Predict one or several numbers for each set, trained on their squared error.

    The targets are brought to mean 0 and spread 1 inside.

    Args:
        pooling: See :class:`SetClassifier`, here and below.
        hidden: Width of all layers.
        layers: Number of linear layers before the pooling, and after it.
        network: A network of one's own: a callable (features, outputs) that returns a module.
        max_epochs: Number of epochs; with early stopping the largest one.
        batch_size: Sets of a batch.
        learning_rate: Adam's, which decays linearly to 0.
        early_stopping: Whether to hold out some of the sets and to keep the best weights.
        validation_fraction: Share of the sets that early stopping holds out.
        patience: Epochs without a smaller loss before early stopping.
        standardise: Whether to bring each feature to mean 0 and spread 1 over all elements.
        device: "auto" is a GPU if there is one.
        random_state: Seed; torch's own random state is left alone.
        verbose: 1 shows a bar, or a line every few seconds where there is no terminal.

    Attributes:
        n_features_in_: Number of features of an element.
        module_: The trained network.
        history_: A dict for each epoch with ``loss``, and ``valid_loss`` with early stopping.
        n_iter_: Number of epochs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = [rng.normal(size=(n, 2)) for n in rng.integers(1, 9, size=40)]
        >>> y = [one.max() for one in X]
        >>> SetRegressor(hidden=16, max_epochs=10, random_state=0).fit(X, y).predict(X).shape
        (40,)
    """

    _saved = (
        "n_features_in_",
        "mean_",
        "scale_",
        "target_mean_",
        "target_scale_",
        "history_",
        "n_iter_",
        "_seed",
        "_single",
    )

    def __init__(
        self,
        pooling: str = "fspool",
        *,
        hidden: int = 64,
        layers: int = 2,
        network: Network | None = None,
        max_epochs: int = 50,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        standardise: bool = True,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.pooling = pooling
        self.hidden = hidden
        self.layers = layers
        self.network = network
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.standardise = standardise
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on sets X with targets y, (S,) or (S, K); see :meth:`SetClassifier.fit`."""
        return self._train(X, y, sample_weight, first=True, once=False)

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Go once over some sets, and keep what was learned from others before.

        The first call sets the scales of the features and of the targets.
        """
        return self._train(X, y, sample_weight, first=not hasattr(self, "module_"), once=True)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the prediction for each set, (S,) or (S, K) as in training."""
        outputs = self._predict_vectors(X).double().numpy()
        predicted = outputs * self.target_scale_ + self.target_mean_
        return predicted[:, 0] if self._single else predicted

    @unchanged_on_error
    def _train(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, *, first: bool, once: bool
    ) -> Self:
        sets = self._read(X, reset=first)
        targets = self._check_targets(y, sets)
        weights, sets, targets = keep_weighted(sample_weight, sets, targets)
        single, targets = targets.ndim == 1, targets.reshape(len(targets), -1)
        if first:
            self._single = single
            self.target_mean_, self.target_scale_ = moments(torch.from_numpy(targets))
            self._begin(sets, targets.shape[1])
        elif targets.shape[1] != len(self.target_mean_):
            raise ValueError(
                f"y must have {len(self.target_mean_)} columns as in the first call, "
                f"got {targets.shape[1]}"
            )
        scaled, device = self._scaled(sets), find_device(self.device)
        wanted = torch.from_numpy((targets - self.target_mean_) / self.target_scale_).float()

        def losses(index: Tensor) -> Tensor:
            outputs = self.module_(*self._batch(scaled, index))
            return (outputs - wanted[index].to(device)).square().mean(dim=1)

        self._learn(losses, weights, once=once)
        return self

    def _check_targets(self, y: ArrayLike, sets: Sets) -> NDArray[np.float64]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        targets = check_array(y, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="y")
        check_consistent_length(sets, targets)
        if targets.ndim > 2:
            raise ValueError(f"y must have shape (S,) or (S, K), got {targets.shape}")
        return targets

    def _rebuild(self) -> None:
        self._build(len(self.target_mean_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
