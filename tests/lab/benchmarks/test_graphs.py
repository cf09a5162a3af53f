import pytest
import torch

from torchsets.encoders import GIN
from torchsets.lab.benchmarks import graphs
from torchsets.pooling import MeanPool, SumPool, fspool_flat


@pytest.fixture(autouse=True)
def no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))


@pytest.fixture
def small(monkeypatch):
    kind = graphs.Kind(300, 900, 0.5, 5, 8, SumPool)
    monkeypatch.setattr(graphs, "KINDS", dict.fromkeys(graphs.KINDS, kind))


def test_all_variants_compute_the_same(generator):
    assert int(graphs.reddit_sizes().sum()) == 14000
    sizes = graphs.proteins_sizes()
    values = torch.randn(int(sizes.sum()), 3, generator=generator, dtype=torch.float64)
    weight = torch.randn(3, graphs.POINTS, generator=generator, dtype=torch.float64)
    expected = fspool_flat(values, sizes, weight)
    for variant in (graphs.padded_fspool, graphs.grouped_fspool, graphs.plain_fspool):
        # The straightforward implementation has its positions in float32.
        close = {"rtol": 1e-4, "atol": 1e-3} if variant is graphs.plain_fspool else {}
        torch.testing.assert_close(variant(values, sizes, weight), expected, **close)


def test_every_pooling_case_runs_one_step():
    for case in graphs._pooling_cases():
        assert next(iter(case.variants)) == "torchsets"
        case.variants["torchsets"]()()


def test_every_training_case_runs_one_step(small):
    case = graphs.cases()[-1]
    assert case.name == ("GIN training step, random graphs of the size of REDDIT-BINARY, batch 100")
    assert next(iter(case.variants)) == "torchsets"
    for prepare in case.variants.values():
        prepare()()


@pytest.mark.parametrize("pooling", [SumPool, MeanPool])
def test_the_model_of_pyg_computes_the_same(pooling, small):
    pytest.importorskip("torch_geometric", reason="needs pip install 'torchsets[graphs]'")
    torch.manual_seed(0)
    batch, _ = graphs.random_batch(graphs.KINDS["PROTEINS"])
    gin = GIN(5, 2, hidden=8, pooling=pooling).double().eval()
    nodes = torch.randn(batch.nodes.shape, dtype=torch.float64)
    theirs = graphs.PyGModel(gin).double().eval()
    expected = gin(nodes, batch.edges, batch.sizes)
    got = theirs(*graphs.pyg_inputs(nodes, batch.edges, batch.sizes))
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("name", ["IMDB-BINARY", "PROTEINS"])
def test_random_graphs_have_the_size_of_the_dataset(name):
    kind = graphs.KINDS[name]
    (nodes, edges, sizes), labels = graphs.random_batch(kind)
    assert nodes.shape == (kind.nodes, kind.features)
    assert len(sizes) == len(labels) == graphs.GRAPHS
    assert int(sizes.sum()) == kind.nodes
    assert abs(edges.shape[1] - kind.edges) < 0.2 * kind.edges


@pytest.fixture
def three_graphs(tmp_path):
    (tmp_path / "tu").mkdir()
    lines = ["3", *["2 0", "0 1 1", "0 1 0"], *["1 1", "0 0"], *["2 1", "0 1 1", "0 1 0"]]
    (tmp_path / "tu" / "PROTEINS.txt").write_text("\n".join(lines) + "\n")


def test_graphs_of_a_dataset_are_read_where_there_are_some(three_graphs):
    names = [case.name for case in graphs.cases()]
    assert "GIN training step, TUDataset PROTEINS, batch 100" in names
    (nodes, edges, sizes), labels = graphs.load_batch("PROTEINS")
    assert sorted(sizes.tolist()) == [1, 2, 2]
    assert edges.shape == (2, 4)
    assert len(labels) == 3
    assert len(nodes) == 5


@pytest.mark.slow
def test_graphs_are_read_in_another_process(three_graphs):
    expected, labels = graphs.load_batch("PROTEINS")
    got, got_labels = graphs._batch("PROTEINS")
    assert torch.equal(labels, got_labels)
    assert all(torch.equal(one, other) for one, other in zip(expected, got, strict=True))
