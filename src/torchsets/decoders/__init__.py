"""Vector to set: deep set prediction networks, baselines, and the FSPool auto-encoder."""

from torchsets.decoders.auto_encoder import FSPoolAutoEncoder
from torchsets.decoders.dspn import DSPN, find_step_size
from torchsets.decoders.lstm import LSTMDecoder
from torchsets.decoders.mlp import MLPDecoder

__all__ = ["DSPN", "FSPoolAutoEncoder", "LSTMDecoder", "MLPDecoder", "find_step_size"]
