"""Slot attention: slots that compete for tokens, round after round."""

from typing import Literal

import torch
from torch import Tensor, nn

from torchsets._checks import (
    check_counts,
    check_elements,
    check_mask,
    check_padded_sets,
    check_shape,
)
from torchsets.decoders.presence import split_steps
from torchsets.decoders.slot_start import GaussianStart, LearnedStart, check_initial
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction, fill_padding


def slot_updates(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Let slots compete for tokens: each slot gets the weighted mean of the tokens it won.

    The softmax runs over the slots, so that every token is shared out among them; the shares are
    then normalised over the tokens of each slot.

    Args:
        queries: One per slot, (B, N, H).
        keys: One per token, (B, M, H).
        values: One per token, (B, M, V). Padding must be finite.
        mask: True where a token is real, (B, M), bool. None: all are real.

    Returns:
        One update per slot, (B, N, V). Without tokens it is 0.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> slot_updates(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), torch.tensor([[[1.0], [3.0]]]))
        tensor([[[2.],
                 [2.]]])
    """
    check_elements(keys, name="keys")
    batch, tokens, hidden = keys.shape
    check_shape(queries, (batch, None, hidden), name="queries", letters="(B, N, H)")
    check_shape(values, (batch, tokens, None), name="values", letters="(B, M, V)")
    if mask is not None:
        check_mask(mask, keys.shape[:2], of="keys")
    scores = keys @ queries.transpose(1, 2) * queries.shape[-1] ** -0.5  # (B, M, N)
    shares = scores.softmax(dim=-1)
    dtype = torch.promote_types(shares.dtype, values.dtype)
    # A slot that wins nothing takes the plain mean; half precision has no number so small.
    shares = fill_padding(shares.to(torch.promote_types(dtype, torch.float32)) + 1e-8, mask)
    total = shares.sum(dim=1, keepdim=True)
    weights = (shares / total.masked_fill(total == 0, 1)).transpose(1, 2)  # (B, N, M)
    return (weights.to(values.dtype) @ values).to(dtype)


class SlotAttention(nn.Module):
    """Predict a set from tokens: slots attend to them, compete, and are updated in rounds.

    It reads a *map* of tokens, such as the places of a feature map with their positions, not one
    vector; the order of the tokens does not matter. Equal slots stay equal, so each starts at
    another place: drawn for every set anew from one learned Gaussian, or learned.

    Args:
        inputs: Number of features L of a token.
        hidden: Size of a slot and width of all layers.
        slots: Number of slots N.
        features: Number of features D of an element.
        rounds: Number of rounds T.
        start: ``"random"``: drawn from a Gaussian with learned mean and spread; ``"learned"``: one
            learned start per slot.
        gradient: ``"unrolled"``: through all rounds; ``"implicit"``: the slots before the last
            round are taken for a fixed point and the gradient goes through that round alone, in
            constant memory. The start then gets no gradient and stays as it is.
        variable_size: Whether to predict presences. False: every slot is an element.

    Example:
        >>> decoder = SlotAttention(8, 64, slots=10, features=2)
        >>> prediction = decoder(torch.zeros(4, 16, 8), generator=torch.Generator().manual_seed(0))
        >>> prediction.elements.shape
        torch.Size([4, 10, 2])

    Reference:
        Locatello et al. (2020), "Object-centric learning with slot attention", algorithm 1.
        https://arxiv.org/abs/2006.15055. Chang, Griffiths, Levine (2022), "Object representations
        as fixed points", for the implicit gradient. https://arxiv.org/abs/2207.00787
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        slots: int,
        features: int,
        rounds: int = 3,
        start: Literal["random", "learned"] = "random",
        gradient: Literal["unrolled", "implicit"] = "unrolled",
        variable_size: bool = True,
    ) -> None:
        super().__init__()
        check_counts(slots=slots)
        if start not in ("random", "learned"):
            raise ValueError(f'start must be "random" or "learned", got {start!r}')
        if gradient not in ("unrolled", "implicit"):
            raise ValueError(f'gradient must be "unrolled" or "implicit", got {gradient!r}')
        self.inputs, self.hidden, self.slots = inputs, hidden, slots
        self.rounds, self.gradient = _check_rounds(rounds), gradient
        self.variable_size = variable_size
        begin = GaussianStart if start == "random" else LearnedStart
        self.start = begin(slots, hidden, learned=gradient == "unrolled")
        self.token_norm = nn.LayerNorm(inputs)
        self.slot_norm = nn.LayerNorm(hidden)
        self.to_keys = glorot_(nn.Linear(inputs, hidden, bias=False))
        self.to_values = glorot_(nn.Linear(inputs, hidden, bias=False))
        self.to_queries = glorot_(nn.Linear(hidden, hidden, bias=False))
        self.cell = nn.GRUCell(hidden, hidden)
        self.residual = nn.Sequential(
            nn.LayerNorm(hidden), glorot_(MLP(hidden, 2 * hidden, hidden))
        )
        self.head = glorot_(MLP(hidden, hidden, features + variable_size))

    def forward(
        self,
        tokens: Tensor,
        token_mask: Tensor | None = None,
        *,
        rounds: int | None = None,
        initial: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> SetPrediction:
        """Decode tokens into sets of ``slots`` elements.

        Args:
            tokens: (B, M, L), floating point.
            token_mask: True where a token is real, (B, M), bool. None: all are real.
            rounds: Number of rounds, such as more than in training. None: as constructed.
            initial: Slots to start from, (B or 1, slots, hidden), as :meth:`initial_slots` gives
                them; a set then decodes the same alone as in any batch. None: drawn or learned.
            generator: Draws the random start. Which numbers a set gets depends on its place in
                the batch, and on nothing else of the other sets.

        Returns:
            The sets after the last round, and in ``trajectory`` what the slots said before the
            first and after each round. Without tokens they are updated with zeros.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        check_shape(tokens, (None, None, self.inputs), name="tokens", letters="(B, M, L)")
        mask = check_padded_sets(tokens, token_mask, name="tokens", mask_name="token_mask")
        rounds = self.rounds if rounds is None else _check_rounds(rounds)
        if initial is None:
            slots = self.initial_slots(tokens.shape[0], generator=generator)
        else:
            slots = check_initial(initial, tokens.shape[0], self.slots, self.hidden)
        normalised = self.token_norm(fill_padding(tokens, mask))
        keys, values = self.to_keys(normalised), self.to_values(normalised)
        implicit = self.gradient == "implicit"
        way = [slots.detach() if implicit else slots]
        for index in range(rounds):
            slots = self._round(way[-1], keys, values, mask)
            way.append(slots.detach() if implicit and index < rounds - 1 else slots)
        steps: Tensor = self.head(torch.stack(way))  # (T+1, B, N, D + 1)
        return split_steps(steps, variable_size=self.variable_size, last_only=implicit)

    def initial_slots(self, sets: int, *, generator: torch.Generator | None = None) -> Tensor:
        """The slots of so many sets before the first round, drawn or learned: (B, N, H)."""
        slots: Tensor = self.start(sets, generator)
        return slots

    def extra_repr(self) -> str:
        return f"slots={self.slots}, rounds={self.rounds}, gradient={self.gradient!r}"

    def _round(self, slots: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        queries = self.to_queries(self.slot_norm(slots))
        updates = slot_updates(queries, keys, values, mask)
        state = self.cell(updates.flatten(0, 1).to(slots.dtype), slots.flatten(0, 1))
        state = state.view_as(slots)
        changed: Tensor = state + self.residual(state)
        return changed


def _check_rounds(rounds: int) -> int:
    check_counts(rounds=rounds)
    return rounds
