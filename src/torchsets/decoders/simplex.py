"""The projection onto the unit simplex, for elements that are categories."""

import torch
from torch import Tensor


def project_simplex(elements: Tensor) -> Tensor:
    """Move each element to the nearest point whose features are at least 0 and add up to 1.

    One number is subtracted from all features of an element; those that become negative are 0.

    Args:
        elements: Any shape with the features last, (..., D), floating point.

    Returns:
        The nearest points, (..., D). They can be differentiated any number of times.

    Example:
        >>> project_simplex(torch.tensor([[0.5, 0.5], [2.0, 0.0], [0.9, 0.5]]))
        tensor([[0.5000, 0.5000],
                [1.0000, 0.0000],
                [0.7000, 0.3000]])

    Reference:
        Held, Wolfe, Crowder (1974), "Validation of subgradient optimization".
    """
    # Moving all features of an element does not change the result; far from 0 the 1 would be lost.
    elements = elements - elements.detach().amax(dim=-1, keepdim=True)
    with torch.no_grad():
        # The k largest features stay positive for the largest k at which the smallest of them
        # exceeds what would have to be subtracted from each.
        ranked = elements.sort(dim=-1, descending=True).values
        counts = torch.arange(1, elements.shape[-1] + 1, device=elements.device)
        excess = (ranked.cumsum(dim=-1) - 1) / counts
        count = (ranked > excess).sum(dim=-1, keepdim=True).clamp(min=1)
        positive = elements > excess.gather(-1, count - 1)
    count = positive.sum(dim=-1, keepdim=True).clamp(min=1)
    # The gradient goes through this line alone: which features are positive does not change.
    subtracted = (elements.where(positive, 0).sum(dim=-1, keepdim=True) - 1) / count
    return (elements - subtracted).relu()
