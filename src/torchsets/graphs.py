"""Graphs as sets of nodes with edges: one batch, and many graphs to take batches from."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import name_for_export
from torchsets._inputs import Array, run_places, to_index, to_sizes
from torchsets.padded import Device, device_and_dtype, place, plural, span


class GraphBatch(NamedTuple):
    """A batch of graphs: the nodes of all of them one after the other, without padding.

    It is a tuple, so ``model(*graphs)`` works. ``SetBatch.from_flat(graphs.nodes, graphs.sizes)``
    are the nodes as padded sets.

    Attributes:
        nodes: The features of all nodes, (total, D), floating point.
        edges: Pairs of nodes, (2, E), long: node ``edges[0, e]`` receives from ``edges[1, e]``.
            Nodes are numbered through the batch. An undirected edge is there both ways.
        sizes: The number of nodes of each graph, (B,), long.

    Example:
        >>> GraphBatch(torch.zeros(3, 7), torch.tensor([[0, 1], [1, 0]]), torch.tensor([2, 1]))
        GraphBatch(2 graphs of 1 to 2 nodes, 2 edges, 7 features, float32, cpu)
    """

    nodes: Tensor
    edges: Tensor
    sizes: Tensor

    def to(
        self,
        device: Device | torch.dtype | None = None,
        dtype: torch.dtype | None = None,
        *,
        non_blocking: bool = False,
    ) -> "GraphBatch":
        """The same graphs on another device, with features of another dtype, or both."""
        device, dtype = device_and_dtype(device, dtype)
        return GraphBatch(
            self.nodes.to(device, dtype, non_blocking=non_blocking),
            self.edges.to(device, non_blocking=non_blocking),
            self.sizes.to(device, non_blocking=non_blocking),
        )

    def pin_memory(self) -> "GraphBatch":
        """The same graphs in page-locked memory."""
        return GraphBatch(self.nodes.pin_memory(), self.edges.pin_memory(), self.sizes.pin_memory())

    def __repr__(self) -> str:
        return (
            f"GraphBatch({plural(len(self.sizes), 'graph')} of {span(self.sizes, 'node')}, "
            f"{plural(self.edges.shape[1], 'edge')}, {plural(self.nodes.shape[1], 'feature')}, "
            f"{place(self.nodes)})"
        )


class Graphs:
    """Many graphs, stored flat; ``graphs.batch(index)`` takes some of them as a GraphBatch.

    Args:
        nodes: The features of all nodes, (total, A), floating point. A may be 0.
        edges: Pairs of nodes, (2, E), long, numbered through all graphs; no edge joins two graphs.
        sizes: The number of nodes of each graph, (S,), integer.
        categories: The category of each node, (total,), long, which a batch has one-hot behind
            the features. None: no categories.
        classes: The number of categories.

    Raises:
        ValueError: If a shape or dtype differs from the above, or an edge leaves its graph.

    Example:
        >>> edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> graphs = Graphs(torch.zeros(4, 1), edges, [2, 2])
        >>> graphs.batch([1]).edges
        tensor([[0, 1],
                [1, 0]])
    """

    def __init__(
        self,
        nodes: Tensor,
        edges: Tensor,
        sizes: Tensor | Array | Sequence[int],
        *,
        categories: Tensor | None = None,
        classes: int = 0,
    ) -> None:
        if nodes.ndim != 2 or not nodes.is_floating_point():
            raise ValueError(
                "nodes must be floating point with shape (total, A), "
                f"got {nodes.dtype} {tuple(nodes.shape)}"
            )
        if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype != torch.long:
            raise ValueError(
                f"edges must be long with shape (2, E), got {edges.dtype} {tuple(edges.shape)}"
            )
        if categories is not None:
            _check_categories(categories, len(nodes), classes)
        self.nodes, self.categories, self.classes = nodes, categories, classes
        self.sizes = to_sizes(sizes, nodes)
        self._starts = self.sizes.cumsum(0) - self.sizes
        if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < len(nodes):
            raise ValueError(f"edges must be between the {len(nodes)} nodes, got others")
        numbers = torch.arange(len(self.sizes), device=self.sizes.device)
        graph_of = numbers.repeat_interleave(self.sizes)
        owners = graph_of[edges[0]]
        if not torch.equal(owners, graph_of[edges[1]]):
            raise ValueError("edges must join nodes of one graph, got some between two graphs")
        # By graph, so that those of a batch are runs; the order within a graph stays.
        in_order = bool((owners[1:] >= owners[:-1]).all())
        self.edges = edges if in_order else edges[:, owners.argsort(stable=True)]
        self.edge_counts = torch.bincount(owners, minlength=len(self.sizes))
        self._edge_starts = self.edge_counts.cumsum(0) - self.edge_counts

    @property
    def features(self) -> int:
        """The number of features of a node in a batch."""
        return self.nodes.shape[1] + (0 if self.categories is None else self.classes)

    def __len__(self) -> int:
        return len(self.sizes)

    def batch(self, index: int | slice | Tensor | Array | Sequence[int]) -> GraphBatch:
        """Some of the graphs: an int, a slice, integers (B,), or one bool for each graph."""
        chosen = to_index(index, len(self), of="graphs")
        if isinstance(chosen, int):
            chosen = slice(chosen, chosen + 1)
        if isinstance(chosen, slice):
            chosen = torch.arange(len(self), device=self.sizes.device)[chosen]
        chosen = chosen.to(self.sizes.device)
        sizes, counts = self.sizes[chosen], self.edge_counts[chosen]
        places = run_places(self._starts[chosen], sizes)
        nodes = self.nodes[places]
        if self.categories is not None:
            one_hot = nodes.new_zeros(len(places), self.classes)
            one_hot.scatter_(1, self.categories[places].unsqueeze(1), 1)
            nodes = torch.cat([nodes, one_hot], dim=1)
        moved = (sizes.cumsum(0) - sizes) - self._starts[chosen]  # from old number to new
        edges = self.edges[:, run_places(self._edge_starts[chosen], counts)]
        return GraphBatch(nodes, edges + moved.repeat_interleave(counts), sizes)

    def __repr__(self) -> str:
        return (
            f"Graphs({plural(len(self), 'graph')} of {span(self.sizes, 'node')}, "
            f"{plural(self.edges.shape[1], 'edge')}, {plural(self.features, 'feature')}, "
            f"{place(self.nodes)})"
        )


def _check_categories(categories: Tensor, nodes: int, classes: int) -> None:
    if categories.shape != (nodes,) or categories.dtype != torch.long:
        raise ValueError(
            f"categories must be long with shape ({nodes},), "
            f"got {categories.dtype} {tuple(categories.shape)}"
        )
    if nodes and not 0 <= int(categories.min()) <= int(categories.max()) < classes:
        raise ValueError(
            f"categories must be below the number of classes, {classes}, and not negative, "
            f"got {int(categories.min())} to {int(categories.max())}"
        )


name_for_export(GraphBatch)
