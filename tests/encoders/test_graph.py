from functools import partial

import pytest
import torch
from torch import nn

from torchsets import GraphBatch, SetBatch
from torchsets.encoders import GIN, graph, neighbour_sums
from torchsets.pooling import FSPool, MaxPool, MeanPool, SumPool
from torchsets.testing import assert_obeys_laws, random_sets

CLOSE = {"rtol": 1e-9, "atol": 1e-9}  # the author's numbers, float64
POOLINGS = {
    "fspool": partial(FSPool, pieces=5),
    "sum": SumPool,
    "mean": MeanPool,
}
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)


def load_norm(norm, arrays):
    places = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
    for place, row in zip(places, arrays, strict=True):
        place.copy_(row)


def load_linear(linear, arrays, name):
    linear.weight.copy_(arrays[f"{name}.weight"])
    linear.bias.copy_(arrays[f"{name}.bias"])


def author_model(arrays, readout, eps):
    classes = arrays["param.head.linear2.weight"].shape[0]
    model = GIN(
        arrays["x"].shape[1], classes, hidden=4, eps=eps, pooling=POOLINGS[readout]
    ).double()
    with torch.no_grad():
        for number, block in enumerate(model.blocks):
            load_linear(block.first, arrays, f"param.block{number}.linear1")
            load_linear(block.second, arrays, f"param.block{number}.linear2")
            load_norm(block.norms[0], arrays[f"param.block{number}.norm1"])
            load_norm(block.norms[1], arrays[f"param.block{number}.norm2"])
            if readout == "fspool":  # the author sorts in ascending order
                model.pools[number].weight.copy_(arrays["param.pools"][number].flip(1))
        load_norm(model.classifier[0], arrays["param.head.norm"])
        load_linear(model.classifier[1], arrays, "param.head.linear1")
        load_linear(model.classifier[4], arrays, "param.head.linear2")
    return model.eval()


@pytest.mark.parametrize(
    ("readout", "eps", "training"),
    [(readout, eps, False) for readout in POOLINGS for eps in ("code", "zero")]
    + [("fspool", "zero", True)],
)
def test_matches_the_author(readout, eps, training, golden):
    arrays = golden("gin")
    name = f"{readout}_eps_{eps}" + "_train" * training
    model = author_model(arrays, readout, {"code": "inputs", "zero": 0.0}[eps]).train(training)
    assert model.blocks[1].eps == (4 if eps == "code" else 0)
    x = arrays["x"].requires_grad_()
    edges, sizes = arrays["edges"].long(), arrays["sizes"].long()
    logits = model(x, edges, sizes)
    torch.testing.assert_close(logits.log_softmax(dim=1), arrays[f"out.{name}"], **CLOSE)
    if not training:
        readouts = model.readouts(x, edges, sizes)
        torch.testing.assert_close(readouts, arrays[f"readout.{name}"], **CLOSE)
    loss = nn.functional.cross_entropy(logits, arrays["labels"].long())
    torch.testing.assert_close(loss, arrays[f"loss.{name}"], **CLOSE)
    loss.backward()
    for got, key in (
        (x.grad, "grad_x"),
        (model.blocks[0].first.weight.grad, "grad_first"),
        (model.blocks[4].second.weight.grad, "grad_last"),
        (model.classifier[1].weight.grad, "grad_head"),
    ):
        torch.testing.assert_close(got, arrays[f"{key}.{name}"], **CLOSE)
    if readout == "fspool":
        got = torch.stack([pool.weight.grad.flip(1) for pool in model.pools])
        torch.testing.assert_close(got, arrays[f"grad_pools.{name}"], **CLOSE)


def random_graphs(generator, sizes=(3, 1, 5, 0, 4), features=3, dtype=torch.float64):
    nodes = torch.randn(sum(sizes), features, generator=generator, dtype=dtype)
    edges, start = [], 0
    for size in sizes:
        pairs = (torch.rand(size, size, generator=generator) < 0.5).triu(1)
        edges.append((pairs | pairs.t()).nonzero().t() + start)
        start += size
    return GraphBatch(nodes, torch.cat(edges, dim=1), torch.tensor(sizes))


def test_sums_match_a_dense_matrix_with_their_gradients(generator):
    nodes, _, _ = random_graphs(generator)
    edges = torch.tensor([[0, 0, 2, 5, 5], [1, 2, 0, 4, 4]])  # one way only, one edge twice
    dense = torch.zeros(13, 13, dtype=torch.float64)
    dense.index_put_((edges[0], edges[1]), torch.ones(5).double(), accumulate=True)
    torch.testing.assert_close(neighbour_sums(nodes, edges), dense @ nodes)
    nodes.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: neighbour_sums(x, edges).pow(3), nodes, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(lambda x: neighbour_sums(x, edges).pow(3), nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_sparse_product_equals_plain_sums(dtype, generator, monkeypatch):
    nodes, edges, _ = random_graphs(generator, dtype=torch.float32)
    nodes = nodes.to(dtype)
    fast = neighbour_sums(nodes, edges)
    monkeypatch.setattr(graph, "is_traced", lambda: True)
    torch.testing.assert_close(fast, neighbour_sums(nodes, edges))


@pytest.mark.parametrize("pooling", [SumPool, MeanPool, MaxPool, FSPool], ids=lambda p: p.__name__)
def test_a_graph_is_the_same_alone_and_with_renumbered_nodes(pooling, generator):
    model = GIN(3, 2, hidden=4, pooling=pooling).double().eval()
    graphs = random_graphs(generator)
    batched = model(*graphs)
    assert torch.isfinite(batched).all()
    start = 0
    for number, size in enumerate(graphs.sizes.tolist()):
        inside = (graphs.edges[0] >= start) & (graphs.edges[0] < start + size)
        nodes, edges = graphs.nodes[start : start + size], graphs.edges[:, inside] - start
        alone = model(nodes, edges, torch.tensor([size]))
        torch.testing.assert_close(alone[0], batched[number])
        order = torch.randperm(size, generator=generator)
        renumbered = model(nodes[order], order.argsort()[edges], torch.tensor([size]))
        torch.testing.assert_close(renumbered[0], batched[number])
        start += size


def test_edges_matter(generator):
    model = GIN(3, 2, hidden=4).double().eval()
    graphs = random_graphs(generator)
    without = model(graphs.nodes, NO_EDGES, graphs.sizes)
    assert not torch.allclose(model(*graphs), without)


def test_obeys_the_laws_of_sets_without_edges(generator):
    model = GIN(3, 2, hidden=4, pooling=FSPool).double().eval()

    def function(elements, mask):
        nodes, sizes = SetBatch(elements, mask).to_flat()
        return model(nodes, NO_EDGES, sizes)

    assert_obeys_laws(function, *random_sets([3, 0, 5], features=3, generator=generator))


def test_the_readout_can_be_any_module_for_padded_sets(generator):
    class First(nn.Module):
        """Not in the library, without pool_flat, and it halves the features."""

        def forward(self, elements, mask):
            return elements.masked_fill(~mask.unsqueeze(-1), 0).sum(dim=1)[:, ::2]

    model = GIN(3, 2, hidden=4, blocks=2, pooling=First).double().eval()
    assert model.readouts(*random_graphs(generator)).shape == (5, 4)


@pytest.mark.parametrize(
    ("features", "classes", "hidden", "pooled", "expected"),
    [(7, 2, 32, False, 15_938), (7, 2, 32, True, 16_898), (493, 3, 64, True, 93_635)],
)
def test_has_as_many_weights_as_the_released_model(features, classes, hidden, pooled, expected):
    pooling = partial(FSPool, pieces=5, init="ones") if pooled else SumPool
    model = GIN(features, classes, hidden=hidden, pooling=pooling)
    assert sum(one.numel() for one in model.parameters()) == expected


def test_norm_first_changes_the_order(generator):
    torch.manual_seed(0)
    graphs = random_graphs(generator)
    model = GIN(3, 2, hidden=4, norm_first=True).double().train()
    nodes = model.blocks[0](graphs.nodes, graphs.edges, None)
    assert nodes.min() == 0  # ReLU comes last


def test_a_step_trains_and_dropout_is_there(generator):
    torch.manual_seed(0)
    graphs = random_graphs(generator, dtype=torch.float32)
    model = GIN(3, 2, hidden=8, pooling=FSPool, dropout=0.5)
    loss = model(*graphs).square().sum()
    loss.backward()
    assert all(one.grad is not None for one in model.parameters())
    assert model.classifier[3].p == 0.5


@pytest.mark.slow
def test_compiles_and_exports_with_open_sizes(generator):
    model = GIN(3, 2, hidden=4, blocks=2, pooling=FSPool).double().eval()
    one, other = random_graphs(generator), random_graphs(generator, sizes=(2, 9, 3))
    total, pairs, count = (torch.export.Dim(name) for name in ("total", "pairs", "count"))
    shapes = ({0: total}, {1: pairs}, {0: count})
    exported = torch.export.export(model, tuple(one), dynamic_shapes=shapes).module()
    torch.testing.assert_close(exported(*other), model(*other))
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*other), model(*other))


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (torch.zeros(3), NO_EDGES, r"nodes must have shape \(total, D\)"),
        (torch.zeros(3, 2).long(), NO_EDGES, "nodes must be floating point"),
        (torch.zeros(3, 2), NO_EDGES.t(), r"edges must be long with shape \(2, E\)"),
        (torch.zeros(3, 2), torch.zeros(2, 4), r"edges must be long with shape \(2, E\)"),
        (torch.zeros(3, 2), torch.tensor([[0], [3]]), "edges must be between the 3 nodes"),
        (torch.zeros(3, 2), torch.tensor([[-1], [0]]), "edges must be between the 3 nodes"),
    ],
)
def test_rejects_bad_input(nodes, edges, message):
    with pytest.raises(ValueError, match=message):
        neighbour_sums(nodes, edges)


def test_rejects_bad_options():
    with pytest.raises(ValueError, match="blocks must be at least 1, got 0"):
        GIN(3, 2, hidden=4, blocks=0)
    with pytest.raises(ValueError, match="eps must be a number or \"inputs\", got 'input'"):
        GIN(3, 2, hidden=4, eps="input")
