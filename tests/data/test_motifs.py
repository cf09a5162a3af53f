from itertools import combinations

import torch

from torchsets.data import motif_graphs


def cliques(graphs, index, size):
    """How many cliques of a size a graph has, by trying all nodes."""
    one = graphs.batch(index)
    pairs = set(zip(*one.edges.tolist(), strict=True))
    return sum(
        all(pair in pairs for pair in combinations(nodes, 2))
        for nodes in combinations(range(int(one.sizes)), size)
    )


def test_the_motif_tells_the_classes_apart():
    graphs, labels = motif_graphs(40, seed=3)
    assert labels.tolist() == [0, 1] * 20
    for index, label in enumerate(labels.tolist()):
        assert (cliques(graphs, index, 4) > 0) == label
        if label == 0:
            assert cliques(graphs, index, 3) == 0


def test_sizes_and_numbers_of_edges_say_little():
    graphs, labels = motif_graphs(400)
    assert graphs.sizes.min() == 6
    assert graphs.sizes.max() == 14
    edges = graphs.edge_counts.double()
    assert abs(edges[labels == 0].mean() / edges[labels == 1].mean() - 1) < 0.1
    assert graphs.features == 3


def test_edges_go_both_ways_and_a_seed_repeats():
    graphs, _ = motif_graphs(10, seed=1)
    pairs = set(zip(*graphs.edges.tolist(), strict=True))
    assert pairs == {(j, i) for i, j in pairs}
    assert len(pairs) == graphs.edges.shape[1]
    assert torch.equal(graphs.edges, motif_graphs(10, seed=1).graphs.edges)
    assert not torch.equal(graphs.sizes, motif_graphs(10, seed=2).graphs.sizes)


def test_no_graphs_are_legal():
    graphs, labels = motif_graphs(0)
    assert len(graphs) == len(labels) == 0
