"""Mean pooling: the centre of a set."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_padded_sets
from torchsets.flat import check_flat, flat_sums


def mean_pool(elements: Tensor, mask: Tensor | None = None) -> Tensor:
    """Average the real elements of each set.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        One vector per set, (B, D). An empty set gives zeros.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> mean_pool(torch.tensor([[[1.0], [3.0], [8.0]]]), torch.tensor([[True, True, False]]))
        tensor([[2.]])
    """
    mask = check_padded_sets(elements, mask)
    wide = torch.promote_types(elements.dtype, torch.float32)  # the sum may not fit in half
    total = elements.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1, dtype=wide)  # (B, D)
    mean = total / mask.sum(dim=1, keepdim=True).clamp(min=1)  # an empty set: 0 / 1
    return mean.to(elements.dtype)


def mean_pool_flat(values: Tensor, sizes: Tensor) -> Tensor:
    """:func:`mean_pool` of flat sets: values (total, D), sizes (B,) -> (B, D).

    Example:
        >>> mean_pool_flat(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 1]))
        tensor([[1.5000],
                [4.0000]])
    """
    check_flat(values, sizes)
    total = flat_sums(values.to(torch.promote_types(values.dtype, torch.float32)), sizes)
    return (total / sizes.clamp(min=1).unsqueeze(1)).to(values.dtype)


class MeanPool(nn.Module):
    """:func:`mean_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return mean_pool(elements, mask)

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Pool flat sets; see :func:`mean_pool_flat`."""
        return mean_pool_flat(values, sizes)
