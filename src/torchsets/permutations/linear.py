"""LinAssign: each element chooses its position on its own, by a linear map."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchsets._checks import check_padded_sets
from torchsets.padded import fill_padding
from torchsets.permutations.ordered_sets import OrderedSets, check_values, order_elements
from torchsets.permutations.sinkhorn import sinkhorn


class LinearAssignment(nn.Module):
    """Score element i at position k by w_k . x_i, and normalise with Sinkhorn.

    Alone it is the model LinAssign; as the start of a :class:`PermutationOptimiser` it makes PO-LA.
    Elements do not see each other, and there are weights for a fixed number of positions.

    Args:
        features: Features of an element.
        positions: The largest number of elements in a set.
        clip: Scores are limited to [-clip, clip], where they pass no gradient. None: no limit,
            which :func:`sinkhorn` does not need; it is there to repeat published experiments.

    Attributes:
        weight: One vector per position, (positions, features).

    Example:
        >>> order = LinearAssignment(1, positions=5)
        >>> order(torch.rand(8, 5, 1)).permutation.shape
        torch.Size([8, 5, 5])

    Reference:
        Mena et al. 2018, https://arxiv.org/abs/1802.08665.
    """

    def __init__(self, features: int, positions: int, *, clip: float | None = None) -> None:
        super().__init__()
        if clip is not None and not clip > 0:
            raise ValueError(f"clip must be positive, got {clip}")
        self.clip = clip
        self.weight = nn.Parameter(torch.empty(positions, features))
        nn.init.xavier_uniform_(self.weight)

    def scores(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """The scores w_k . x_i before normalising, (B, N, N); 0 for padding."""
        real = check_padded_sets(elements, mask)
        positions, slots = len(self.weight), elements.shape[1]
        if slots > positions and (mask is None or bool((real.sum(dim=1) > positions).any())):
            raise ValueError(
                f"elements must hold at most {positions} per set, one for each position, "
                f"got {slots if mask is None else int(real.sum(dim=1).max())}"
            )
        scores = functional.linear(fill_padding(elements, mask), self.weight[:slots])
        if self.clip is not None:
            scores = scores.clamp(-self.clip, self.clip)
        return functional.pad(scores, (0, max(0, slots - positions)))

    def permute(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Find the soft permutation of each set (B, N, D), element x position, (B, N, N)."""
        return sinkhorn(self.scores(elements, mask), mask=mask)

    def forward(
        self, elements: Tensor, mask: Tensor | None = None, *, values: Tensor | None = None
    ) -> OrderedSets:
        """Order sets (B, N, D) with mask (B, N), or values (B, N, ...) in place of elements."""
        check_padded_sets(elements, mask)
        if values is not None:
            check_values(values, elements)
        permutation = self.permute(elements, mask)
        return order_elements(elements if values is None else values, permutation, mask)
