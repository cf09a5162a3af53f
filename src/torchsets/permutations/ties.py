"""Tell equal elements apart, so that an ordering can send them to different places."""

import torch
from torch import Tensor

from torchsets._checks import check_mask

# The fractional parts of multiples of this number fill [0, 1) most evenly.
_GOLDEN = (5**0.5 - 1) / 2


def rank_equal(elements: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Number the elements within each group of equal ones.

    Args:
        elements: Padded sets, (B, N, ...), of any dtype. Elements that hold nan or infinity equal
            no other.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        The rank of each element among those equal to it, in the order of their slots, and how many
        there are with itself, both (B, N), long. Padding has rank and number 0.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> ranks, counts = rank_equal(torch.tensor([[[7.0], [0.0], [7.0], [7.0]]]))
        >>> ranks, counts
        (tensor([[0, 0, 1, 2]]), tensor([[3, 1, 3, 3]]))
    """
    if elements.ndim < 3:
        raise ValueError(f"elements must have shape (B, N, ...), got {tuple(elements.shape)}")
    flat = elements.detach().flatten(2)
    if flat.is_complex():
        flat = torch.view_as_real(flat).flatten(2)
    if flat.dtype in (torch.int64, torch.uint64):  # beyond 2^53 they are not all in float64
        flat = flat.view(torch.int64)
        flat = torch.cat([flat >> 32, flat & 0xFFFFFFFF], dim=2)
    flat = flat.double()
    finite = flat.isfinite().all(dim=2)  # cdist leaves nan out
    equal = torch.cdist(flat, flat, p=float("inf")) == 0  # (B, N, N)
    equal &= finite.unsqueeze(1) & finite.unsqueeze(2)
    equal |= torch.eye(flat.shape[1], dtype=torch.bool, device=flat.device)
    if mask is not None:
        check_mask(mask, elements.shape[:2], of="elements")
        equal &= mask.unsqueeze(1) & mask.unsqueeze(2)
    return (equal.tril().sum(dim=2) - 1).clamp(min=0), equal.sum(dim=2)


def tie_tags(
    elements: Tensor, mask: Tensor | None = None, *, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Two numbers for each element that differ within a group of equal ones.

    Append them to what a :class:`PairwiseCost` or :class:`LinearAssignment` sees. Without them
    equal elements get equal rows of the permutation, whatever is learned, and share their
    positions. That does no harm in a sequence, where their positions are neighbours; on a grid
    equal tiles such as background may belong to opposite sides.

    An element that has no equal gets 0, so that a set without equal elements is ordered as if
    there were no tags. A group of g gets g pairs of numbers that are spread evenly over [-1, 1]^2.
    Which of the equal elements gets which pair follows the order of their slots. That cannot be
    seen in the ordered set: it is exactly invariant. The permutation is equivariant up to an
    exchange of equal elements.

    Args:
        elements: Padded sets, (B, N, ...), of any dtype, such as the tiles themselves: elements
            are equal if all their numbers are.
        mask: True where an element is real, (B, N), bool. None: all are real.
        dtype: Of the result.

    Returns:
        Tags, (B, N, 2), 0 for padding, without a gradient.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> tie_tags(torch.tensor([[[0.0], [5.0], [0.0]]]))
        tensor([[[-0.5000, -1.0000],
                 [ 0.0000,  0.0000],
                 [ 0.5000,  0.2361]]])
    """
    ranks, counts = rank_equal(elements, mask)
    ranks = ranks.double()
    along = (2 * ranks + 1) / counts.clamp(min=1) - 1
    across = 2 * (ranks * _GOLDEN).frac() - 1
    tags = torch.stack([along, across], dim=2)
    return tags.masked_fill((counts < 2).unsqueeze(2), 0).to(dtype)
