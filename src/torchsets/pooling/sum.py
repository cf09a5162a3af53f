"""Sum pooling: all real elements of a set added up."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_padded_sets
from torchsets.flat import check_flat, flat_sums


def sum_pool(elements: Tensor, mask: Tensor | None = None) -> Tensor:
    """Add up the real elements of each set.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        One vector per set, (B, D). An empty set gives zeros.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> sum_pool(torch.tensor([[[1.0], [2.0], [4.0]]]), torch.tensor([[True, False, True]]))
        tensor([[5.]])
    """
    mask = check_padded_sets(elements, mask)
    return elements.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)


def sum_pool_flat(values: Tensor, sizes: Tensor) -> Tensor:
    """:func:`sum_pool` of flat sets: values (total, D), sizes (B,) -> (B, D).

    Example:
        >>> sum_pool_flat(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 1]))
        tensor([[3.],
                [4.]])
    """
    check_flat(values, sizes)
    wide = torch.promote_types(values.dtype, torch.float32)
    return flat_sums(values.to(wide), sizes).to(values.dtype)


class SumPool(nn.Module):
    """:func:`sum_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return sum_pool(elements, mask)

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Pool flat sets; see :func:`sum_pool_flat`."""
        return sum_pool_flat(values, sizes)
