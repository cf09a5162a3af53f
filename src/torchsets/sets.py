"""Many sets of different sizes without padding: all elements one after the other."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from torchsets._inputs import (
    Array,
    Set,
    flatten_sets,
    run_places,
    to_index,
    to_offsets,
    to_sizes,
    to_values,
    writable_map,
)
from torchsets._ragged import flatten_arrow, flatten_awkward
from torchsets._tables import group_table
from torchsets.padded import SetBatch, describe_sets, lengths_to_mask, slots_for

Index = int | slice | Tensor | Array | Sequence[int] | Sequence[bool]


class Sets:
    """A sequence of sets, stored flat, so that a batch is one gather and no loop over sets.

    ``len(sets)`` is the number of sets, ``sets[3]`` is a tensor (n, D), and a slice, an index array
    or a bool array gives ``Sets`` again. So whatever splits lists can split it, and a
    ``DataLoader`` can read it.

    Memory is shared where torch can: of a tensor, of a float32 array, and of a float32
    ``np.memmap``, of which nothing is read before it is used.

    Args:
        values: The elements of all sets, (total, D), floating point.
        sizes: The number of elements of each set, (S,), integer.
        labels: Something known of each set, such as its class, (S,). It follows every index.
        keys: A name or number of each set, (S,). It follows every index, too.
        names: The name of each feature, (D,).

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
        *,
        labels: Tensor | Array | Sequence[Any] | None = None,
        keys: Tensor | Array | Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.values = to_values(writable_map(values))
        self.sizes = to_sizes(sizes, self.values)
        self._starts = self.sizes.cumsum(0) - self.sizes
        self.labels = _one_for_each(labels, len(self.sizes), "labels")
        self.keys = _one_for_each(keys, len(self.sizes), "keys")
        self.names = None if names is None else tuple(map(str, names))
        if self.names is not None and len(self.names) != self.values.shape[1]:
            raise ValueError(
                f"names must name each of the {self.values.shape[1]} features, got {self.names}"
            )

    @classmethod
    def from_list(cls, sets: Iterable[Set], *, dtype: torch.dtype | None = None) -> "Sets":
        """Join a list of sets; what a set may be is said at :func:`torchsets.pad`."""
        values, sizes = flatten_sets(sets, dtype)
        return cls(values, sizes)

    @classmethod
    def from_offsets(
        cls,
        values: Tensor | Array | Sequence[Sequence[float]],
        offsets: Tensor | Array | Sequence[int],
    ) -> "Sets":
        """Sets of which set s is ``values[offsets[s] : offsets[s + 1]]``; offsets is (S + 1,).

        Example:
            >>> Sets.from_offsets([[1.0], [2.0], [3.0]], [0, 2, 2, 3]).sizes
            tensor([2, 0, 1])
        """
        values = to_values(writable_map(values))
        return cls(values, to_offsets(offsets, values).diff())

    @classmethod
    def from_table(
        cls,
        frame: Any,
        *,
        by: str,
        features: Sequence[str] | None = None,
        label: str | None = None,
        keys: Iterable[Any] | None = None,
    ) -> "Sets":
        """Make a set of the rows that share a value of column ``by``.

        Sets are in the order in which their keys appear first, elements in that of their rows.
        Missing numbers become nan.

        Args:
            frame: A table of pandas, polars or pyarrow, or a dict of columns.
            by: The column that tells which set a row belongs to.
            features: Columns that become the features; None: all but ``by`` and ``label``.
            label: A column that is constant within each set; it becomes :attr:`labels`.
            keys: All values that ``by`` may have, in the order of the sets. One that no row has
                gives an empty set, which a table cannot tell from one that never existed.

        Raises:
            ValueError: If a column is missing, a feature holds no numbers, a label varies within
                a set, or ``keys`` leaves out a set.

        Example:
            >>> frame = {"event": [7, 7, 3], "x": [0.1, 0.2, 0.3], "kind": ["a", "a", "b"]}
            >>> sets = Sets.from_table(frame, by="event", label="kind")
            >>> sets.sizes.tolist(), sets.keys.tolist(), sets.labels.tolist(), sets.names
            ([2, 1], [7, 3], ['a', 'b'], ('x',))
        """
        return cls(**group_table(frame, by, features, label, keys)._asdict())

    @classmethod
    def from_awkward(cls, array: Any, *, fields: Sequence[str] | None = None) -> "Sets":
        """Sets from an awkward array of records or vectors, ``var * {x: float, y: float}``.

        Fields become features, in one copy; ``var * D * float32`` shares its memory, so do not
        write into ``values``.

        Args:
            array: One list of elements for each set.
            fields: Which fields of the records; None: all.
        """
        return cls(**flatten_awkward(array, fields)._asdict())

    @classmethod
    def from_arrow(cls, array: Any) -> "Sets":
        """Sets from a list array of Arrow: a column of pyarrow, polars or Hugging Face datasets.

        ``list<fixed_size_list<float>[D]>`` and ``list<list<float>>`` share their memory, so do not
        write into ``values``; the fields of ``list<struct<...>>`` become features, in one copy.
        A null is an error: it is not an empty set.
        """
        return cls(**flatten_arrow(array)._asdict())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Sets":
        """Read what :meth:`save` wrote. The file is memory-mapped: elements are read when used."""
        if not Path(path).is_file():
            raise FileNotFoundError(f"there is no file {path}")
        try:
            with safe_open(path, framework="pt") as file:
                return cls(**{name: _unpack(file, name) for name in _PARTS})
        except (SafetensorError, ValueError) as error:
            raise ValueError(
                f"{path} was not written by Sets.save, or is damaged: {error}"
            ) from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a safetensors file (no pickle); labels and keys must be numbers or text."""
        path = Path(path)
        # A new file takes the place of the old one, which may be mapped by these very sets.
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        tensors = [_pack(name, getattr(self, name)) for name in _PARTS]
        try:
            save_file({name: tensor for one in tensors for name, tensor in one}, unfinished)
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
        values = self.values[run_places(self._starts[index], sizes)]
        place = index.cpu().numpy()
        return Sets(
            values,
            sizes,
            labels=None if self.labels is None else self.labels[place],
            keys=None if self.keys is None else self.keys[place],
            names=self.names,
        )

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
        """Return a short fingerprint of the elements, their dtype and the sizes (no labels)."""
        digest = hashlib.sha256(f"{self.values.dtype} {tuple(self.values.shape)}".encode())
        for part in (self.values, self.sizes):
            if part.numel():  # an empty one may have strides that view refuses
                digest.update(part.detach().cpu().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Sets({describe_sets(self.sizes, self.values)})"


_PARTS = ("values", "sizes", "labels", "keys", "names")


def _one_for_each(what: Any, count: int, name: str) -> Array | None:
    if what is None:
        return None
    array = what.numpy(force=True) if isinstance(what, Tensor) else np.asarray(what)
    if array.dtype.kind == "U" and not all(isinstance(one, str) for one in what):
        array = np.array(what, dtype=object)  # numpy makes text of numbers beside text
    if array.shape[:1] != (count,):
        raise ValueError(
            f"{name} must have one entry for each of the {count} sets, got shape {array.shape}"
        )
    return array


def _pack(name: str, part: Any) -> list[tuple[str, Tensor]]:
    """One part of sets as a tensor for a file: text as the bytes of JSON."""
    if part is None:
        return []
    try:
        if isinstance(part, np.ndarray) and part.dtype.kind in "biufmM":  # torch refuses dates
            native = part.dtype.newbyteorder("=")
            part = torch.from_numpy(np.array(part, dtype=native, order="C"))
        if isinstance(part, Tensor):
            return [(name, part.detach().contiguous())]
        text = json.dumps(part.tolist() if isinstance(part, np.ndarray) else part)
    except TypeError as error:
        raise ValueError(f"{name} must be numbers or text to be saved, got {error}") from error
    return [(f"{name}.json", torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8))]


def _unpack(file: Any, name: str) -> Any:
    present = file.keys()
    if f"{name}.json" in present:
        return json.loads(bytes(file.get_tensor(f"{name}.json").tolist()))
    required = name in ("values", "sizes")
    return file.get_tensor(name) if required or name in present else None
