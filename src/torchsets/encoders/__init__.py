"""Set to vector or set with learned parts: Deep Sets, PointNet, Set Transformer, GIN and others."""

from torchsets.encoders.bilinear import (
    BAN,
    BANAttention,
    BilinearAttention,
    BilinearPool,
    NormalisedLinear,
)
from torchsets.encoders.deep_sets import DeepSets
from torchsets.encoders.equivariant import EquivariantLinear
from torchsets.encoders.factories import mlp_encoder, relation_encoder
from torchsets.encoders.graph import GIN, neighbour_sums
from torchsets.encoders.janossy import JanossyPooling, tuple_mean
from torchsets.encoders.ordered import OrderedEncoder
from torchsets.encoders.pointnet import PointNet
from torchsets.encoders.proposals import ProposalReader
from torchsets.encoders.relation import RelationNetwork
from torchsets.encoders.set_transformer import ISAB, PMA, SAB, SetTransformer
from torchsets.encoders.tiles import TileEncoder

__all__ = [
    "BAN",
    "GIN",
    "ISAB",
    "PMA",
    "SAB",
    "BANAttention",
    "BilinearAttention",
    "BilinearPool",
    "DeepSets",
    "EquivariantLinear",
    "JanossyPooling",
    "NormalisedLinear",
    "OrderedEncoder",
    "PointNet",
    "ProposalReader",
    "RelationNetwork",
    "SetTransformer",
    "TileEncoder",
    "mlp_encoder",
    "neighbour_sums",
    "relation_encoder",
    "tuple_mean",
]
