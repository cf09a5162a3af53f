"""Sum pooling: all real elements of a set added up."""

from torch import Tensor, nn

from torchsets._checks import check_padded_sets


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
        >>> import torch
        >>> sum_pool(torch.tensor([[[1.0], [2.0], [4.0]]]), torch.tensor([[True, False, True]]))
        tensor([[5.]])
    """
    mask = check_padded_sets(elements, mask)
    return elements.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)


class SumPool(nn.Module):
    """:func:`sum_pool` as a module, for models that take a pooling."""

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return sum_pool(elements, mask)
