"""A classifier of sets."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d
from torch import Tensor
from torch.nn.functional import cross_entropy

from torchsets.estimators.rollback import unchanged_on_error
from torchsets.estimators.saving import SavesItself
from torchsets.estimators.trained import Network, TrainedEstimator
from torchsets.estimators.weights import keep_weighted
from torchsets.fitting import find_device
from torchsets.sets import Sets


class SetClassifier(ClassifierMixin, SavesItself, TrainedEstimator):
    """Classify sets with a small network: an MLP on each element, a pooling, an MLP.

    Args:
        pooling: "fspool", "sum", "mean", "max" or "attention".
        hidden: Width of all layers.
        layers: Number of linear layers before the pooling, and after it.
        network: A network of one's own: a callable (features, outputs) that returns a module,
            which maps elements (B, N, D) and mask (B, N) to scores (B, outputs). The three
            parameters above then mean nothing.
        max_epochs: Number of epochs; with early stopping the largest one.
        batch_size: Sets of a batch.
        learning_rate: Adam's, which decays linearly to 0.
        early_stopping: Whether to hold out some of the sets, to stop when the loss on them no
            longer falls, and to keep the best weights.
        validation_fraction: Share of the sets that early stopping holds out, stratified.
        patience: Epochs without a smaller loss before early stopping.
        standardise: Whether to bring each feature to mean 0 and spread 1 over all elements.
        class_weight: None, "balanced", or weights by class.
        device: "auto" is a GPU if there is one.
        random_state: Seed of the weights and of the order of the sets. torch's own random state
            is left alone.
        verbose: 1 shows a bar, or a line every few seconds where there is no terminal.

    Attributes:
        classes_: The classes, in the order of the columns of ``predict_proba``.
        n_features_in_: Number of features of an element.
        module_: The trained network.
        history_: A dict for each epoch with ``loss``, and ``valid_loss`` with early stopping.
        n_iter_: Number of epochs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = [rng.normal(size=(n, 2)) + n % 2 for n in rng.integers(2, 9, size=40)]
        >>> y = [len(one) % 2 for one in X]
        >>> classifier = SetClassifier(hidden=16, max_epochs=20, random_state=0).fit(X, y)
        >>> classifier.predict(X).shape, classifier.predict_proba(X).shape
        ((40,), (40, 2))
    """

    _saved = ("n_features_in_", "classes_", "mean_", "scale_", "history_", "n_iter_", "_seed")

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
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @unchanged_on_error
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on sets X with classes y, (S,).

        Args:
            X: A list, tuple, object array or Series of arrays (n, D), an array (S, N, D) or
                :class:`torchsets.Sets`.
            y: The class of each set: integers, strings, bools.
            sample_weight: How much each set counts, (S,).
        """
        sets = self._read(X, reset=True)
        labels = _check_labels(self, y, sets)
        weights, sets, labels = keep_weighted(sample_weight, sets, labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y must have at least 2 classes, got 1 class: {self.classes_.tolist()[0]!r}"
            )
        return self._train(sets, labels, weights, first=True, once=False)

    @unchanged_on_error
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Go once over some sets, and keep what was learned from others before.

        The first call sets the scales of the features, and needs all ``classes``.
        """
        first = not hasattr(self, "module_")
        if first and classes is None:
            raise ValueError("classes must be given to the first call of partial_fit, got None")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all sets at once; for partial_fit give "
                "a dict of weights or sample_weight"
            )
        sets = self._read(X, reset=first)
        labels = _check_labels(self, y, sets)
        weights, sets, labels = keep_weighted(sample_weight, sets, labels)
        known = np.unique(np.asarray(classes)) if first else self.classes_
        if not first and classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(f"classes must be those of the first call, {known}, got {classes}")
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(f"y must be among classes {known}, got {unknown.tolist()[0]!r}")
        self.classes_ = known
        return self._train(sets, labels, weights, first=first, once=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each set, (S,)."""
        check_is_fitted(self)
        return self.classes_[self._predict_vectors(X).argmax(dim=1).numpy()]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (S, number of classes)."""
        return self._predict_vectors(X).double().softmax(dim=1).numpy()

    def _train(
        self,
        sets: Sets,
        labels: NDArray[Any],
        weights: NDArray[np.float64],
        *,
        first: bool,
        once: bool,
    ) -> Self:
        if self.class_weight is not None:
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
            weights, sets, labels = keep_weighted(
                weights * factors[np.searchsorted(self.classes_, labels)],
                sets,
                labels,
                name="class_weight times sample_weight",
            )
        if first:
            self._begin(sets, len(self.classes_))
        codes = np.searchsorted(self.classes_, labels)
        scaled, targets = self._scaled(sets), torch.from_numpy(codes)
        device = find_device(self.device)

        def losses(index: Tensor) -> Tensor:
            scores = self.module_(*self._batch(scaled, index))
            return cross_entropy(scores, targets[index].to(device), reduction="none")

        self._learn(losses, weights, stratify=codes, once=once)
        return self

    def _rebuild(self) -> None:
        self._build(len(self.classes_))


def _check_labels(estimator: SetClassifier, y: ArrayLike, sets: Sets) -> NDArray[Any]:
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    check_consistent_length(sets, y)
    labels = column_or_1d(np.asarray(y), warn=True)
    try:
        check_classification_targets(labels)
    except TypeError as error:  # they cannot be sorted
        kinds = sorted({type(one).__name__ for one in labels})
        raise ValueError(
            f"y must hold labels of one type, none missing, got {' and '.join(kinds)}"
        ) from error
    return labels
