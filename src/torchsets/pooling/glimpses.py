"""Soft attention: averages of a set, with weights that depend on a question about it."""

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from torchsets._checks import check_counts, check_padded_sets, check_shape


def fuse(first: Tensor, second: Tensor) -> Tensor:
    """Join two vectors of one size: relu(x + y) - (x - y)^2.

    Large where both agree and are positive, and negative where they differ.

    Example:
        >>> fuse(torch.tensor([1.0, 1.0]), torch.tensor([1.0, -1.0]))
        tensor([ 2., -4.])

    Reference:
        Zhang, Hare, Prügel-Bennett 2018, https://arxiv.org/abs/1802.05766, appendix B.
    """
    return relu(first + second) - (first - second).square()


def glimpse_pool(elements: Tensor, logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Average the real elements of each set, once for each glimpse.

    Args:
        elements: Padded sets, (B, N, D), floating point.
        logits: How much each element matters to each glimpse, (B, N, G); the weights are their
            softmax over the real elements.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        The averages of all glimpses one after the other, (B, G D). An empty set gives zeros.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> elements = torch.tensor([[[1.0], [3.0], [8.0]]])
        >>> mask = torch.tensor([[True, True, False]])
        >>> glimpse_pool(elements, torch.zeros(1, 3, 2), mask)
        tensor([[2., 2.]])
    """
    mask = check_padded_sets(elements, mask)
    check_shape(logits, (*elements.shape[:2], None), name="logits", letters="(B, N, G)")
    padding = ~mask.unsqueeze(-1)
    logits = logits.masked_fill(padding, torch.finfo(logits.dtype).min)
    weights = logits.softmax(dim=1).masked_fill(padding, 0)
    return (weights.transpose(1, 2) @ elements.masked_fill(padding, 0)).flatten(1)


class GlimpsePool(nn.Module):
    """Average a set with weights that a vector about it determines, such as a question.

    Elements and context are projected, joined by :func:`fuse`, and a linear layer gives a logit for
    each element and glimpse.

    Args:
        features: Number of features D of an element.
        context: Number of features C of the context.
        hidden: Number of features of the two projections.
        glimpses: Number of averages G.
        dropout: Share of the inputs of each of the three layers that is set to 0 in training.

    Attributes:
        element, context, logit: The linear layers; the first has no bias.

    Example:
        >>> pool = GlimpsePool(3, 5, hidden=8)
        >>> pool(torch.rand(4, 7, 3), context=torch.rand(4, 5)).shape
        torch.Size([4, 6])

    Reference:
        Kazemi, Elqursh 2017, https://arxiv.org/abs/1704.03162; with this fusion in Zhang, Hare,
        Prügel-Bennett 2018, https://arxiv.org/abs/1802.05766.
    """

    def __init__(
        self, features: int, context: int, *, hidden: int, glimpses: int = 2, dropout: float = 0.0
    ) -> None:
        super().__init__()
        check_counts(glimpses=glimpses)
        self.element = nn.Linear(features, hidden, bias=False)
        self.context = nn.Linear(context, hidden)
        self.logit = nn.Linear(hidden, glimpses)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, elements: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """Pool sets (B, N, D) with their mask (B, N) and context (B, C) to (B, G D).

        An empty set gives zeros.
        """
        return glimpse_pool(elements, self.logits(elements, mask, context), mask)

    def logits(
        self, elements: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """How much each element matters to each glimpse, (B, N, G); meaningless at padding."""
        mask = check_padded_sets(elements, mask)
        if context is None:
            raise ValueError("context must be given, got None")
        shape = (elements.shape[0], self.context.in_features)
        check_shape(context, shape, name="context", letters="(B, C)")
        elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
        asked = self.context(self.dropout(context)).unsqueeze(1)
        fused = fuse(self.element(self.dropout(elements)), asked)
        logits: Tensor = self.logit(self.dropout(fused))
        return logits
