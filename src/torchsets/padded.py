"""Sets of different sizes in one tensor: pad them, take them apart again, name the parts."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import is_traced, name_for_export
from torchsets._checks import check_padded_sets
from torchsets._inputs import Array, Set, flatten_sets, to_index, to_sizes, to_values

Device = torch.device | str | int


class SetBatch(NamedTuple):
    """A batch of sets of different sizes, padded to one length.

    It is a tuple, so ``model(*batch)`` works and torch sees a plain pytree.

    Attributes:
        elements: Padded sets, (B, N, D), floating point. Padding may hold anything.
        mask: True where an element is real, (B, N), bool. The ``key_padding_mask`` of
            ``nn.MultiheadAttention`` is the opposite: see :attr:`padding_mask`.

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
        cls, sets: Iterable[Set], *, size: int | None = None, dtype: torch.dtype | None = None
    ) -> "SetBatch":
        """Pad a list of sets; see :func:`pad`. ``dtype`` converts the elements."""
        values, sizes = flatten_sets(sets, dtype)
        return _pad_flat(values, torch.tensor(sizes, device=values.device), size)

    @classmethod
    def from_flat(
        cls,
        values: Tensor | Array | Sequence[Sequence[float]],
        sizes: Tensor | Array | Sequence[int],
    ) -> "SetBatch":
        """Pad sets that lie one after the other in ``values`` (total, D); ``sizes`` is (B,)."""
        values = to_values(values)
        return _pad_flat(values, to_sizes(sizes, values))

    @property
    def sizes(self) -> Tensor:
        """The number of real elements of each set, (B,)."""
        return self.mask.sum(dim=1)

    @property
    def padding_mask(self) -> Tensor:
        """True at padding, (B, N): the ``key_padding_mask`` of ``nn.MultiheadAttention``."""
        return ~self.mask

    def to_list(self) -> list[Tensor]:
        """The sets without padding, as :func:`unpad` gives them."""
        return unpad(self.elements, self.mask)

    def to_flat(self) -> tuple[Tensor, Tensor]:
        """All real elements one after the other (total, D), and the sizes (B,)."""
        return self.elements[self.mask], self.sizes

    def to(
        self,
        device: Device | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        *,
        non_blocking: bool = False,
    ) -> "SetBatch":
        """The same sets on another device, with elements of another dtype, or both.

        The mask stays bool. As with tensors, ``batch.to(torch.float64)`` works.
        """
        device, dtype = device_and_dtype(device, dtype)
        return SetBatch(
            self.elements.to(device, dtype, non_blocking=non_blocking),
            self.mask.to(device, non_blocking=non_blocking),
        )

    def pin_memory(self) -> "SetBatch":
        """The same sets in page-locked memory, from which copies to a GPU need not block."""
        return SetBatch(self.elements.pin_memory(), self.mask.pin_memory())

    def select(self, index: int | slice | Tensor | Array | Sequence[int]) -> "SetBatch":
        """Some of the sets, as a batch: an int, a slice, or a long or bool tensor picks them."""
        index = to_index(index, len(self.mask))
        if isinstance(index, int):
            index = slice(index, index + 1)
        return SetBatch(self.elements[index], self.mask[index])

    def __repr__(self) -> str:
        return f"SetBatch({describe_sets(self.sizes, self.elements)})"


class Trajectory(NamedTuple):
    """How a predicted set came about, one entry per step.

    Attributes:
        elements: The set before the first and after each step, (T+1, B, N, D).
        presence: The same for the presences, (T+1, B, N).
        loss: What each step tried to reduce, per set, (T, B); of a decoder that does not descend,
            how far each step moved the slots, as a mean square.
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

    def to(
        self,
        device: Device | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        *,
        non_blocking: bool = False,
    ) -> "SetPrediction":
        """The same prediction, its trajectory included, on another device or in another dtype."""
        device, dtype = device_and_dtype(device, dtype)
        return self._map(lambda tensor: tensor.to(device, dtype, non_blocking=non_blocking))

    def pin_memory(self) -> "SetPrediction":
        """The same prediction in page-locked memory."""
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, function: Callable[[Tensor], Tensor]) -> "SetPrediction":
        way = self.trajectory
        return SetPrediction(
            function(self.elements),
            function(self.presence),
            None if way is None else Trajectory(*(function(tensor) for tensor in way)),
        )

    def __repr__(self) -> str:
        *_, sets, slots, features = self.elements.shape
        steps = "" if self.trajectory is None else f"{plural(len(self.trajectory.loss), 'step')}, "
        return (
            f"SetPrediction({plural(sets, 'set')} of {plural(slots, 'slot')}, "
            f"{plural(features, 'feature')}, {steps}{place(self.elements)})"
        )


def pad(sets: Iterable[Set], *, size: int | None = None) -> SetBatch:
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


def check_lengths(lengths: Tensor, size: int, *, name: str = "lengths") -> None:
    """Raise ``ValueError`` unless all are from 0 to ``size``.

    Only on a CPU and outside of programs: reading values makes a GPU wait.
    """
    if lengths.device.type != "cpu" or is_traced() or not len(lengths):
        return
    least, most = (int(x) for x in lengths.aminmax())
    if least < 0 or most > size:
        got = least if least < 0 else most
        raise ValueError(f"{name} must be from 0 to {size}, got {got}")


def fill_padding(elements: Tensor, mask: Tensor | None, value: float = 0.0) -> Tensor:
    """Replace whatever lies in the padding, nan included, by one value; None: no padding."""
    if mask is None:
        return elements
    return elements.masked_fill(~mask.unsqueeze(-1), value)


def slots_for(sizes: Tensor, size: int | None) -> int:
    """The number of slots for sets of these sizes, (B,); ``size`` if they fit."""
    largest = int(sizes.max()) if len(sizes) else 0
    if size is None or size >= largest:
        return largest if size is None else size
    raise ValueError(
        f"size must be at least the largest set, {largest} elements in set {int(sizes.argmax())}, "
        f"got {size}"
    )


def describe_sets(sizes: Tensor, elements: Tensor) -> str:
    """What a ``repr`` says about sets: how many, how large, of what."""
    features = plural(elements.shape[-1], "feature")
    return f"{plural(len(sizes), 'set')} of {span(sizes, 'element')}, {features}, {place(elements)}"


def span(sizes: Tensor, word: str) -> str:
    """How large sets are, such as ``0 to 9 elements``."""
    try:
        known = sizes.tolist()
    except RuntimeError:  # a tensor without values: on the meta device, or traced
        return "unknown size"
    smallest, largest = (min(known), max(known)) if known else (0, 0)
    text = plural(largest, word) if known else f"no {word}s"
    return text if smallest == largest else f"{smallest} to {text}"


def _pad_flat(values: Tensor, sizes: Tensor, size: int | None = None) -> SetBatch:
    mask = lengths_to_mask(sizes, size=slots_for(sizes, size))
    rows = values.new_zeros(mask.numel(), values.shape[1])
    rows.index_copy_(0, mask.flatten().nonzero().squeeze(1), values)
    return SetBatch(rows.view(*mask.shape, values.shape[1]), mask)


def device_and_dtype(
    device: Device | torch.dtype | None, dtype: torch.dtype | None
) -> tuple[Device | None, torch.dtype | None]:
    """Tell the two arguments of a ``to`` apart, where the first may be the dtype."""
    if isinstance(device, torch.dtype):
        if dtype is not None:
            raise TypeError(f"to takes a device and a dtype, got the dtypes {device} and {dtype}")
        device, dtype = None, device
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"dtype must be floating point, got {dtype}")
    return device, dtype


def plural(count: int, word: str) -> str:
    """A number and its noun: ``1 set``, ``2 sets``."""
    return f"{count} {word}{'s' * (count != 1)}"


def place(tensor: Tensor) -> str:
    """The dtype and device of a tensor, as a ``repr`` says them."""
    return f"{str(tensor.dtype).removeprefix('torch.')}, {tensor.device}"


name_for_export(SetBatch, Trajectory, SetPrediction)
