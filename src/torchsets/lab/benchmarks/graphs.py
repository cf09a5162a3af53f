"""Graphs: FSPool over their nodes, flat and padded; a GIN training step beside torch_geometric's.

GIN learns from a batch of TUDataset if the data folder has it, else from random graphs of the same
size; the name of the case says which. Without torch_geometric its variants are left out.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsets._extras import import_extra
from torchsets.data.tu import find_tu, tu_graphs
from torchsets.encoders import GIN
from torchsets.graphs import GraphBatch
from torchsets.lab.benchmarks.harness import Case, Step
from torchsets.padded import SetBatch
from torchsets.pooling import FSPool, MeanPool, SortPool, SumPool, by_size, fspool, fspool_flat

POINTS = 6
GRAPHS = 100
TOP = 10  # how many nodes SortAggregation keeps
Function = Callable[[Tensor, Tensor, Tensor], Tensor]


class Kind(NamedTuple):
    """What a batch of a dataset is like, and the model for it.

    Attributes:
        nodes: Of all graphs of a batch.
        edges: Of all graphs, in both directions.
        spread: The standard deviation of the logarithm of the sizes.
        features: Of a node.
        hidden: Width of the model.
        pool: The readout of the model.
    """

    nodes: int
    edges: int
    spread: float
    features: int
    hidden: int
    pool: type[nn.Module]


KINDS = {
    "IMDB-BINARY": Kind(1937, 17962, 0.39, 137, 64, MeanPool),
    "COLLAB": Kind(6987, 379650, 0.54, 493, 64, MeanPool),
    "PROTEINS": Kind(3584, 13776, 0.86, 4, 32, SumPool),
    "REDDIT-BINARY": Kind(41852, 96812, 1.19, 1, 64, MeanPool),
}


def cases() -> list[Case]:
    """FSPool on flat sets, and whole training steps of GIN."""
    return [*_pooling_cases(), *(_step_case(name) for name in KINDS)]


def _pooling_cases() -> list[Case]:
    """A batch like one of REDDIT-BINARY, one like PROTEINS, and one with equal sizes."""
    batches = {
        "REDDIT-like, 32 graphs, 14000 nodes, 64 features": (reddit_sizes(), 64),
        "PROTEINS-like, 32 graphs, one of 620 nodes, 32 features": (proteins_sizes(), 32),
        "equal, 32 graphs of 342 nodes, 64 features": (torch.full((32,), 342), 64),
    }
    return [
        Case(
            f"FSPool {name}, forward + backward",
            {
                "torchsets": partial(_prepare, fspool_flat, sizes, features),
                "torchsets, padded": partial(_prepare, padded_fspool, sizes, features),
                "torchsets, by size": partial(_prepare, grouped_fspool, sizes, features),
                "plain: two stable sorts": partial(_prepare, plain_fspool, sizes, features),
            },
        )
        for name, (sizes, features) in batches.items()
    ]


def _step_case(name: str) -> Case:
    pool = KINDS[name].pool
    ranked = partial(FSPool, pieces=POINTS - 1, init="ones")
    variants: dict[str, Callable[[], Step]] = {"torchsets": partial(_prepare_step, name, pool)}
    if find_spec("torch_geometric") is not None:
        variants["torch_geometric"] = partial(_prepare_step, name, pool, pyg=True)
    variants["torchsets, FSPool"] = partial(_prepare_step, name, ranked)
    if find_spec("torch_geometric") is not None:
        sort = partial(SortPool, TOP)
        variants["torch_geometric, SortAggregation"] = partial(_prepare_step, name, sort, pyg=True)
    source = "random graphs of the size of" if find_tu(name) is None else "TUDataset"
    return Case(f"GIN training step, {source} {name}, batch {GRAPHS}", variants)


def reddit_sizes() -> Tensor:
    """32 sizes with a long tail that add up to 14000."""
    return spread_sizes(32, 14000, 1.0)


def spread_sizes(count: int, total: int, spread: float) -> Tensor:
    """Log-normal sizes that add up to the total."""
    draw = (spread * torch.randn(count, generator=torch.Generator().manual_seed(0))).exp()
    sizes = (draw * (total / draw.sum())).long()
    sizes[0] += total - sizes.sum()
    return sizes


def proteins_sizes() -> Tensor:
    """31 sizes around 39, and one of 620."""
    sizes = torch.randint(10, 69, (32,), generator=torch.Generator().manual_seed(0))
    sizes[7] = 620
    return sizes


def padded_fspool(values: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """Pad all sets to the largest."""
    elements, mask = SetBatch.from_flat(values, sizes)
    return fspool(elements, weight, mask)


def grouped_fspool(values: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """Pad sets of similar size together."""
    return by_size(_Pool(weight))(values, sizes)


def plain_fspool(values: Tensor, sizes: Tensor, weight: Tensor) -> Tensor:
    """Sort by value, then stably by set, and weight the ranks, as one writes it first."""
    numbers = torch.arange(len(sizes)).repeat_interleave(sizes)
    order = values.argsort(dim=0, descending=True, stable=True)
    order = order.gather(0, numbers[order].argsort(dim=0, stable=True))
    ranked = values.gather(0, order)
    rank = torch.arange(len(values)) - (sizes.cumsum(0) - sizes)[numbers]
    position = rank / (sizes[numbers] - 1).clamp(min=1) * (weight.shape[1] - 1)
    left = position.long().clamp(max=weight.shape[1] - 2)
    along = (position - left).unsqueeze(1)
    weights = (1 - along) * weight.t()[left] + along * weight.t()[left + 1]
    pooled = values.new_zeros(len(sizes), values.shape[1])
    return pooled.index_add(0, numbers, ranked * weights)


def _prepare(function: Function, sizes: Tensor, features: int) -> Step:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(int(sizes.sum()), features, generator=generator, requires_grad=True)
    weight = torch.randn(features, POINTS, generator=generator, requires_grad=True)

    def step() -> None:
        torch.autograd.grad(function(values, sizes, weight).sum(), (values, weight))

    return step


class _Pool(nn.Module):
    """FSPool with weights that come from outside."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        return fspool(elements, self.weight, mask)


def load_batch(name: str) -> tuple[GraphBatch, Tensor]:
    """Some graphs of a dataset of TUDataset, and their labels."""
    graphs, labels = tu_graphs(name)
    chosen = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0))[:GRAPHS]
    return graphs.batch(chosen), labels[chosen]


def random_batch(kind: Kind) -> tuple[GraphBatch, Tensor]:
    """Random graphs; as in the datasets, a node has a constant 1 and its degree, one-hot."""
    generator = torch.Generator().manual_seed(0)
    sizes = spread_sizes(GRAPHS, kind.nodes, kind.spread)
    edges, start = [], 0
    for size in sizes.tolist():
        share = kind.edges / kind.nodes / max(1, size - 1)
        pairs = (torch.rand(size, size, generator=generator) < share).triu(1)
        edges.append((pairs | pairs.t()).nonzero().t() + start)
        start += size
    joined = torch.cat(edges, dim=1)
    nodes = torch.zeros(kind.nodes, kind.features)
    nodes[:, 0] = 1
    if kind.features > 1:
        degree = torch.bincount(joined[0], minlength=kind.nodes) % (kind.features - 1)
        nodes.scatter_(1, 1 + degree.unsqueeze(1), 1)
    labels = torch.randint(2, (GRAPHS,), generator=generator)
    return GraphBatch(nodes, joined, sizes), labels


def _batch(name: str) -> tuple[GraphBatch, Tensor]:
    if find_tu(name) is None:
        return random_batch(KINDS[name])
    # In another process: the memory of a step is its growth beyond all that was used before.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        arrays = pool.submit(_load_arrays, name).result()
    nodes, edges, sizes, labels = (torch.from_numpy(array) for array in arrays)
    return GraphBatch(nodes, edges, sizes), labels


def _load_arrays(name: str) -> list[Any]:
    batch, labels = load_batch(name)
    return [tensor.numpy() for tensor in (*batch, labels)]


def _prepare_step(name: str, pooling: Callable[..., nn.Module], *, pyg: bool = False) -> Step:
    (nodes, edges, sizes), labels = _batch(name)
    torch.manual_seed(0)
    classes = int(labels.max()) + 1
    gin = GIN(nodes.shape[1], classes, hidden=KINDS[name].hidden, pooling=pooling)
    model: nn.Module = PyGModel(gin) if pyg else gin
    inputs = pyg_inputs(nodes, edges, sizes) if pyg else (nodes, edges, sizes)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)

    def step() -> None:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(*inputs), labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        optimiser.step()

    return step


class PyGModel(nn.Module):
    """The same model written with torch_geometric, which shares the layers of a GIN.

    ``GINConv`` gives these layers new weights.
    """

    def __init__(self, gin: GIN) -> None:
        super().__init__()
        pyg = import_extra("torch_geometric.nn", "graphs")
        make = {
            SumPool: pyg.SumAggregation,
            MeanPool: pyg.MeanAggregation,
            SortPool: partial(pyg.SortAggregation, TOP),
        }
        self.layers = nn.ModuleList(pyg.GINConv(_network(block)) for block in gin.blocks)
        self.pools = nn.ModuleList(make[type(pool)]() for pool in gin.pools)
        self.classifier = gin.classifier

    def forward(self, nodes: Tensor, edges: Tensor, index: Tensor, count: int) -> Tensor:
        pooled = []
        for layer, pool in zip(self.layers, self.pools, strict=True):
            nodes = layer(nodes, edges)
            pooled.append(pool(nodes, index, dim_size=count))
        return self.classifier(torch.cat(pooled, dim=1))


def pyg_inputs(nodes: Tensor, edges: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """A GraphBatch for :class:`PyGModel`; there an edge goes from sender to receiver."""
    index = torch.arange(len(sizes)).repeat_interleave(sizes)
    return nodes, edges.flip(0).contiguous(), index, len(sizes)


def _network(block: Any) -> nn.Sequential:
    first, second = block.norms
    return nn.Sequential(block.first, nn.ReLU(), first, block.second, nn.ReLU(), second)
