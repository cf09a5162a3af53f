"""Losses between two sets: they do not depend on the order of either."""

from torchsets.losses.chamfer import chamfer_loss
from torchsets.losses.elements import MixedCost, Part
from torchsets.losses.hungarian import hungarian_loss
from torchsets.losses.neighbours import nearest_neighbours
from torchsets.losses.prediction import SetPredictionLoss
from torchsets.losses.present import present_chamfer_loss, set_size_loss
from torchsets.losses.sinkhorn import SinkhornResult, sinkhorn_divergence, sinkhorn_loss
from torchsets.matching import assign

__all__ = [
    "MixedCost",
    "Part",
    "SetPredictionLoss",
    "SinkhornResult",
    "assign",
    "chamfer_loss",
    "hungarian_loss",
    "nearest_neighbours",
    "present_chamfer_loss",
    "set_size_loss",
    "sinkhorn_divergence",
    "sinkhorn_loss",
]
