"""Batches of nested tensors: move them to a device, and split them over processes."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

Batch = TypeVar("Batch")


class Part(NamedTuple):
    """What one process computes of a joint batch, and the share of the sets that it has."""

    batch: Any
    share: float


def map_tensors(batch: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to the tensors of a batch of nested tuples, lists and dicts."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, function) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(value, function) for value in batch))
    if isinstance(batch, (tuple, list)):
        return type(batch)(map_tensors(value, function) for value in batch)
    return batch


def move(batch: Batch, device: torch.device) -> Batch:
    """Return the batch with its tensors on a device.

    Example:
        >>> move((torch.zeros(1), "words"), torch.device("cpu"))
        (tensor([0.]), 'words')
    """
    moved: Batch = map_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))
    return moved


def split_batch(batch: Any, index: int, parts: int) -> Part:
    """Return one of the parts of a batch: neighbouring sets, as equal in number as possible.

    A part without sets has the first set as a stand-in and the share 0, so that every process
    computes a loss of the same form.

    Args:
        batch: Tensors with the sets on their first axis, in tuples (SetBatch too) and dicts.
            Anything that is no tensor, and any tensor without axes, goes to every part.
        index: Which part.
        parts: How many there are.

    Raises:
        ValueError: If the tensors do not have one number of sets, or there is none.
        TypeError: For a list: are its entries the sets, or tensors that hold all sets?

    Example:
        >>> split_batch((torch.arange(5), "words"), 1, 2)
        Part(batch=(tensor([2, 3, 4]), 'words'), share=0.6)
    """
    counts = {len(tensor) for tensor in _tensors(batch) if tensor.ndim > 0}
    if len(counts) != 1:
        raise ValueError(
            "batch must hold tensors with the sets on their first axis to be split over "
            f"processes, got first axes of {sorted(counts)}"
        )
    count = counts.pop()
    start, stop = (count * bound // parts for bound in (index, index + 1))
    share = (stop - start) / count if count else 1 / parts
    chosen = slice(start, stop) if stop > start else slice(0, 1)
    return Part(map_tensors(batch, lambda tensor: tensor[chosen] if tensor.ndim else tensor), share)


def _tensors(batch: Any) -> Iterator[Tensor]:
    if isinstance(batch, list):
        raise TypeError("batch must be of tensors, tuples and dicts to be split, got a list")
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, (Mapping, tuple)):
        for value in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _tensors(value)
