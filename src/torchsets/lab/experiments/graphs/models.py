"""The models of the experiment on graph classification."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from torchsets.encoders import GIN
from torchsets.lab.experiments.graphs.configs import Choice, Source
from torchsets.pooling import FSPool, MeanPool, SumPool

_PIECES = 5


class NodesOnly(nn.Module):
    """A graph network that sees no edge: the same layers as a Deep Sets model of the nodes."""

    def __init__(self, network: GIN) -> None:
        super().__init__()
        self.network = network

    def forward(self, nodes: Tensor, edges: Tensor, sizes: Tensor) -> Tensor:
        return self.network(nodes, edges[:, :0], sizes)


def build_model(
    name: str, source: Source, choice: Choice, *, features: int, classes: int
) -> nn.Module:
    """Build a model by its name; the base is read out by mean on social networks, else by sum."""
    network = GIN(
        features,
        classes,
        hidden=choice.hidden,
        eps="inputs" if name.endswith("-inputs") else 0.0,
        pooling=_readout(name, source),
        dropout=choice.dropout,
    )
    return NodesOnly(network) if name == "no-edges" else network


def learned_weights(model: nn.Module) -> list[Tensor]:
    """The weight functions of FSPool, (hidden, points), for each block; empty without FSPool."""
    return [one.weight.detach().cpu() for one in model.modules() if isinstance(one, FSPool)]


def _readout(name: str, source: Source) -> Callable[..., nn.Module]:
    if name.startswith("fspool"):
        return partial(FSPool, pieces=20 if name == "fspool-20" else _PIECES, init="ones")
    return MeanPool if source.kind == "social" and name != "sum" else SumPool
