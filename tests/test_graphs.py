import pytest
import torch

from torchsets import GraphBatch, SetBatch
from torchsets.graphs import Graphs

EDGES = torch.tensor([[0, 1, 5, 3, 4, 5], [1, 0, 4, 4, 3, 3]])  # nodes 0-1, 2, 3-5


def three_graphs(**options):
    nodes = torch.arange(6.0).unsqueeze(1)
    return Graphs(nodes, EDGES, [2, 1, 3], **options)


def test_a_batch_has_its_nodes_and_edges_renumbered():
    batch = three_graphs().batch([2, 0, 2])
    assert batch.nodes.flatten().tolist() == [3, 4, 5, 0, 1, 3, 4, 5]
    assert batch.sizes.tolist() == [3, 2, 3]
    expected = [(2, 1), (0, 1), (1, 0), (2, 0), (3, 4), (4, 3), (7, 6), (5, 6), (6, 5), (7, 5)]
    assert list(zip(*batch.edges.tolist(), strict=True)) == expected


def test_edges_may_come_in_any_order():
    mixed = Graphs(torch.zeros(6, 1), EDGES[:, [2, 0, 3, 1, 4, 5]], [2, 1, 3])
    for graph in range(3):
        expected = three_graphs().batch(graph).edges
        assert torch.equal(mixed.batch(graph).edges, expected)


@pytest.mark.parametrize(
    ("index", "sizes"),
    [
        (1, [1]),
        (-1, [3]),
        (slice(0, 2), [2, 1]),
        (torch.tensor([True, False, True]), [2, 3]),
        ([], []),
    ],
)
def test_graphs_are_picked_as_sets_are(index, sizes):
    batch = three_graphs().batch(index)
    assert batch.sizes.tolist() == sizes
    assert len(batch.nodes) == sum(sizes)


@pytest.mark.parametrize("index", [[2, 0], slice(0, 2), []])
def test_batches_stay_on_their_device(index):
    graphs = three_graphs(categories=torch.tensor([0, 1, 2, 0, 0, 1]), classes=3)
    expected = graphs.batch(index)
    with torch.device("meta"):  # where no device is named
        got = graphs.batch(index)
    for part, wanted in zip(got, expected, strict=True):
        assert torch.equal(part, wanted)


def test_categories_come_one_hot_behind_the_features():
    graphs = three_graphs(categories=torch.tensor([0, 1, 2, 0, 0, 1]), classes=3)
    assert graphs.features == 4
    assert graphs.batch([1, 0]).nodes.tolist() == [[2, 0, 0, 1], [0, 1, 0, 0], [1, 0, 1, 0]]


def test_nodes_are_a_set(generator):
    batch = three_graphs().batch(slice(None))
    assert SetBatch.from_flat(batch.nodes, batch.sizes).sizes.tolist() == [2, 1, 3]


def test_moves_and_describes_itself():
    batch = three_graphs().batch(slice(None)).to(torch.float64)
    assert batch.nodes.dtype == torch.float64
    assert batch.edges.dtype == batch.sizes.dtype == torch.long
    assert repr(batch) == "GraphBatch(3 graphs of 1 to 3 nodes, 6 edges, 1 feature, float64, cpu)"
    text = "Graphs(3 graphs of 1 to 3 nodes, 6 edges, 1 feature, float32, cpu)"
    assert repr(three_graphs()) == text
    assert "unknown size" in repr(batch.to("meta"))
    assert isinstance(batch.to("cpu", torch.float32), GraphBatch)
    with pytest.raises(ValueError, match="dtype must be floating point"):
        batch.to(torch.long)


@pytest.mark.parametrize(
    ("nodes", "edges", "sizes", "message"),
    [
        (torch.zeros(6), EDGES, [6], r"nodes must be floating point with shape \(total, A\)"),
        (torch.zeros(6, 1), EDGES[0], [6], r"edges must be long with shape \(2, E\)"),
        (torch.zeros(6, 1), EDGES.float(), [6], r"edges must be long with shape \(2, E\)"),
        (torch.zeros(6, 1), EDGES, [5], "sizes must be non-negative and add up to the 6 rows"),
        (torch.zeros(6, 1), EDGES + 1, [6], "edges must be between the 6 nodes"),
        (torch.zeros(6, 1), EDGES, [1, 5], "edges must join nodes of one graph"),
    ],
)
def test_rejects_bad_input(nodes, edges, sizes, message):
    with pytest.raises(ValueError, match=message):
        Graphs(nodes, edges, sizes)


def test_rejects_categories_of_other_length():
    with pytest.raises(ValueError, match=r"long with shape \(6,\), got torch.int64 \(5,\)"):
        three_graphs(categories=torch.zeros(5).long(), classes=1)


@pytest.mark.parametrize(
    ("categories", "classes", "message"),
    [
        (torch.zeros(6), 1, r"categories must be long with shape \(6,\), got torch.float32"),
        (torch.arange(6), 5, "below the number of classes, 5, and not negative, got 0 to 5"),
        (torch.zeros(6).long(), 0, "below the number of classes, 0"),
        (torch.zeros(6).long() - 1, 2, "not negative, got -1 to -1"),
    ],
)
def test_rejects_categories_that_are_none(categories, classes, message):
    with pytest.raises(ValueError, match=message):
        three_graphs(categories=categories, classes=classes)


def test_features_are_those_of_a_batch():
    edges = torch.tensor([[0, 1], [1, 0]])
    plain = Graphs(torch.zeros(4, 1), edges, [2, 2], classes=5)  # without categories
    assert plain.features == plain.batch([0]).nodes.shape[1] == 1
