"""Vector to set: deep set prediction networks, baselines, and the FSPool auto-encoder."""

from torchsets.decoders.auto_encoder import FSPoolAutoEncoder
from torchsets.decoders.dspn import DSPN
from torchsets.decoders.lstm import LSTMDecoder
from torchsets.decoders.mlp import MLPDecoder
from torchsets.decoders.simplex import project_simplex
from torchsets.decoders.step_size import find_step_size

__all__ = [
    "DSPN",
    "FSPoolAutoEncoder",
    "LSTMDecoder",
    "MLPDecoder",
    "find_step_size",
    "project_simplex",
]
