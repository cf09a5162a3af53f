"""To a set: deep set prediction networks, decoders of tokens and vectors, FSPool auto-encoder."""

from torchsets.decoders.adaptive import decode_adaptively
from torchsets.decoders.auto_encoder import FSPoolAutoEncoder
from torchsets.decoders.dspn import DSPN
from torchsets.decoders.lstm import LSTMDecoder
from torchsets.decoders.mlp import MLPDecoder
from torchsets.decoders.query import QueryDecoder
from torchsets.decoders.simplex import project_simplex
from torchsets.decoders.slot_attention import SlotAttention
from torchsets.decoders.step_size import find_step_size
from torchsets.decoders.tspn import TSPNDecoder

__all__ = [
    "DSPN",
    "FSPoolAutoEncoder",
    "LSTMDecoder",
    "MLPDecoder",
    "QueryDecoder",
    "SlotAttention",
    "TSPNDecoder",
    "decode_adaptively",
    "find_step_size",
    "project_simplex",
]
