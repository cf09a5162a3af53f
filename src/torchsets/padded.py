"""Sets of different sizes in one tensor: pad them, take them apart again, name the parts."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from torchsets._autograd import name_for_export
from torchsets._checks import check_padded_sets

Set = Tensor | np.ndarray[Any, Any] | Sequence[Sequence[float]]
"""One set as users have it: a tensor, array or nested list of shape (n, D)."""

SomeSet = TypeVar("SomeSet", bound=Set)


class SetBatch(NamedTuple):
    """A batch of sets of different sizes, padded to one length.

    It is a tuple, so ``model(*batch)`` works and torch sees a plain pytree.

    Attributes:
        elements: Padded sets, (B, N, D), floating point. Padding may hold anything.
        mask: True where an element is real, (B, N), bool.

    Example:
        >>> batch = SetBatch.from_list([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]])
        >>> batch
        SetBatch(2 sets of 1 to 2 elements, 2 features, float32, cpu)
        >>> batch.sizes
        tensor([1, 2])
    """

    elements: Tensor
    mask: Tensor

    @classmethod
    def from_list(
        cls, sets: Sequence[Set], *, size: int | None = None, dtype: torch.dtype | None = None
    ) -> "SetBatch":
        """Pad a list of sets; see :func:`pad`. ``dtype`` converts the elements."""
        tensors = _as_tensors(sets, dtype)
        sizes = torch.tensor([len(tensor) for tensor in tensors], device=tensors[0].device)
        elements = pad_sequence(tensors, batch_first=True)
        mask = lengths_to_mask(sizes, size=elements.shape[1])
        if size is None or size == elements.shape[1]:
            return cls(elements, mask)
        if size < elements.shape[1]:
            largest = max(range(len(tensors)), key=lambda index: len(tensors[index]))
            raise ValueError(
                f"size must be at least the largest set, {elements.shape[1]} elements in set "
                f"{largest}, got {size}"
            )
        extra = size - elements.shape[1]
        elements = torch.nn.functional.pad(elements, (0, 0, 0, extra))
        return cls(elements, torch.nn.functional.pad(mask, (0, extra)))

    @classmethod
    def from_flat(cls, values: Tensor, sizes: Tensor) -> "SetBatch":
        """Pad sets that lie one after the other in ``values`` (total, D); ``sizes`` is (B,)."""
        if values.ndim != 2 or not values.is_floating_point():
            raise ValueError(
                "values must be floating point with shape (total, D), "
                f"got {values.dtype} {tuple(values.shape)}"
            )
        if sizes.ndim != 1 or sizes.is_floating_point() or sizes.dtype == torch.bool:
            raise ValueError(
                f"sizes must be integer with shape (B,), got {sizes.dtype} {tuple(sizes.shape)}"
            )
        if int(sizes.sum()) != len(values) or bool((sizes < 0).any()):
            raise ValueError(
                f"sizes must be non-negative and add up to the {len(values)} rows of values, "
                f"got {sizes.tolist()}"
            )
        mask = lengths_to_mask(sizes.to(values.device))
        elements = values.new_zeros(*mask.shape, values.shape[1])
        return cls(elements.masked_scatter(mask.unsqueeze(-1), values), mask)

    @property
    def sizes(self) -> Tensor:
        """The number of real elements of each set, (B,)."""
        return self.mask.sum(dim=1)

    def to_list(self) -> list[Tensor]:
        """The sets without padding, as :func:`unpad` gives them."""
        return unpad(self.elements, self.mask)

    def to_flat(self) -> tuple[Tensor, Tensor]:
        """All real elements one after the other (total, D), and the sizes (B,)."""
        return self.elements[self.mask], self.sizes

    def to(self, device: torch.device | str) -> "SetBatch":
        """The same sets on another device."""
        return SetBatch(self.elements.to(device), self.mask.to(device))

    def select(self, index: int | slice | Tensor) -> "SetBatch":
        """Some of the sets, as a batch: an int, a slice, or a long or bool tensor picks them."""
        if isinstance(index, int):
            if not -len(self.mask) <= index < len(self.mask):
                raise IndexError(f"index must be below the {len(self.mask)} sets, got {index}")
            index = slice(index, index + 1 if index != -1 else None)
        return SetBatch(self.elements[index], self.mask[index])

    def __repr__(self) -> str:
        sizes = self.sizes.tolist()
        span = f"{min(sizes)} to {max(sizes)}" if sizes else "no"
        return (
            f"SetBatch({len(sizes)} sets of {span} elements, {self.elements.shape[-1]} features, "
            f"{str(self.elements.dtype).removeprefix('torch.')}, {self.elements.device})"
        )


class Trajectory(NamedTuple):
    """How a predicted set came about, one entry per step.

    Attributes:
        elements: The set before the first and after each step, (T+1, B, N, D).
        presence: The same for the presences, (T+1, B, N).
        loss: What each step tried to reduce, per set, (T, B).
    """

    elements: Tensor
    presence: Tensor
    loss: Tensor


class SetPrediction(NamedTuple):
    """A batch of predicted sets: every slot has an element and a degree of existence.

    Attributes:
        elements: One element per slot, (B, N, D).
        presence: How much each slot exists, (B, N), from 0 to 1. A feature, not a mask.
        trajectory: The way there, for decoders that take steps.
    """

    elements: Tensor
    presence: Tensor
    trajectory: Trajectory | None = None

    def to_list(self, threshold: float = 0.5) -> list[Tensor]:
        """The elements of each set whose presence is at least ``threshold``."""
        return unpad(self.elements, self.presence >= threshold)


def pad(sets: Sequence[Set], *, size: int | None = None) -> SetBatch:
    """Put sets of different sizes into one tensor, zeros behind the shorter ones.

    Args:
        sets: Tensors (n_i, D), which keep their dtype, or arrays and nested lists, which become
            the default dtype. An empty set is (0, D), or ``[]`` beside others.
        size: Number of slots N. None: the size of the largest set.

    Returns:
        The pair (elements, mask) as a :class:`SetBatch`.

    Raises:
        ValueError: If a set has another rank, dtype or number of features, or is too large.

    Example:
        >>> elements, mask = pad([[[1.0], [2.0]], [[3.0]]])
        >>> elements.squeeze(-1)
        tensor([[1., 2.],
                [3., 0.]])
        >>> mask
        tensor([[ True,  True],
                [ True, False]])
    """
    return SetBatch.from_list(sets, size=size)


def unpad(elements: Tensor, mask: Tensor) -> list[Tensor]:
    """Take padded sets apart: one tensor (n_i, D) per set, in the order of the slots.

    Example:
        >>> unpad(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[False, True]]))
        [tensor([[2.]])]
    """
    mask = check_padded_sets(elements, mask)
    return list(torch.split(elements[mask], mask.sum(dim=1).tolist()))


def collate(samples: Sequence[Any]) -> SetBatch | tuple[SetBatch, Any]:
    """Make a batch of a list of sets, or of (set, label) pairs; for ``DataLoader(collate_fn=...)``.

    Example:
        >>> batch, labels = collate([([[1.0], [2.0]], 0), ([[3.0]], 1)])
        >>> batch.sizes, labels
        (tensor([2, 1]), tensor([0, 1]))
    """
    pairs = [isinstance(sample, tuple) for sample in samples]
    if not any(pairs):
        return pad(samples)
    if not all(pairs) or any(len(sample) != 2 for sample in samples):
        raise ValueError(
            "samples must be all sets or all pairs (set, label), got "
            f"{sum(pairs)} tuples among {len(samples)} samples"
        )
    labels = torch.utils.data.default_collate([label for _, label in samples])
    return pad([elements for elements, _ in samples]), labels


def lengths_to_mask(lengths: Tensor, *, size: int | None = None) -> Tensor:
    """Mark the first ``lengths[b]`` of N slots: (B,) integer -> (B, N) bool.

    ``size`` is N; None takes the largest length, which reads the values.

    Example:
        >>> lengths_to_mask(torch.tensor([1, 2]))
        tensor([[ True, False],
                [ True,  True]])
    """
    if size is None:
        size = int(lengths.max()) if len(lengths) else 0
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


def fill_padding(elements: Tensor, mask: Tensor | None, value: float = 0.0) -> Tensor:
    """Replace whatever lies in the padding, nan included, by one value; None: no padding."""
    if mask is None:
        return elements
    return elements.masked_fill(~mask.unsqueeze(-1), value)


def _as_tensors(sets: Sequence[Set], dtype: torch.dtype | None) -> list[Tensor]:
    if len(sets) == 0:
        raise ValueError("sets must hold at least one set, got none")
    tensors = [
        one if isinstance(one, Tensor) else _from_numbers(one, index)
        for index, one in enumerate(sets)
    ]
    model = next((tensor for tensor in tensors if tensor.ndim == 2), None)
    if model is not None:  # a bare [] beside other sets is an empty set
        tensors = [model[:0] if tensor.shape == (0,) else tensor for tensor in tensors]
    for index, tensor in enumerate(tensors):
        if tensor.ndim != 2:
            raise ValueError(f"set {index} must have shape (n, D), got {tuple(tensor.shape)}")
        if dtype is None and not tensor.is_floating_point():
            raise ValueError(f"set {index} must be floating point, got {tensor.dtype}")
    if dtype is not None:
        tensors = [tensor.to(dtype) for tensor in tensors]
    for what, values in (
        ("number of features", [tensor.shape[1] for tensor in tensors]),
        ("dtype", [tensor.dtype for tensor in tensors]),
        ("device", [tensor.device for tensor in tensors]),
    ):
        other = next((i for i, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise ValueError(
                f"sets must all have the same {what}, got {values[0]} in set 0 "
                f"and {values[other]} in set {other}"
            )
    return tensors


def _from_numbers(numbers: Any, index: int) -> Tensor:
    try:
        return torch.as_tensor(np.asarray(numbers)).to(torch.get_default_dtype())
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"set {index} must be a tensor, an array or rows of numbers of one length, "
            f"got {type(numbers).__name__}"
        ) from error


name_for_export(SetBatch, Trajectory, SetPrediction)
