"""Set to vector: Deep Sets, relation networks, Set Transformer, GIN; tiles to features."""

from torchsets.encoders.deep_sets import DeepSets
from torchsets.encoders.factories import mlp_encoder, relation_encoder
from torchsets.encoders.graph import GIN, neighbour_sums
from torchsets.encoders.ordered import OrderedEncoder
from torchsets.encoders.relation import RelationNetwork
from torchsets.encoders.set_transformer import ISAB, PMA, SAB, SetTransformer
from torchsets.encoders.tiles import TileEncoder

__all__ = [
    "GIN",
    "ISAB",
    "PMA",
    "SAB",
    "DeepSets",
    "OrderedEncoder",
    "RelationNetwork",
    "SetTransformer",
    "TileEncoder",
    "mlp_encoder",
    "neighbour_sums",
    "relation_encoder",
]
