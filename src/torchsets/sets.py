"""Many sets of different sizes without padding: all elements one after the other."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from torchsets._inputs import Array, Set, flatten_sets, to_index, to_sizes, to_values
from torchsets.padded import SetBatch, describe_sets, lengths_to_mask, slots_for

Index = int | slice | Tensor | Array | Sequence[int] | Sequence[bool]


class Sets:
    """A sequence of sets, stored flat, so that a batch is one gather and no loop over sets.

    ``len(sets)`` is the number of sets, ``sets[3]`` is a tensor (n, D), and a slice, an index array
    or a bool array gives ``Sets`` again. So whatever splits lists can split it, and a
    ``DataLoader`` can read it.

    Args:
        values: The elements of all sets, (total, D), floating point.
        sizes: The number of elements of each set, (S,), integer.

    Raises:
        ValueError: If a shape or dtype differs from the above, or the sizes do not add up.

    Example:
        >>> sets = Sets.from_list([[[1.0], [2.0]], [[3.0]], [[4.0], [5.0]]])
        >>> sets
        Sets(3 sets of 1 to 2 elements, 1 feature, float32, cpu)
        >>> sets[1]
        tensor([[3.]])
        >>> sets[[2, 1]].to_list()
        [tensor([[4.],
                [5.]]), tensor([[3.]])]
        >>> sets.batch([0, 1])
        SetBatch(2 sets of 1 to 2 elements, 1 feature, float32, cpu)
    """

    def __init__(
        self,
        values: Tensor | Array | Sequence[Sequence[float]],
        sizes: Tensor | Array | Sequence[int],
    ) -> None:
        self.values = to_values(values)
        self.sizes = to_sizes(sizes, self.values)
        self._starts = self.sizes.cumsum(0) - self.sizes

    @classmethod
    def from_list(cls, sets: Iterable[Set], *, dtype: torch.dtype | None = None) -> "Sets":
        """Join a list of sets; what a set may be is said at :func:`torchsets.pad`."""
        values, sizes = flatten_sets(sets, dtype)
        return cls(values, sizes)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Sets":
        """Read what :meth:`save` wrote. The file is memory-mapped: elements are read when used."""
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no file {path}")
        try:
            with safe_open(path, framework="pt") as file:
                return cls(file.get_tensor("values"), file.get_tensor("sizes"))
        except (SafetensorError, ValueError) as error:
            raise ValueError(
                f"{path} was not written by Sets.save, or is damaged: {error}"
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sets to a safetensors file (no pickle); an existing file is replaced."""
        path = Path(path)
        # A new file takes the place of the old one, which may be mapped by these very sets.
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        tensors = {"values": self.values, "sizes": self.sizes}
        try:
            save_file(
                {name: one.detach().contiguous() for name, one in tensors.items()}, unfinished
            )
            unfinished.replace(path)
        except SafetensorError as error:
            raise OSError(f"cannot write {path}: {error}") from error
        finally:
            unfinished.unlink(missing_ok=True)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...

    @overload
    def __getitem__(self, index: slice | Tensor | Array | Sequence[int]) -> "Sets": ...

    def __getitem__(self, index: Index) -> "Tensor | Sets":
        index = to_index(index, len(self))
        if isinstance(index, int):
            start = int(self._starts[index])
            return self.values[start : start + int(self.sizes[index])]
        if isinstance(index, slice):
            index = torch.arange(len(self))[index]
        index = index.to(self.sizes.device)
        sizes = self.sizes[index]
        # The first element of each set moves from its old place to the sum of the sizes before.
        shift = (self._starts[index] - (sizes.cumsum(0) - sizes)).repeat_interleave(sizes)
        return Sets(self.values[torch.arange(len(shift), device=shift.device) + shift], sizes)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.to_list())

    def batch(self, index: Index, *, size: int | None = None) -> SetBatch:
        """Pad some of the sets to ``size`` slots; None: to the largest of them.

        Args:
            index: Which sets: an int, a slice, integers (B,), or one bool for each set.
            size: Number of slots N.

        Raises:
            ValueError: If a set is larger than ``size``.
        """
        chosen = to_index(index, len(self))
        if isinstance(chosen, int):
            chosen = slice(chosen, chosen + 1)
        if isinstance(chosen, Tensor):
            chosen = chosen.to(self.sizes.device)
        sizes = self.sizes[chosen]
        mask = lengths_to_mask(sizes, size=slots_for(sizes, size))
        if len(self.values) == 0:
            return SetBatch(self.values.new_zeros(*mask.shape, self.values.shape[1]), mask)
        places = self._starts[chosen].unsqueeze(1) + torch.arange(mask.shape[1], device=mask.device)
        # Where there is padding any row will do: it is set to 0 below.
        elements = self.values[torch.where(mask, places, 0)]
        return SetBatch(elements.masked_fill_(~mask.unsqueeze(-1), 0), mask)

    def to_list(self) -> list[Tensor]:
        """One tensor (n, D) for each set, all of them views of ``values``."""
        return list(torch.split(self.values, self.sizes.tolist()))

    def digest(self) -> str:
        """Return a short fingerprint of the elements, their dtype and the sizes."""
        digest = hashlib.sha256(f"{self.values.dtype} {tuple(self.values.shape)}".encode())
        for part in (self.values, self.sizes):
            digest.update(part.detach().cpu().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Sets({describe_sets(self.sizes, self.values)})"
