"""Order a set by a learned cost, then read it like a list."""

import torch
from torch import Tensor, nn

from torchsets._autograd import run_lstm
from torchsets.permutations import OrderedSets, PermutationOptimiser


class OrderedEncoder(nn.Module):
    """Encode a set as the last state of an LSTM that reads it in a learned order.

    Args:
        order: Turns sets into lists, normally PO-U: it decides what the order depends on.
        features: Features of an element.
        hidden: Size of the state, and of the result.

    Attributes:
        order: As above.
        lstm: Reads the ordered elements.

    Example:
        >>> from torchsets.permutations import PairwiseCost
        >>> order = PermutationOptimiser(PairwiseCost(3, hidden=16))
        >>> encoder = OrderedEncoder(order, features=3, hidden=64)
        >>> encoder(torch.rand(5, 7, 3)).shape
        torch.Size([5, 64])

    Reference:
        Zhang, Hare, Prügel-Bennett 2019, https://arxiv.org/abs/1812.03928, section 4.4.
    """

    def __init__(self, order: PermutationOptimiser, features: int, hidden: int) -> None:
        super().__init__()
        self.order = order
        self.lstm = nn.LSTM(features, hidden, batch_first=True)

    def forward(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode padded sets (B, N, D) with their mask (B, N) to (B, hidden); empty sets to 0."""
        ordered: OrderedSets = self.order(elements, mask)
        if elements.shape[0] == 0 or elements.shape[1] == 0:  # an LSTM needs one of each
            nothing = [x.flatten()[:0].sum() for x in (ordered.elements, *self.lstm.parameters())]
            # 0, but with a gradient: an empty batch can be backpropagated like any other
            return elements.new_zeros(elements.shape[0], self.lstm.hidden_size) + sum(nothing)
        states = run_lstm(self.lstm, ordered.elements)  # (B, N, hidden)
        # The LSTM does not look ahead, so what lies behind the last real element is ignored.
        count = ordered.mask.sum(dim=1)
        last = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
        state = states.gather(1, last).squeeze(1)
        return torch.where(count.unsqueeze(1) > 0, state, 0)
