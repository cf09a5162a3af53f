"""What an ordering gives back."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import name_for_export
from torchsets.padded import fill_padding, lengths_to_mask


class OrderedSets(NamedTuple):
    """Sets in a learned order.

    Attributes:
        elements: P^T X, the element at each position, (B, N, D); zeros behind the last one.
        permutation: P, the weight of element i at position k, (B, N, N).
        mask: True at the positions that are filled, (B, N), bool: the first n.
    """

    elements: Tensor
    permutation: Tensor
    mask: Tensor


def order_elements(elements: Tensor, permutation: Tensor, mask: Tensor | None) -> OrderedSets:
    """Move elements to the positions that soft permutations give them."""
    if mask is None:
        positions = torch.ones(elements.shape[:2], dtype=torch.bool, device=elements.device)
    else:
        positions = lengths_to_mask(mask.sum(dim=1), size=mask.shape[1])
    # As (X^T P)^T, so that the gradient at P is laid out like P and not like its transpose.
    rows = fill_padding(elements, mask).transpose(1, 2)
    ordered = torch.bmm(rows, permutation).transpose(1, 2)
    return OrderedSets(ordered, permutation, positions)


name_for_export(OrderedSets)
