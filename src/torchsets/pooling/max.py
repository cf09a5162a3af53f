"""Max and min pooling: the extreme of each feature over a set."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_padded_sets


def max_pool(elements: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take the largest value of each feature over the real elements of each set.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        One vector per set, (B, D). An empty set gives zeros. Where several elements share the
        largest value, they share its gradient.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> max_pool(torch.tensor([[[1.0], [3.0], [8.0]]]), torch.tensor([[True, True, False]]))
        tensor([[3.]])
    """
    mask = check_padded_sets(elements, mask)
    if elements.shape[1] == 0:
        return elements.sum(dim=1)  # zeros; amax has no result over an axis of length 0
    extreme = elements.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(dim=1)
    return torch.where(mask.any(dim=1, keepdim=True), extreme, 0)


def min_pool(elements: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take the smallest value of each feature; otherwise as :func:`max_pool`.

    Example:
        >>> min_pool(torch.tensor([[[1.0], [3.0]]]))
        tensor([[1.]])
    """
    return -max_pool(-elements, mask)


class MaxPool(nn.Module):
    """:func:`max_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return max_pool(elements, mask)


class MinPool(nn.Module):
    """:func:`min_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return min_pool(elements, mask)
