"""What the estimators with a network share: parameters, scaling, seeds, training, prediction."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from torchsets._progress import Show, show_steps
from torchsets.estimators.inputs import read_sets
from torchsets.estimators.networks import POOLINGS, SetNetwork
from torchsets.fitting import Line, find_device, fit_epochs, seeded
from torchsets.padded import SetBatch
from torchsets.sets import Sets

Network = Callable[[int, int], nn.Module]
"""Makes a network of one's own: (features, outputs) to a module from (elements, mask) to (B, L)."""

_ELEMENTS_AT_ONCE = 1 << 16  # padded elements of a batch of predictions
_SECONDS_BETWEEN_LINES = 5.0
_CLIP = 10.0  # keeps a single bad batch from undoing an epoch; rarely reached


class TrainedEstimator(BaseEstimator):
    """The part of an estimator that does not depend on what is predicted."""

    _at_least_one: ClassVar[tuple[str, ...]] = (
        "hidden",
        "layers",
        "max_epochs",
        "batch_size",
        "patience",
    )
    _of_network: ClassVar[tuple[str, ...]] = ("pooling", "hidden", "layers", "network")
    _built_with: dict[str, Any]

    def _check_parameters(self) -> None:
        """Raise ``ValueError`` or ``TypeError`` for parameters that ``__init__`` just stored."""
        for name in self._at_least_one:
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if not isinstance(self.learning_rate, Real) or not 0 < float(self.learning_rate) < np.inf:
            raise ValueError(f"learning_rate must be above 0, got {self.learning_rate!r}")
        fraction = self.validation_fraction
        if not isinstance(fraction, Real) or not 0 < float(fraction) < 1:
            raise ValueError(
                f"validation_fraction must be between 0 and 1, got {self.validation_fraction!r}"
            )
        if self.network is None and self.pooling not in POOLINGS:
            raise ValueError(f"pooling must be one of {', '.join(POOLINGS)}, got {self.pooling!r}")
        if self.network is not None and not callable(self.network):
            raise TypeError(
                "network must be a callable (features, outputs) -> module, "
                f"got {type(self.network).__name__}"
            )

    def _read(self, X: Any, *, reset: bool) -> Sets:
        """Read the sets; remember their number of features, or compare it."""
        if reset:
            self._check_parameters()
        sets = read_sets(X, features=None if reset else self.n_features_in_)
        check_features(self, X, sets, reset=reset)
        return sets

    def _begin(self, sets: Sets, outputs: int) -> None:
        """Learn the scales, draw a seed and the initial weights."""
        device = find_device(self.device)
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.mean_, self.scale_ = moments(sets.values, wanted=self.standardise)
        self.history_: list[Line] = []
        self.n_iter_ = 0
        with seeded(self._seed, device):
            self._build(outputs)
        self.module_.to(device)

    def _build(self, outputs: int) -> None:
        """Make the network, and remember its parameters: ``set_params`` may change them later."""
        self._built_with = {name: getattr(self, name) for name in self._of_network}
        self.module_ = self._make_module(outputs)

    def _make_module(self, outputs: int) -> nn.Module:
        features = self.n_features_in_
        if self.network is None:
            return SetNetwork(
                features, outputs, pooling=self.pooling, hidden=self.hidden, layers=self.layers
            )
        module = self.network(features, outputs)
        if not isinstance(module, nn.Module):
            raise TypeError(f"network must return a torch.nn.Module, got {type(module).__name__}")
        return module

    def _optimiser(self) -> torch.optim.Optimizer:
        parameters = [one for one in self.module_.parameters() if one.requires_grad]
        return torch.optim.Adam(parameters, lr=self.learning_rate, fused=True)

    def _learn(
        self,
        losses: Callable[[Tensor], Tensor],
        sample_weight: NDArray[np.float64],
        *,
        stratify: NDArray[Any] | None = None,
        once: bool = False,
    ) -> None:
        """Train the module.

        Args:
            losses: Numbers of some sets, (B,) long, to the loss of each, (B,).
            sample_weight: How much each set counts, (S,), above 0.
            stratify: Classes, of which the hold-out of early stopping has its share.
            once: Whether to go over the sets once more, for ``partial_fit``.
        """
        device = next(self.module_.parameters()).device
        chosen = torch.arange(len(sample_weight))
        relative = sample_weight / sample_weight.max()  # first, or their sum may overflow
        weights = torch.from_numpy(relative / relative.mean()).float()
        with seeded(self._seed + self.n_iter_, device) as generator, self._progress(once) as show:
            valid: Tensor = chosen[:0]
            if self.early_stopping and not once:
                chosen, valid = self._hold_out(chosen, stratify)
            if not once or not hasattr(self, "optimiser_"):
                self.optimiser_ = self._optimiser()
            for group in self.optimiser_.param_groups:
                group["lr"] = self.learning_rate  # a fit before has let it decay

            def mean(index: Tensor) -> Tensor:
                return (weights[index].to(device) * losses(index)).mean()

            def valid_loss() -> float:
                sums = [float(mean(part)) * len(part) for part in torch.split(valid, 256)]
                return sum(sums) / len(valid)

            history = fit_epochs(
                self.module_,
                self.optimiser_,
                lambda index: mean(chosen[index]),
                len(chosen),
                epochs=1 if once else self.max_epochs,
                batch_size=self.batch_size,
                generator=generator,
                schedule=None if once else _decay,
                clip=_CLIP,
                validate=valid_loss if len(valid) else None,
                patience=self.patience,
                report=lambda line: show(int(line["epoch"]), line["loss"]),
            )
        self.history_ += [{**line, "epoch": self.n_iter_ + line["epoch"]} for line in history]
        self.n_iter_ += len(history)

    def _hold_out(self, chosen: Tensor, stratify: NDArray[Any] | None) -> tuple[Tensor, Tensor]:
        count = round(self.validation_fraction * len(chosen))
        if not 1 <= count < len(chosen):
            raise ValueError(
                "early_stopping needs sets to hold out: validation_fraction="
                f"{self.validation_fraction} of {len(chosen)} sets leaves none"
            )
        classes = None if stratify is None else stratify[chosen.numpy()]
        if classes is not None:
            sizes = np.unique(classes, return_counts=True)[1]
            if sizes.min() < 2 or len(sizes) > min(count, len(chosen) - count):
                classes = None  # too few for a share of each
        parts = train_test_split(
            chosen.numpy(), test_size=count, stratify=classes, random_state=self._seed
        )
        return torch.from_numpy(parts[0]), torch.from_numpy(parts[1])

    @contextmanager
    def _progress(self, once: bool) -> Iterator[Show]:
        if not self.verbose or once:
            yield lambda step, loss: None
            return
        name = type(self).__name__
        with show_steps(
            name, start=0, steps=self.max_epochs, unit="epoch", seconds=_SECONDS_BETWEEN_LINES
        ) as show:
            yield show

    def _scaled(self, sets: Sets) -> Sets:
        return scale_sets(sets, self.mean_, self.scale_)

    def _batch(self, sets: Sets, index: Tensor) -> SetBatch:
        return sets.batch(index).to(next(self.module_.parameters()).device)

    def _outputs(self, sets: Sets, forward: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply ``forward`` to numbers of sets of about one size; put the rows in order again."""
        order = sets.sizes.argsort(stable=True, descending=True)
        parts, start = [], 0
        with torch.no_grad():
            while start < len(order):
                largest = max(1, int(sets.sizes[order[start]]))
                chosen = order[start : start + max(1, _ELEMENTS_AT_ONCE // largest)]
                parts.append((chosen, forward(chosen).cpu()))
                start += len(chosen)
        index = torch.cat([part for part, _ in parts])
        return torch.cat([rows for _, rows in parts])[index.argsort()]

    def _predict_vectors(self, X: Any) -> Tensor:
        check_is_fitted(self)
        sets = self._scaled(self._read(X, reset=False))
        return self._outputs(sets, lambda index: self.module_(*self._batch(sets, index)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "module_")


def check_features(estimator: Any, X: Any, sets: Sets, *, reset: bool) -> None:
    """Set ``n_features_in_`` (and the names of features that have some), or compare with it."""
    features = sets.values.shape[1]
    names = getattr(X, "names", None) if isinstance(X, Sets) else None
    if reset:
        estimator.n_features_in_ = features
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    if features != estimator.n_features_in_:
        raise ValueError(
            f"X has {features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and list(names) != list(known):
        raise ValueError(
            "The feature names should match those that were passed during fit: "
            f"{', '.join(map(str, known))}, got {', '.join(map(str, names))}"
        )


def moments(values: Tensor, *, wanted: bool = True) -> tuple[NDArray[Any], NDArray[Any]]:
    """Mean and spread of each feature, (D,); 0 and 1 if they are not wanted.

    A feature without spread has the spread 1.
    """
    features = values.shape[1]
    if not wanted or len(values) == 0:
        return np.zeros(features), np.ones(features)
    exact = values.double()
    mean, scale = exact.mean(dim=0), exact.std(dim=0, correction=0)
    if not bool(scale.isfinite().all()):
        raise ValueError(
            "numbers must be small enough for their variance to be finite, about 1e150, got "
            f"{float(values.abs().max()):g}"
        )
    # The spread of a constant is rounding, which grows with the constant.
    return mean.numpy(), torch.where(scale > 1e-12 * mean.abs(), scale, 1).numpy()


def scale_sets(sets: Sets, mean: NDArray[Any], scale: NDArray[Any]) -> Sets:
    """Subtract the mean and divide by the spread of each feature, in float64."""
    values = (sets.values.double() - torch.from_numpy(mean)) / torch.from_numpy(scale)
    scaled = values.float()
    if not bool(scaled.isfinite().all()):
        raise ValueError(
            f"elements must fit float32 when they are scaled, got {float(values.abs().max()):g}; "
            "standardise=True scales them, if those in training are as large"
        )
    return Sets(scaled, sets.sizes)


def _decay(share: float) -> float:
    """The learning rate decays linearly to 0."""
    return 1 - share
