"""Set to vector with learned parts: Deep Sets, relation networks, GIN; tiles to features."""

from torchsets.encoders.deep_sets import DeepSets
from torchsets.encoders.factories import mlp_encoder, relation_encoder
from torchsets.encoders.graph import GIN, neighbour_sums
from torchsets.encoders.ordered import OrderedEncoder
from torchsets.encoders.relation import RelationNetwork
from torchsets.encoders.tiles import TileEncoder

__all__ = [
    "GIN",
    "DeepSets",
    "OrderedEncoder",
    "RelationNetwork",
    "TileEncoder",
    "mlp_encoder",
    "neighbour_sums",
    "relation_encoder",
]
