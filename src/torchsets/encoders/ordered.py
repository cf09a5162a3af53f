"""Order a set by a learned cost, then read it like a list."""

from torch import Tensor, nn

from torchsets._checks import check_padded_sets, check_shape
from torchsets.encoders.last_state import check_state, last_states
from torchsets.padded import fill_padding
from torchsets.permutations import PermutationOptimiser
from torchsets.sorting import descending_order


class OrderedEncoder(nn.Module):
    """Encode a set as the last state of an LSTM that reads it in a learned order.

    Args:
        order: Turns sets into lists, normally PO-U: it decides what the order depends on. None:
            the real elements are read in the order of the slots, for comparison. Then the result
            does depend on that order.
        features: Features of an element.
        hidden: Size of the state, and of the result.
        state: The last "hidden" or the last "cell" state is the result.

    Attributes:
        order: As above.
        lstm: Reads the ordered elements.

    Example:
        >>> import torch
        >>> from torchsets.permutations import PairwiseCost
        >>> order = PermutationOptimiser(PairwiseCost(3, hidden=16))
        >>> encoder = OrderedEncoder(order, features=3, hidden=64)
        >>> encoder(torch.rand(5, 7, 3)).shape
        torch.Size([5, 64])

    Reference:
        Zhang, Hare, Prügel-Bennett 2019, https://arxiv.org/abs/1812.03928, section 4.4.
    """

    def __init__(
        self,
        order: PermutationOptimiser | None,
        features: int,
        hidden: int,
        *,
        state: str = "hidden",
    ) -> None:
        super().__init__()
        check_state(state)
        self.order = order
        self.state = state
        self.lstm = nn.LSTM(features, hidden, batch_first=True)

    def forward(
        self, elements: Tensor, mask: Tensor | None = None, *, weights: Tensor | None = None
    ) -> Tensor:
        """Encode sets.

        Args:
            elements: Padded sets, (B, N, D), floating point.
            mask: True where an element is real, (B, N), bool. None: all are real.
            weights: What each element is multiplied by before it is read, (B, N). The order is
                found without them.

        Returns:
            One vector per set, (B, hidden). An empty set gives zeros.
        """
        real = check_padded_sets(elements, mask)
        elements = fill_padding(elements, mask)
        values = elements
        if weights is not None:
            check_shape(weights, tuple(elements.shape[:2]), name="weights", letters="(B, N)")
            values = elements * weights.masked_fill(~real, 0).unsqueeze(-1)
        if self.order is not None:
            lists = self.order(elements, mask, values=values).elements
        elif mask is None:
            lists = values
        else:
            first = descending_order(mask.to(elements.dtype))  # real elements
            lists = values.gather(1, first.unsqueeze(-1).expand_as(values))
        sizes = real.sum(dim=1)
        return last_states(self.lstm, lists, sizes, self.state, caller="OrderedEncoder")

    def extra_repr(self) -> str:
        return f"state={self.state!r}"
