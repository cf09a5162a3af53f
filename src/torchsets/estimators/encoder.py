"""A transformer of sets to vectors, learned without labels."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from torchsets.estimators.rollback import unchanged_on_error
from torchsets.estimators.saving import SavesItself
from torchsets.estimators.set_models import (
    MATCHINGS,
    VECTOR_DECODERS,
    SetModel,
    check_choice,
    check_slots,
    make_decoder,
)
from torchsets.estimators.trained import Network, TrainedEstimator
from torchsets.estimators.weights import keep_weighted
from torchsets.padded import unpad


class SetEncoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SavesItself, TrainedEstimator):
    """Compress sets to vectors from which a decoder restores them.

    The decoder gets the vector alone: no order and no size goes past it, so what it needs to
    restore a set has to be in there.

    Args:
        latent: Size of the vectors.
        decoder: "mlp", "lstm", "dspn" or "tspn".
        matching: The loss between a set and its reconstruction: "chamfer" (nearest neighbours and
            the number of elements) or "hungarian" (one to one; slow above a hundred elements).
        slots: Largest number of restored elements. None: that of the largest set.
        pooling: See :class:`SetClassifier`, here and below.
        hidden: Width of all layers.
        layers: Number of linear layers before the pooling, and after it.
        network: A network of one's own, (features, outputs) to a module, for the encoder.
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
        module_: The trained encoder and decoder.
        history_: A dict for each epoch with ``loss``, and ``valid_loss`` with early stopping.
        n_iter_: Number of epochs.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = [rng.normal(size=(n, 2)) for n in rng.integers(1, 5, size=20)]
        >>> encoder = SetEncoder(8, hidden=16, max_epochs=2, random_state=0)
        >>> encoder.fit_transform(X).shape
        (20, 8)
    """

    module_: SetModel
    _at_least_one = (*TrainedEstimator._at_least_one, "latent")
    _of_network = (*TrainedEstimator._of_network, "latent", "decoder")
    _saved = ("n_features_in_", "mean_", "scale_", "slots_", "history_", "n_iter_", "_seed")

    def __init__(
        self,
        latent: int = 32,
        *,
        decoder: str = "mlp",
        matching: str = "chamfer",
        slots: int | None = None,
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
        self.latent = latent
        self.decoder = decoder
        self.matching = matching
        self.slots = slots
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
    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Train on sets; y is not used."""
        check_choice("decoder", self.decoder, VECTOR_DECODERS)
        check_choice("matching", self.matching, MATCHINGS)
        weights, sets = keep_weighted(sample_weight, self._read(X, reset=True))
        self.slots_ = check_slots(self.slots, int(sets.sizes.max()), "X")
        self._begin(sets, self.latent)
        scaled = self._scaled(sets)
        self.module_.prepare(*self._batch(scaled, torch.arange(min(len(sets), self.batch_size))))

        def losses(index: Tensor) -> Tensor:
            batch = self._batch(scaled, index)
            return self.module_.losses(*batch, *batch)

        self._learn(losses, weights)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the vector of each set, (S, latent)."""
        check_is_fitted(self)
        sets = self._scaled(self._read(X, reset=False))
        vectors = self._outputs(
            sets, lambda index: self.module_.encode(*self._batch(sets, index))[0]
        )
        return vectors.double().numpy()

    def inverse_transform(self, X: ArrayLike) -> list[NDArray[np.float64]]:
        """Restore a set from each vector, (S, latent): a list of arrays (n, D)."""
        check_is_fitted(self)
        vectors = check_array(X, dtype=np.float32)
        if vectors.shape[1] != self._n_features_out:
            raise ValueError(f"X must have {self._n_features_out} columns, got {vectors.shape[1]}")
        device = next(self.module_.parameters()).device
        with torch.no_grad():
            found = self.module_.decode(torch.from_numpy(vectors).to(device)).to("cpu")
        elements = found.elements.double() * torch.from_numpy(self.scale_)
        elements = elements + torch.from_numpy(self.mean_)
        return [one.numpy() for one in unpad(elements, found.presence >= 0.5)]

    def _make_module(self, outputs: int) -> SetModel:
        encoder = super()._make_module(outputs)
        sizes = {"hidden": self.hidden, "slots": self.slots_, "features": self.n_features_in_}
        return SetModel(
            encoder, make_decoder(self.decoder, outputs, **sizes), matching=self.matching
        )

    def _rebuild(self) -> None:
        self._build(self.latent)

    @property
    def _n_features_out(self) -> int:
        return int(self._built_with["latent"])
