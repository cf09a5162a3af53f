"""The MLP decoder: all slots at once from one vector."""

from torch import Tensor, nn

from torchsets._checks import check_counts, check_floating, check_shape
from torchsets.decoders.presence import split_presence
from torchsets.mlp import MLP, glorot_
from torchsets.padded import SetPrediction


class MLPDecoder(nn.Module):
    """Predict the slots of a set as one long vector.

    It predicts a list: each output is responsible for one slot, and where elements trade places it
    must jump. Baseline of the thesis.

    Args:
        inputs: Size L of the vector.
        hidden: Width of the hidden layers.
        slots: Number of slots N.
        features: Number of features D of an element.
        layers: Number of linear layers.
        variable_size: Whether to predict presences. False: every slot is an element.

    Example:
        >>> import torch
        >>> decoder = MLPDecoder(64, 256, slots=342, features=2)
        >>> decoder(torch.zeros(4, 64)).elements.shape
        torch.Size([4, 342, 2])
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        *,
        slots: int,
        features: int,
        layers: int = 3,
        variable_size: bool = True,
    ) -> None:
        super().__init__()
        check_counts(inputs=inputs, hidden=hidden, slots=slots, features=features)
        self.inputs, self.slots, self.variable_size = inputs, slots, variable_size
        self.width = features + variable_size
        self.mlp = glorot_(MLP(inputs, hidden, slots * self.width, layers=layers))

    def forward(self, vector: Tensor) -> SetPrediction:
        """Decode vectors (B, L) into sets of ``slots`` elements."""
        check_shape(vector, (None, self.inputs), name="vector", letters="(B, L)")
        check_floating(vector, name="vector")
        outputs: Tensor = self.mlp(vector)
        slots = outputs.view(vector.shape[0], self.slots, self.width)
        return split_presence(slots, variable_size=self.variable_size)
