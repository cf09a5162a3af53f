"""Small graphs of two classes that a planted motif tells apart; they need no file."""

import numpy as np
import torch

from torchsets.data.tu import LabelledGraphs
from torchsets.graphs import Graphs

_SMALLEST, _LARGEST, _CLIQUE, _KINDS = 6, 14, 4, 3


def motif_graphs(count: int, *, seed: int = 0) -> LabelledGraphs:
    """Draw random trees, every second one with a clique of four nodes among its nodes.

    The others have about as many edges at random places, none of which closes a triangle. A node
    has one of three kinds, which says nothing.

    Args:
        count: How many graphs.
        seed: Of the drawing.

    Returns:
        Graphs of 6 to 14 nodes and their labels, 1 with the clique and 0 without, in turn.

    Example:
        >>> graphs, labels = motif_graphs(4)
        >>> labels
        tensor([0, 1, 0, 1])
    """
    rng = np.random.default_rng(seed)
    edges: list[torch.Tensor] = []
    sizes: list[int] = []
    for index in range(count):
        size = int(rng.integers(_SMALLEST, _LARGEST + 1))
        tree = {(int(rng.integers(node)), node) for node in range(1, size)}
        clique = _pairs(np.sort(rng.permutation(size)[:_CLIQUE]).tolist())
        whole = tree | clique
        if index % 2 == 0:
            whole = _without_triangles(tree, len(whole), size, rng)
        both = [pair for i, j in sorted(whole) for pair in ((i, j), (j, i))]
        edges.append(torch.tensor(both).t() + sum(sizes))
        sizes.append(size)
    kinds = torch.from_numpy(rng.integers(_KINDS, size=sum(sizes)))
    joined = torch.cat(edges, dim=1) if edges else torch.zeros(2, 0, dtype=torch.long)
    nodes = torch.zeros(sum(sizes), 0)
    graphs = Graphs(nodes, joined, sizes, categories=kinds, classes=_KINDS)
    return LabelledGraphs(graphs, torch.arange(count) % 2)


def _pairs(nodes: list[int]) -> set[tuple[int, int]]:
    return {(i, j) for i in nodes for j in nodes if i < j}


def _without_triangles(
    tree: set[tuple[int, int]], count: int, size: int, rng: np.random.Generator
) -> set[tuple[int, int]]:
    """Add edges that close no triangle, up to ``count`` in all if there are so many."""
    others = sorted(_pairs(list(range(size))) - tree)
    found = set(tree)
    for pair in (others[place] for place in rng.permutation(len(others))):
        if len(found) < count and not _closes_triangle(found, pair, size):
            found.add(pair)
    return found


def _closes_triangle(edges: set[tuple[int, int]], pair: tuple[int, int], size: int) -> bool:
    def joined(i: int, j: int) -> bool:
        return (min(i, j), max(i, j)) in edges

    return any(joined(pair[0], node) and joined(pair[1], node) for node in range(size))
