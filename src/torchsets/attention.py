"""Attention: each query averages the real elements of a set that match it."""

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import scaled_dot_product_attention

from torchsets._autograd import Context, apply, inside_transform, is_traced
from torchsets._checks import check_elements, check_mask, check_shape


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    heads: int = 1,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Average the values of a set for each query, with weights softmax(scale * query . key).

    Neither the weights nor anything else of size M x N is kept for the gradient. Gradients of any
    order are available; those of second order need that memory.

    Args:
        queries: (B, M, D), floating point.
        keys: (B, N, D).
        values: (B, N, E). Keys and values must be finite at padding too.
        mask: True where keys and values are real, (B, N), bool. None: all are real.
        heads: Split the features of queries, keys and values into that many parts, each of which
            has its own weights.
        scale: What the products are multiplied by. None: 1 / sqrt(D / heads).
        dropout: Share of the weights that is set to 0.

    Returns:
        The average for each query, (B, M, E). An empty set gives zeros.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> values = torch.tensor([[[1.0], [3.0], [8.0]]])
        >>> mask = torch.tensor([[True, True, False]])
        >>> attend(torch.zeros(1, 1, 1), values, values, mask)
        tensor([[[2.]]])
    """
    check_elements(keys, name="keys")
    batch, size, features = keys.shape
    check_shape(queries, (batch, None, features), name="queries", letters="(B, M, D)")
    check_shape(values, (batch, size, None), name="values", letters="(B, N, E)")
    for x in (keys, values):
        check_heads(x.shape[2], heads)
    q, k, v = (_split(x, heads) for x in (queries, keys, values))
    if mask is None:
        return _join(_dot_product_attention(q, k, v, None, scale, dropout))
    check_mask(mask, keys.shape[:2], of="keys")
    some = mask.any(dim=1, keepdim=True)  # (B, 1)
    # An empty set attends to its padding, and its result is dropped: a softmax over nothing would
    # be nan, and a nan would come back with the gradient.
    seen = (mask | ~some)[:, None, None, :]  # (B, 1, 1, N)
    attended = _join(_dot_product_attention(q, k, v, seen, scale, dropout))
    return attended.masked_fill(~some.unsqueeze(-1), 0)


class Attention(nn.Module):
    """Multi-head attention: :func:`attend` between linear layers.

    Args:
        features: Number of features D of a query, and of the result.
        heads: Number of heads; it divides ``features``.
        keys: Number of features K of a key or value. None: the same as ``features``.
        dropout: Share of the attention weights that is set to 0 in training.

    Attributes:
        query, key, value, out: The linear layers.

    Example:
        >>> attention = Attention(8, heads=2, keys=3)
        >>> queries, elements = torch.rand(5, 4, 8), torch.rand(5, 7, 3)
        >>> attention(queries, elements, torch.rand(5, 7) < 0.5).shape
        torch.Size([5, 4, 8])

    Reference:
        Vaswani et al. (2017), "Attention is all you need", section 3.2.
        https://arxiv.org/abs/1706.03762
    """

    def __init__(
        self, features: int, heads: int, *, keys: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        check_heads(features, heads)
        keys = features if keys is None else keys
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(features, features)
        self.key = nn.Linear(keys, features)
        self.value = nn.Linear(keys, features)
        self.out = nn.Linear(features, features)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        mask: Tensor | None = None,
        *,
        values: Tensor | None = None,
    ) -> Tensor:
        """Let each query look at the real keys.

        Args:
            queries: (B, M, D), floating point, without padding: every row must be finite.
            keys: (B, N, K).
            mask: True where a key is real, (B, N), bool. None: all are real.
            values: What is averaged, (B, N, K). None: the keys.

        Returns:
            (B, M, D). An empty set gives the bias of ``out``.
        """
        check_elements(queries, name="queries")
        check_elements(keys, name="keys")
        if values is keys:
            values = None
        if values is not None:
            check_shape(values, tuple(keys.shape), name="values", letters="(B, N, K)")
        if mask is not None:
            check_mask(mask, keys.shape[:2], of="keys")
            if values is not None:
                values = values.masked_fill(~mask.unsqueeze(-1), 0)
            keys = keys.masked_fill(~mask.unsqueeze(-1), 0)
        attended = attend(
            self.query(queries),
            self.key(keys),
            self.value(keys if values is None else values),
            mask,
            heads=self.heads,
            dropout=self.dropout if self.training else 0.0,
        )
        result: Tensor = self.out(attended)
        return result

    def extra_repr(self) -> str:
        return f"heads={self.heads}" + (f", dropout={self.dropout:g}" if self.dropout else "")


def check_heads(features: int, heads: int) -> None:
    """Raise ``ValueError`` unless the features can be split into that many heads."""
    if heads < 1 or features % heads:
        raise ValueError(f"heads must divide the {features} features, got {heads}")


def _split(vectors: Tensor, heads: int) -> Tensor:
    """(B, N, D) -> (B, heads, N, D / heads)."""
    return vectors.reshape(*vectors.shape[:2], heads, vectors.shape[-1] // heads).transpose(1, 2)


def _join(parts: Tensor) -> Tensor:
    """(B, heads, N, D / heads) -> (B, N, D)."""
    return parts.transpose(1, 2).flatten(2)


def _dot_product_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    scale: float | None,
    dropout: float,
) -> Tensor:
    if dropout == 0 and inside_transform():  # its gradient may be differentiated again
        return _plain_attention(queries, keys, values, mask, scale)
    variable = torch.is_grad_enabled() and any(x.requires_grad for x in (queries, keys, values))
    if dropout > 0 or is_traced() or not variable:
        return scaled_dot_product_attention(queries, keys, values, mask, dropout, scale=scale)
    return apply(_TwiceDifferentiable, queries, keys, values, mask, scale)


class _TwiceDifferentiable(Function):
    """Attention by torch's fastest kernel, whose own gradient cannot be differentiated again.

    Where that is asked for (``create_graph=True``), the gradient is taken through plain operations.
    """

    @staticmethod
    def forward(
        ctx: Context,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        scale: float | None,
    ) -> Tensor:
        ctx.save_for_backward(queries, keys, values, mask)
        ctx.scale = scale
        ctx.recorded = _record(queries, keys, values, mask, scale)
        result: Tensor = ctx.recorded[1].detach()
        return result

    @staticmethod
    def backward(ctx: Context, gradient: Tensor) -> tuple[Tensor | None, ...]:
        again = torch.is_grad_enabled()
        queries, keys, values, mask = ctx.saved_tensors
        if again:
            inputs = [queries, keys, values]
            attended = _plain_attention(queries, keys, values, mask, ctx.scale)
        else:
            # With retain_graph=True there may be a second time: compute it again.
            inputs, attended = ctx.recorded or _record(queries, keys, values, mask, ctx.scale)
            ctx.recorded = None
        variables = [x for x in inputs if x.requires_grad]
        found = iter(torch.autograd.grad(attended, variables, gradient, create_graph=again))
        return *(next(found) if x.requires_grad else None for x in inputs), None, None


def _plain_attention(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float | None
) -> Tensor:
    scale = queries.shape[-1] ** -0.5 if scale is None else scale
    scores = (queries * scale) @ keys.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(dim=-1) @ values


def _record(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float | None
) -> tuple[list[Tensor], Tensor]:
    """Attention with a graph of its own: the inputs as leaves, and the result."""
    with torch.enable_grad():
        q, k, v = (x.detach().requires_grad_(x.requires_grad) for x in (queries, keys, values))
        return [q, k, v], scaled_dot_product_attention(q, k, v, mask, scale=scale)
