"""Sort pooling: the top elements of a set, in the order of one feature."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts, check_padded_sets
from torchsets.flat import check_flat, flat_order
from torchsets.sorting import descending_order


def sort_pool(elements: Tensor, k: int, mask: Tensor | None = None) -> Tensor:
    """List the k elements that have the largest last feature, the largest first.

    Only the values get gradients, the order gets none. Where different elements have the same
    last feature, such as 0 behind a ReLU, the one in the earlier slot comes first, and the result
    depends on the order of the slots: let the last feature come from a linear layer or tanh.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        k: Number of elements to keep, at least 1.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        The elements one after the other, (B, k * D). Zeros stand behind a set with fewer than k
        elements; an empty set gives only zeros.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> elements = torch.tensor([[[1.0, 0.2], [2.0, 0.9], [3.0, 0.5]]])
        >>> sort_pool(elements, 2)
        tensor([[2.0000, 0.9000, 3.0000, 0.5000]])

    Reference:
        Zhang, Cui, Neumann, Chen (2018), "An end-to-end deep learning architecture for graph
        classification", section 3.2.
        https://www.cse.wustl.edu/~muhan/papers/AAAI_2018_DGCNN.pdf
    """
    check_counts(k=k)
    mask = check_padded_sets(elements, mask)
    batch, slots, features = elements.shape
    order = descending_order(elements[..., -1].masked_fill(~mask, 0), mask)  # (B, N)
    # Row N is zero, and stands wherever there is no real element.
    rows = torch.cat([elements, elements.new_zeros(batch, 1, features)], dim=1)
    order = torch.cat([order, order.new_full((batch, k), slots)], dim=1)[:, :k]
    missing = torch.arange(k, device=mask.device) >= mask.sum(dim=1, keepdim=True)
    order = order.masked_fill(missing, slots)
    return rows.gather(1, order.unsqueeze(-1).expand(-1, -1, features)).flatten(1)


def sort_pool_flat(values: Tensor, sizes: Tensor, k: int) -> Tensor:
    """:func:`sort_pool` of flat sets: values (total, D), sizes (B,) -> (B, k * D).

    Example:
        >>> sort_pool_flat(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 1]), 2)
        tensor([[2., 1.],
                [4., 0.]])
    """
    check_counts(k=k)
    check_flat(values, sizes)
    total, features = values.shape
    order = flat_order(values.detach()[:, -1].unsqueeze(0), sizes).squeeze(0)
    rank = torch.arange(k, device=sizes.device)
    places = (sizes.cumsum(0) - sizes).unsqueeze(1) + rank
    places = places.masked_fill(rank >= sizes.unsqueeze(1), total)  # where the row of zeros is
    order = torch.cat([order, order.new_full((1,), total)])
    rows = torch.cat([values, values.new_zeros(1, features)])
    return rows[order[places]].flatten(1)


class SortPool(nn.Module):
    """:func:`sort_pool` as a module, for models that take a pooling.

    Args:
        k: Number of elements to keep; the result has k times as many features as an element.

    Example:
        >>> SortPool(2)(torch.tensor([[[1.0], [3.0], [2.0]]]))
        tensor([[3., 2.]])
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        check_counts(k=k)
        self.k = k

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        return sort_pool(elements, self.k, mask)

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Pool flat sets; see :func:`sort_pool_flat`."""
        return sort_pool_flat(values, sizes, self.k)

    def extra_repr(self) -> str:
        return f"k={self.k}"
