"""The LSTM decoder: one slot after the other from one vector."""

from torch import Tensor, nn

from torchsets._autograd import call_lstm
from torchsets._checks import check_counts, check_floating, check_shape
from torchsets.decoders.presence import split_presence
from torchsets.mlp import glorot_
from torchsets.padded import SetPrediction


class LSTMDecoder(nn.Module):
    """Predict the slots of a set as a sequence.

    The vector becomes the first cell state of an LSTM that gets no input; each of its outputs is
    mapped to one slot. Baseline of the thesis.

    Args:
        inputs: Size L of the vector.
        hidden: Size of the state.
        slots: Number of slots N.
        features: Number of features D of an element.
        variable_size: Whether to predict presences. False: every slot is an element.

    Example:
        >>> import torch
        >>> decoder = LSTMDecoder(64, 256, slots=10, features=2)
        >>> decoder(torch.zeros(4, 64)).elements.shape
        torch.Size([4, 10, 2])
    """

    def __init__(
        self, inputs: int, hidden: int, *, slots: int, features: int, variable_size: bool = True
    ) -> None:
        super().__init__()
        check_counts(inputs=inputs, hidden=hidden, slots=slots, features=features)
        self.inputs, self.slots, self.variable_size = inputs, slots, variable_size
        self.first = glorot_(nn.Linear(inputs, hidden))
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.last = glorot_(nn.Linear(hidden, features + variable_size))

    def forward(self, vector: Tensor) -> SetPrediction:
        """Decode vectors (B, L) into sets of ``slots`` elements."""
        check_shape(vector, (None, self.inputs), name="vector", letters="(B, L)")
        check_floating(vector, name="vector")
        cell: Tensor = self.first(vector).unsqueeze(0)  # (1, B, H)
        nothing = cell.new_zeros(vector.shape[0], self.slots, 1)
        states, _ = call_lstm(self.lstm, nothing, cell=cell)
        return split_presence(self.last(states), variable_size=self.variable_size)
