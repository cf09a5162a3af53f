"""Numbers for figures: nobody sees the seventh decimal, but every reader of the page loads it."""

from typing import Any

from torch import Tensor


def rounded(values: Tensor, digits: int = 3) -> list[Any]:
    """Return a tensor as nested lists of numbers with few decimals.

    Example:
        >>> import torch
        >>> rounded(torch.tensor([[0.123456, 1.0]]), 2)
        [[0.12, 1.0]]
    """
    return [_rounded(entry, digits) for entry in values.tolist()]


def _rounded(entry: Any, digits: int) -> Any:
    if isinstance(entry, list):
        return [_rounded(one, digits) for one in entry]
    return round(entry, digits)
