"""Mean pooling: the centre of a set."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_padded_sets


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


class MeanPool(nn.Module):
    """:func:`mean_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return mean_pool(elements, mask)
