"""From a soft permutation to the hard one that is closest to it."""

from torch import Tensor

from torchsets._autograd import refuse_recording
from torchsets.matching import assign
from torchsets.padded import lengths_to_mask
from torchsets.permutations.sinkhorn import check_scores


def hard_permutation(soft: Tensor, mask: Tensor | None = None) -> Tensor:
    """Find the 0/1 permutation of largest total weight (the Hungarian algorithm).

    Args:
        soft: Weight of element i at position k, (B, N, N), floating point.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        Permutations of zeros and ones, (B, N, N), without a gradient. With n real elements their
        rows and the first n columns are filled; all else is 0.

    Raises:
        ValueError: If a shape or dtype differs from the above, or a real weight is not finite.

    Example:
        >>> import torch
        >>> hard_permutation(torch.tensor([[[0.6, 0.4], [0.9, 0.1]]]))
        tensor([[[0., 1.],
                 [1., 0.]]])
    """
    check_scores(soft, mask, name="soft")
    refuse_recording("hard_permutation")
    positions = None if mask is None else lengths_to_mask(mask.sum(dim=1), size=mask.shape[1])
    columns = assign(-soft.detach(), mask, positions)  # (B, N), -1 for padding
    hard = soft.new_zeros(soft.shape)
    matched = columns >= 0
    if soft.shape[1] == 0:
        return hard
    return hard.scatter_(2, columns.clamp(min=0).unsqueeze(2), matched.unsqueeze(2).to(soft.dtype))
