"""One transformer layer over slots, shared by decoders."""

from collections.abc import Callable

from torch import Tensor, nn

from torchsets.attention import Attention


class SlotLayer(nn.Module):
    """Slots attend to each other, then to tokens if there are any, then pass two linear layers.

    Args:
        hidden: Size H of a slot and of a token.
        heads: Number of heads of each attention.
        feedforward: Width between the two linear layers.
        tokens: Whether there are tokens.
        dropout: Share of attention weights, hidden units and changes that is set to 0 in training.
        norm_first: Whether each layer norm stands before its part, or after the residual sum.
    """

    def __init__(
        self,
        hidden: int,
        heads: int,
        *,
        feedforward: int,
        tokens: bool,
        dropout: float = 0.0,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.dropout = nn.Dropout(dropout)
        self.to_slots = Attention(hidden, heads, dropout=dropout)
        self.slot_norm = nn.LayerNorm(hidden)
        if tokens:
            self.to_tokens = Attention(hidden, heads, dropout=dropout)
            self.token_norm = nn.LayerNorm(hidden)
        self.feedforward = nn.Sequential(
            nn.Linear(hidden, feedforward),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(feedforward, hidden),
        )
        self.last_norm = nn.LayerNorm(hidden)

    def forward(
        self,
        slots: Tensor,
        *,
        mask: Tensor | None = None,
        codes: Tensor | None = None,
        tokens: Tensor | None = None,
        token_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the changed slots, (B, N, H).

        Args:
            slots: (B, N, H), finite everywhere.
            mask: True where a slot may be attended to, (B, N), bool. None: all.
            codes: Added to slots that ask or are asked, but not to what they answer, (B, N, H).
            tokens: (B, M, H).
            token_mask: True where a token is real, (B, M), bool. None: all are.
        """

        def coded(rows: Tensor) -> Tensor:
            return rows if codes is None else rows + codes

        slots = self._add(
            slots,
            self.slot_norm,
            lambda rows: self.to_slots(coded(rows), coded(rows), mask, values=rows),
        )
        if tokens is not None:
            slots = self._add(
                slots,
                self.token_norm,
                lambda rows: self.to_tokens(coded(rows), tokens, token_mask),
            )
        return self._add(slots, self.last_norm, self.feedforward)

    def _add(self, slots: Tensor, norm: nn.Module, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a change to the slots, with the layer norm before or after it."""
        if self.norm_first:
            return slots + self.dropout(change(norm(slots)))
        normalised: Tensor = norm(slots + self.dropout(change(slots)))
        return normalised
