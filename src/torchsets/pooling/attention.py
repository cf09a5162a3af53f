"""Attention pooling: an average of the elements, with weights that they determine themselves."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts, check_padded_sets, check_shape
from torchsets.attention import attend
from torchsets.pooling.by_size import by_size


class AttentionPool(nn.Module):
    """Average the elements of a set with weights softmax(query . element / sqrt(D)).

    Args:
        features: Number of features D of an element.
        queries: Number of learned queries Q, each with an average of its own.
        context: Number of features C of a vector that is given with each set and moves the
            queries, so that the same set can be asked different questions. None: no such vector.

    Attributes:
        queries: The learned queries, (Q, D).

    Example:
        >>> pool = AttentionPool(2)
        >>> pool(torch.tensor([[[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]]))
        tensor([[1., 2.]], grad_fn=<...>)
    """

    def __init__(self, features: int, *, queries: int = 1, context: int | None = None) -> None:
        super().__init__()
        check_counts(queries=queries)
        self.queries = nn.Parameter(torch.randn(queries, features))
        self.from_context = (
            None if context is None else nn.Linear(context, queries * features, bias=False)
        )

    def forward(
        self, elements: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """Pool sets.

        Args:
            elements: Padded sets, (B, N, D), floating point.
            mask: True where an element is real, (B, N), bool. None: all are real.
            context: One vector per set, (B, C), if the pooling was built for it.

        Returns:
            The averages of all queries one after the other, (B, Q D). An empty set gives zeros.
        """
        queries, elements, mask = self._prepare(elements, mask, context)
        return attend(queries, elements, elements, mask).flatten(1)

    def weights(
        self, elements: Tensor, mask: Tensor | None = None, context: Tensor | None = None
    ) -> Tensor:
        """How much each element counts for each query, (B, Q, N): 0 at padding, 1 in total."""
        queries, elements, mask = self._prepare(elements, mask, context)
        scores = queries @ elements.transpose(1, 2) / elements.shape[-1] ** 0.5
        padding = ~mask.unsqueeze(1)
        scores = scores.masked_fill(padding, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1).masked_fill(padding, 0)

    def pool_flat(self, values: Tensor, sizes: Tensor) -> Tensor:
        """Pool flat sets, without context; see :func:`torchsets.pooling.by_size`."""
        return by_size(self).pool_flat(values, sizes)

    def extra_repr(self) -> str:
        queries, features = self.queries.shape
        return f"features={features}, queries={queries}"

    def _prepare(
        self, elements: Tensor, mask: Tensor | None, context: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The queries of each set (B, Q, D), the elements without padding, the mask."""
        mask = check_padded_sets(elements, mask)
        batch, features = elements.shape[0], self.queries.shape[1]
        check_shape(elements, (None, None, features), name="elements", letters="(B, N, D)")
        queries = self.queries.expand(batch, -1, -1)
        if self.from_context is not None:
            if context is None:
                raise ValueError("context must be given: the pooling was built for one, got None")
            check_shape(
                context,
                (batch, self.from_context.in_features),
                name="context",
                letters="(B, C)",
            )
            queries = queries + self.from_context(context).view(queries.shape)
        elif context is not None:
            raise ValueError("context must be None: the pooling was built without, got a tensor")
        return queries.to(elements.dtype), elements.masked_fill(~mask.unsqueeze(-1), 0), mask
