"""Learned queries: DETR's decoder."""

import torch
from torch import Tensor, nn

from torchsets._checks import check_counts, check_padded_sets, check_shape
from torchsets.decoders.presence import split_steps
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction, fill_padding
from torchsets.transformer import TransformerLayer


class QueryDecoder(nn.Module):
    """Predict a set from tokens: learned queries, one per slot, ask them in several layers.

    It reads a *map* of tokens, such as the places of a feature map, not one vector; the order of
    the tokens does not matter, so put their positions among their features. In each layer the
    slots attend to each other and to the tokens. The queries are added to the slots wherever these
    attend; each becomes responsible for some elements.

    Args:
        inputs: Number of features L of a token.
        hidden: Size of a slot; ``heads`` divides it.
        slots: Number of slots N.
        features: Number of features D of an element.
        layers: Number of layers.
        heads: Number of heads of each attention.
        feedforward: Width of the feed-forward parts. None: 4 times ``hidden``.
        dropout: Share that is set to 0 in training, of attention weights and after each part.
        norm_first: Whether each layer norm stands before its part (easier to train without a
            warm-up), or after the residual sum, as published.
        variable_size: Whether to predict presences. False: every slot is an element.

    Example:
        >>> decoder = QueryDecoder(8, 64, slots=10, features=2, layers=2)
        >>> decoder(torch.zeros(4, 16, 8)).trajectory.elements.shape
        torch.Size([2, 4, 10, 2])

    Reference:
        Carion et al. (2020), "End-to-end object detection with transformers", section 3.2 and
        appendix A.3. https://arxiv.org/abs/2005.12872
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        slots: int,
        features: int,
        layers: int = 6,
        heads: int = 8,
        feedforward: int | None = None,
        dropout: float = 0.0,
        norm_first: bool = False,
        variable_size: bool = True,
    ) -> None:
        super().__init__()
        check_counts(layers=layers, slots=slots)
        self.inputs, self.variable_size = inputs, variable_size
        self.queries = nn.Parameter(torch.randn(slots, hidden))
        self.project = nn.Linear(inputs, hidden)
        self.layers = nn.ModuleList(
            TransformerLayer(
                hidden,
                heads,
                hidden=feedforward or 4 * hidden,
                tokens=hidden,
                dropout=dropout,
                norm_first=norm_first,
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(hidden)
        self.head = MLP(hidden, hidden, features + variable_size, layers=3)
        glorot_(self)

    def forward(self, tokens: Tensor, token_mask: Tensor | None = None) -> SetPrediction:
        """Decode tokens into sets of ``slots`` elements.

        Args:
            tokens: (B, M, L), floating point.
            token_mask: True where a token is real, (B, M), bool. None: all are real.

        Returns:
            The sets after the last layer, and in ``trajectory`` those after each layer, the first
            included: (layers, B, N, D). Without tokens, what the queries say by themselves.

        Raises:
            ValueError: If a shape or dtype differs from the above.
        """
        check_shape(tokens, (None, None, self.inputs), name="tokens", letters="(B, M, L)")
        mask = check_padded_sets(tokens, token_mask, name="tokens", mask_name="token_mask")
        projected = self.project(fill_padding(tokens, mask))
        slots = self.queries.new_zeros(tokens.shape[0], *self.queries.shape)
        outputs = []
        for layer in self.layers:
            slots = layer(slots, tokens=projected, token_mask=mask, positions=self.queries)
            outputs.append(self.norm(slots))
        steps: Tensor = self.head(torch.stack(outputs))  # (layers, B, N, D + 1)
        return split_steps(steps, variable_size=self.variable_size)
