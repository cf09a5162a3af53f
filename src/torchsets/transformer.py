"""The transformer layer: attention among elements, attention to tokens, an MLP."""

from collections.abc import Callable

from torch import Tensor, nn

from torchsets._checks import check_elements, check_mask
from torchsets.attention import Attention
from torchsets.mlp import MLP


class TransformerLayer(nn.Module):
    """Elements look at each other, then at tokens if there are any, then pass through an MLP.

    Each of these three is added to what went into it. Permuting the elements permutes the result.

    Args:
        features: Number of features D of an element.
        heads: Number of heads; it divides ``features``.
        hidden: Width of the MLP.
        tokens: Number of features L of a token. None: the layer takes no tokens.
        dropout: Share of attention weights, hidden units and results of each part that is set to
            0 in training.
        norm_first: Normalise what goes into each part (pre-norm), not the sum behind it
            (post-norm). A stack of pre-norm layers wants one more layer norm at its end.

    Example:
        >>> import torch
        >>> layer = TransformerLayer(8, heads=2, hidden=32, tokens=6)
        >>> layer(torch.rand(5, 4, 8), tokens=torch.rand(5, 9, 6)).shape
        torch.Size([5, 4, 8])

    Reference:
        Vaswani et al. (2017), "Attention is all you need", section 3.1.
        https://arxiv.org/abs/1706.03762
    """

    def __init__(
        self,
        features: int,
        heads: int,
        *,
        hidden: int,
        tokens: int | None = None,
        dropout: float = 0.0,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.takes_tokens = tokens is not None
        self.among = Attention(features, heads, dropout=dropout)
        self.norm_among = nn.LayerNorm(features)
        if tokens is not None:
            self.across = Attention(features, heads, keys=tokens, dropout=dropout)
            self.norm_across = nn.LayerNorm(features)
        self.mlp = MLP(
            features,
            hidden,
            features,
            activation=lambda: nn.Sequential(nn.ReLU(), nn.Dropout(dropout)),
        )
        self.norm_mlp = nn.LayerNorm(features)
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        elements: Tensor,
        mask: Tensor | None = None,
        *,
        tokens: Tensor | None = None,
        token_mask: Tensor | None = None,
        positions: Tensor | None = None,
        token_positions: Tensor | None = None,
    ) -> Tensor:
        """Map sets to sets.

        Args:
            elements: Padded sets, (B, M, D), floating point.
            mask: True where an element is real, (B, M), bool. None: all are real.
            tokens: What the elements look at besides each other, (B, N, L), padded.
            token_mask: True where a token is real, (B, N), bool. None: all are real.
            positions: Added to the elements where they are queries or keys, not where they are
                values, (M, D) or (B, M, D).
            token_positions: The same for the tokens, (N, L) or (B, N, L).

        Returns:
            (B, M, D); rows of padding are finite and mean nothing.
        """
        check_elements(elements)
        if (tokens is not None) != self.takes_tokens:
            raise ValueError("tokens must be given if the layer was built for them, and only then")
        if mask is not None:
            check_mask(mask, elements.shape[:2], of="elements")
            elements = elements.masked_fill(~mask.unsqueeze(-1), 0)
            if positions is not None and positions.ndim == 3:
                positions = positions.masked_fill(~mask.unsqueeze(-1), 0)

        def look_among(x: Tensor) -> Tensor:
            placed = _place(x, positions)
            result: Tensor = self.among(placed, placed, mask, values=x)
            return result

        elements = self._add(look_among, elements, self.norm_among)
        if tokens is not None:
            keys = _place(tokens, token_positions)

            def look_across(x: Tensor) -> Tensor:
                result: Tensor = self.across(_place(x, positions), keys, token_mask, values=tokens)
                return result

            elements = self._add(look_across, elements, self.norm_across)
        return self._add(self.mlp, elements, self.norm_mlp)

    def _add(
        self, part: Callable[[Tensor], Tensor], elements: Tensor, norm: nn.LayerNorm
    ) -> Tensor:
        if self.norm_first:
            result: Tensor = elements + self.drop(part(norm(elements)))
        else:
            result = norm(elements + self.drop(part(elements)))
        return result


def _place(vectors: Tensor, positions: Tensor | None) -> Tensor:
    return vectors if positions is None else vectors + positions
