"""Set to vector with learned parts: Deep Sets, relation networks."""

from torchsets.encoders.deep_sets import DeepSets
from torchsets.encoders.factories import mlp_encoder, relation_encoder
from torchsets.encoders.ordered import OrderedEncoder
from torchsets.encoders.relation import RelationNetwork

__all__ = ["DeepSets", "OrderedEncoder", "RelationNetwork", "mlp_encoder", "relation_encoder"]
