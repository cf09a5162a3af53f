"""What an ordering gives back."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import name_for_export
from torchsets._checks import check_floating
from torchsets.padded import fill_padding, lengths_to_mask


class OrderedSets(NamedTuple):
    """Sets in a learned order.

    Attributes:
        elements: P^T X, the element at each position, (B, N, D), or values in its place, (B, N,
            ...); zeros behind the last one.
        permutation: P, the weight of element i at position k, (B, N, N).
        mask: True at the positions that are filled, (B, N), bool: the first n.
    """

    elements: Tensor
    permutation: Tensor
    mask: Tensor


def order_elements(elements: Tensor, permutation: Tensor, mask: Tensor | None) -> OrderedSets:
    """Move elements, (B, N, ...), to the positions that soft permutations give them."""
    if mask is None:
        positions = torch.ones(elements.shape[:2], dtype=torch.bool, device=elements.device)
    else:
        positions = lengths_to_mask(mask.sum(dim=1), size=mask.shape[1])
    flat = fill_padding(elements.flatten(2), mask)
    # As (X^T P)^T, so that the gradient at P is laid out like P and not like its transpose.
    ordered = torch.bmm(flat.transpose(1, 2), permutation).transpose(1, 2)
    return OrderedSets(ordered.reshape(elements.shape), permutation, positions)


def check_values(values: Tensor, elements: Tensor) -> None:
    """Raise ``ValueError`` unless there is one value, (B, N, ...), for each element."""
    check_floating(values, name="values")
    if values.ndim < 3 or values.shape[:2] != elements.shape[:2]:
        batch, size = elements.shape[:2]
        raise ValueError(
            f"values must have shape ({batch}, {size}, ...) to match elements, "
            f"got {tuple(values.shape)}"
        )


name_for_export(OrderedSets)
