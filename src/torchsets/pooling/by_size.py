"""Flat sets through a module for padded ones, similar sizes together."""

import torch
from torch import Tensor, nn

from torchsets._autograd import refuse_recording
from torchsets.flat import check_flat
from torchsets.padded import lengths_to_mask


class BySize(nn.Module):
    """What :func:`by_size` returns: a module for flat sets around one for padded sets.

    Attributes:
        module: The module inside.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Map flat sets (total, D) with their sizes (B,) to what the module gives, (B, ...)."""
        refuse_recording("by_size")
        check_flat(values, sizes)
        starts = sizes.cumsum(0) - sizes
        groups = _group_of(sizes)
        parts, places = [], []
        for group in sorted(set(groups.tolist())) or [0]:
            chosen = (groups == group).nonzero().squeeze(1)
            elements, mask = _pad(values, starts[chosen], sizes[chosen])
            parts.append(self.module(elements, mask))
            places.append(chosen)
        return torch.cat(parts).index_select(0, torch.cat(places).argsort())

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """The same as calling it: every pooling for flat sets has this method."""
        result: Tensor = self(values, sizes)
        return result


def by_size(module: nn.Module) -> BySize:
    """Let a module for padded sets take flat ones, padding only sets of similar size together.

    Sets are grouped by the logarithm of their size, padded in each group to its largest set, and
    the rows put back in order. So at most half of a group is padding, and the module is called
    once for each power of 2 that occurs. Where a module has ``pool_flat``, that is faster still.

    Args:
        module: Set to vector, called as module(elements, mask) with (B, N, D) and (B, N).

    Returns:
        A module, called as module(values, sizes) with (total, D) and (B,).

    Example:
        >>> from torchsets.pooling import MaxPool
        >>> values = torch.tensor([[1.0], [5.0], [3.0]])
        >>> by_size(MaxPool())(values, torch.tensor([2, 1]))
        tensor([[5.],
                [3.]])
    """
    return BySize(module)


def _group_of(sizes: Tensor) -> Tensor:
    """The rounded up logarithm to base 2, exactly; 0 for sets of 0 and 1 elements."""
    powers = 2 ** torch.arange(62, device=sizes.device)
    return torch.searchsorted(powers, sizes.long())


def _pad(values: Tensor, starts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    mask = lengths_to_mask(sizes)
    if mask.numel() == 0:  # maybe there is no row to take
        return values[:0].expand(mask.numel(), -1).reshape(*mask.shape, values.shape[1]), mask
    places = starts.unsqueeze(1) + torch.arange(mask.shape[1], device=mask.device)
    elements = values[torch.where(mask, places, 0)]
    # Any row will do at padding; filled, so that not even a nan of another set gets in.
    return elements.masked_fill(~mask.unsqueeze(-1), 0), mask
