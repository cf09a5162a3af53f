"""Predict a set for each vector, or for each set."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor, nn

from torchsets.estimators.inputs import read_sets
from torchsets.estimators.rollback import unchanged_on_error
from torchsets.estimators.saving import SavesItself
from torchsets.estimators.set_models import (
    MATCHINGS,
    TOKEN_DECODERS,
    VECTOR_DECODERS,
    SetModel,
    check_choice,
    check_slots,
    make_decoder,
)
from torchsets.estimators.trained import Network, TrainedEstimator, moments, scale_sets
from torchsets.estimators.weights import check_weights, keep_weighted
from torchsets.losses import hungarian_loss
from torchsets.mlp import MLP
from torchsets.padded import unpad
from torchsets.sets import Sets


class SetPredictor(SavesItself, TrainedEstimator):
    """Predict a set for each input, which is a vector or a set itself.

    Args:
        decoder: "dspn", "mlp", "lstm" or "tspn", which predict from one vector; or "query" or
            "slot-attention", which read every element of the input.
        slots: Largest number of predicted elements. None: that of the largest set of Y.
        matching: The loss: "hungarian" (one to one) or "chamfer" (nearest neighbours and the
            number of elements; faster for hundreds of them).
        latent: Size of the vector that a decoder gets.
        pooling: How sets are read; see :class:`SetClassifier`, here and below.
        hidden: Width of all layers.
        layers: Number of linear layers before the pooling, and after it.
        network: A network of one's own, (features, outputs) to a module, that reads the input.
        max_epochs: Number of epochs; with early stopping the largest one.
        batch_size: Sets of a batch.
        learning_rate: Adam's, which decays linearly to 0.
        early_stopping: Whether to hold out some of the sets and to keep the best weights.
        validation_fraction: Share of the sets that early stopping holds out.
        patience: Epochs without a smaller loss before early stopping.
        standardise: Whether to bring features to mean 0 and spread 1, those of X and of Y.
        device: "auto" is a GPU if there is one.
        random_state: Seed; torch's own random state is left alone.
        verbose: 1 shows a bar, or a line every few seconds where there is no terminal.

    Attributes:
        n_features_in_: Number of features of a vector, or of an element, of X.
        module_: The trained network.
        history_: A dict for each epoch with ``loss``, and ``valid_loss`` with early stopping.
        n_iter_: Number of epochs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(20, 3))
        >>> Y = [one[: rng.integers(1, 4), None] for one in X]
        >>> predictor = SetPredictor("mlp", hidden=16, max_epochs=2, random_state=0).fit(X, Y)
        >>> predictor.predict(X)[0].shape[1]
        1
    """

    module_: SetModel
    _at_least_one = (*TrainedEstimator._at_least_one, "latent")
    _of_network = (*TrainedEstimator._of_network, "latent", "decoder")
    _saved = (
        "n_features_in_",
        "mean_",
        "scale_",
        "target_mean_",
        "target_scale_",
        "slots_",
        "history_",
        "n_iter_",
        "_seed",
        "_reads_vectors",
    )

    def __init__(
        self,
        decoder: str = "dspn",
        *,
        slots: int | None = None,
        matching: str = "hungarian",
        latent: int = 64,
        pooling: str = "fspool",
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
        self.decoder = decoder
        self.slots = slots
        self.matching = matching
        self.latent = latent
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

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on inputs X, an array (S, F) or sets, with target sets y."""
        check_choice("decoder", self.decoder, VECTOR_DECODERS + TOKEN_DECODERS)
        check_choice("matching", self.matching, MATCHINGS)
        inputs = self._read(X, reset=True)
        targets = read_sets(y, name="y")
        check_consistent_length(inputs, targets)
        weights, inputs, targets = keep_weighted(sample_weight, inputs, targets)
        self.slots_ = check_slots(self.slots, int(targets.sizes.max()), "y")
        self.target_mean_, self.target_scale_ = moments(targets.values, wanted=self.standardise)
        self._begin(inputs, self.latent)
        scaled, wanted = self._scaled(inputs), self._scaled_targets(targets)
        self.module_.prepare(*self._batch(scaled, torch.arange(min(len(scaled), self.batch_size))))

        def losses(index: Tensor) -> Tensor:
            return self.module_.losses(*self._batch(scaled, index), *self._batch(wanted, index))

        self._learn(losses, weights)
        return self

    def predict(self, X: Any) -> list[NDArray[np.float64]]:
        """Return the predicted sets: a list of arrays (n, D)."""
        slots = self._predict_vectors(X).double()
        elements = slots[..., :-1] * torch.from_numpy(self.target_scale_)
        elements = elements + torch.from_numpy(self.target_mean_)
        return [one.numpy() for one in unpad(elements, slots[..., -1] >= 0.5)]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean error of the predicted sets: 0 is perfect, higher is better.

        The elements of a predicted and of a true set are matched one to one at the least cost,
        the mean square of the standardised differences; an element without partner costs 1. The
        error is the total cost, divided by the size of the larger set; 0 if both are empty.
        """
        check_is_fitted(self)
        targets = self._scaled_targets(read_sets(y, name="y", features=len(self.target_mean_)))
        slots = self._predict_vectors(X)
        check_consistent_length(slots, targets)
        present = slots[..., -1] >= 0.5
        batch = targets.batch(slice(None))
        matched = hungarian_loss(slots[..., :-1], *batch, prediction_mask=present)
        sizes, wanted = present.sum(dim=1), batch.mask.sum(dim=1)
        costs = matched / batch.elements.shape[2] + (sizes - wanted).abs()
        errors = (costs / torch.maximum(sizes, wanted).clamp(min=1)).double().numpy()
        return -float(np.average(errors, weights=check_weights(sample_weight, len(errors))))

    def _read(self, X: Any, *, reset: bool) -> Sets:
        """Read sets, or vectors as sets of one element."""
        vectors = _is_table_of_vectors(X)
        if reset:
            self._reads_vectors = vectors
        elif vectors != self._reads_vectors:
            kinds = ("sets", "vectors (S, F)")
            raise ValueError(
                f"X must be {kinds[self._reads_vectors]} as in training, got {kinds[vectors]}"
            )
        return super()._read(_vectors_as_sets(X) if vectors else X, reset=reset)

    def _scaled_targets(self, targets: Sets) -> Sets:
        if targets.values.shape[1] != len(self.target_mean_):
            raise ValueError(
                f"sets of y must have {len(self.target_mean_)} features as in training, "
                f"got {targets.values.shape[1]}"
            )
        return scale_sets(targets, self.target_mean_, self.target_scale_)

    def _make_module(self, outputs: int) -> SetModel:
        if self.network is None and self.decoder in TOKEN_DECODERS:
            reader: nn.Module = MLP(self.n_features_in_, self.hidden, outputs, layers=self.layers)
        else:
            reader = super()._make_module(outputs)
        features = len(self.target_mean_)
        sizes = {"hidden": self.hidden, "slots": self.slots_, "features": features}
        return SetModel(
            reader, make_decoder(self.decoder, outputs, **sizes), matching=self.matching
        )

    def _rebuild(self) -> None:
        self._build(self.latent)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.target_tags.required = True
        return tags


def _is_table_of_vectors(X: Any) -> bool:
    """Whether these are rows of numbers: a 2-d array, tensor or table, or a list of flat rows."""
    if hasattr(X, "ndim"):
        return bool(X.ndim == 2)
    if isinstance(X, (list, tuple)) and len(X):
        return np.ndim(X[0]) == 1 and len(X[0]) > 0
    return False


def _vectors_as_sets(X: Any) -> Sets:
    """Sets of one element, which know the names of the columns if they are text."""
    sets = read_sets(np.asarray(X)[:, None, :])
    columns = list(getattr(X, "columns", ()))
    named = len(columns) > 0 and all(isinstance(one, str) for one in columns)
    return Sets(sets.values, sets.sizes, names=columns if named else None)
