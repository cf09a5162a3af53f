"""Max and min pooling: the extreme of each feature over a set."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_padded_sets
from torchsets.flat import check_flat, flat_maxima


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


def max_pool_flat(values: Tensor, sizes: Tensor) -> Tensor:
    """:func:`max_pool` of flat sets: values (total, D), sizes (B,) -> (B, D).

    Example:
        >>> max_pool_flat(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 1]))
        tensor([[2.],
                [4.]])
    """
    check_flat(values, sizes)
    return flat_maxima(values, sizes)


def min_pool_flat(values: Tensor, sizes: Tensor) -> Tensor:
    """:func:`min_pool` of flat sets: values (total, D), sizes (B,) -> (B, D).

    Example:
        >>> min_pool_flat(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 1]))
        tensor([[1.],
                [4.]])
    """
    return -max_pool_flat(-values, sizes)


class MaxPool(nn.Module):
    """:func:`max_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return max_pool(elements, mask)

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Pool flat sets; see :func:`max_pool_flat`."""
        return max_pool_flat(values, sizes)


class MinPool(nn.Module):
    """:func:`min_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return min_pool(elements, mask)

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Pool flat sets; see :func:`min_pool_flat`."""
        return min_pool_flat(values, sizes)
