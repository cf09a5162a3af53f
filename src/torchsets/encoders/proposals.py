"""Read the proposals that a network looks at as a list, in a learned order or as they come."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_padded_sets, check_shape
from torchsets.encoders.ordered import OrderedEncoder
from torchsets.permutations import PairwiseCost, PermutationOptimiser


class ProposalReader(nn.Module):
    """Encode boxes, the attention on them and some of their features with an LSTM.

    An element is [box / largest coordinate of its set; logit; projected features]. The elements are
    ordered by a learned cost (PO-U), multiplied by sigmoid(logit), and read; the result is the last
    cell state.

    Args:
        features: Number of features D of a proposal.
        projected: So many features are read, a linear function of all.
        outputs: Size of the cell state.
        compared: Hidden units of the cost that orders the elements. None: the proposals are read as
            they come, and the result depends on that order.
        steps: Gradient steps of the ordering.

    Attributes:
        project: The linear layer.
        encoder: Orders and reads.

    Example:
        >>> reader = ProposalReader(3, outputs=8)
        >>> reader(torch.rand(4, 7, 3), torch.rand(4, 7, 4), torch.rand(4, 2, 7)).shape
        torch.Size([4, 2, 8])

    Reference:
        Zhang, Hare, Prügel-Bennett 2019, https://arxiv.org/abs/1812.03928, section 4.4.
    """

    def __init__(
        self,
        features: int,
        *,
        projected: int = 8,
        outputs: int = 128,
        compared: int | None = 128,
        steps: int = 3,
    ) -> None:
        super().__init__()
        size = 4 + 1 + projected
        order = None
        if compared is not None:
            order = PermutationOptimiser(PairwiseCost(size, compared), steps=steps)
        self.outputs = outputs
        self.project = nn.Linear(features, projected)
        self.encoder = OrderedEncoder(order, size, outputs, state="cell")

    def forward(
        self, features: Tensor, boxes: Tensor, logits: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Read the proposals of each set once for each glimpse.

        Args:
            features: (B, N, D), floating point.
            boxes: x1, y1, x2, y2, (B, N, 4).
            logits: How much each glimpse looks at each proposal, (B, G, N).
            mask: True where a proposal is real, (B, N), bool. None: all are real.

        Returns:
            One vector for each set and glimpse, (B, G, outputs). An empty set gives zeros.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        mask = check_padded_sets(features, mask, name="features")
        batch, size = mask.shape
        check_shape(boxes, (batch, size, 4), name="boxes", letters="(B, N, 4)")
        check_shape(logits, (batch, None, size), name="logits", letters="(B, G, N)")
        glimpses = logits.shape[1]
        padding = ~mask.unsqueeze(-1)
        boxes = boxes.masked_fill(padding, 0)
        # With a 0 beside the coordinates, so that an empty set has a largest one.
        largest = torch.cat([boxes.flatten(1), boxes.new_zeros(batch, 1)], dim=1).amax(dim=1)
        boxes = boxes / largest.where(largest > 0, 1)[:, None, None]
        projected = self.project(features.masked_fill(padding, 0))
        fixed = torch.cat([boxes, projected], dim=2).unsqueeze(1).expand(-1, glimpses, -1, -1)
        logits = logits.masked_fill(~mask.unsqueeze(1), 0)
        elements = torch.cat([fixed[..., :4], logits.unsqueeze(-1), fixed[..., 4:]], dim=3)
        read = self.encoder(
            elements.flatten(0, 1),
            mask.repeat_interleave(glimpses, dim=0),
            weights=logits.sigmoid().flatten(0, 1),
        )
        return read.view(batch, glimpses, self.outputs)
