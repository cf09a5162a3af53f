"""The adapter beside torch_geometric itself, by the conventions of its own aggregations."""

import pytest
import torch
from torch import nn

pyg = pytest.importorskip(
    "torch_geometric", reason="torch_geometric is not installed: pip install 'torchsets[graphs]'"
)

from torch_geometric import nn as pyg_nn  # noqa: E402
from torch_geometric.data import Batch, Data  # noqa: E402

from torchsets.encoders import GIN, DeepSets, PointNet, neighbour_sums  # noqa: E402
from torchsets.interop.pyg import FSPoolAggregation, SetAggregation  # noqa: E402
from torchsets.mlp import MLP  # noqa: E402
from torchsets.pooling import FSPool, MaxPool, MeanPool, MinPool, SumPool, fspool  # noqa: E402

PAIRS = [
    pytest.param(SumPool(), pyg_nn.SumAggregation(), id="sum"),
    pytest.param(MeanPool(), pyg_nn.MeanAggregation(), id="mean"),
    pytest.param(MaxPool(), pyg_nn.MaxAggregation(), id="max"),
    pytest.param(MinPool(), pyg_nn.MinAggregation(), id="min"),
]
POOLS = {
    "sum": SumPool,
    "fspool": lambda: FSPool(3),
    "by size": lambda: DeepSets(MLP(3, 8, 8), FSPool(8), MLP(8, 8, 5)),
}
INDEX = torch.tensor([2, 0, 2, 4, 0, 2, 2])  # not sorted; groups 1, 3 and 5 are empty


@pytest.mark.parametrize(("pool", "oracle"), PAIRS)
@pytest.mark.parametrize("dim_size", [None, 6])
def test_agrees_with_the_aggregations_of_pyg(pool, oracle, dim_size, generator):
    x = torch.randn(7, 3, generator=generator)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    got = SetAggregation(pool)(ours, INDEX, dim_size=dim_size)
    expected = oracle(theirs, INDEX, dim_size=dim_size)
    torch.testing.assert_close(got, expected)
    got.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.fixture(params=POOLS)
def aggregation(request):
    torch.manual_seed(0)
    return SetAggregation(POOLS[request.param]())


def test_each_group_is_pooled_as_a_set(aggregation, generator):
    x = torch.randn(7, 3, generator=generator)
    got = aggregation(x, INDEX, dim_size=6)
    pool = getattr(aggregation.pool, "module", aggregation.pool)
    for group in range(6):
        torch.testing.assert_close(got[group], pool(x[INDEX == group].unsqueeze(0))[0])


def test_index_and_ptr_agree(aggregation, generator):
    x = torch.randn(7, 3, generator=generator)
    ptr = torch.tensor([0, 2, 2, 5, 7])
    index = torch.tensor([0, 0, 2, 2, 2, 3, 3])
    expected = aggregation(x, index)
    torch.testing.assert_close(aggregation(x, ptr=ptr), expected)
    torch.testing.assert_close(aggregation(x, index, ptr=ptr), expected)
    shuffled = torch.randperm(7, generator=generator)
    torch.testing.assert_close(aggregation(x[shuffled], index[shuffled]), expected)


def test_one_group_without_index_and_none_without_elements(aggregation, generator):
    x = torch.randn(7, 3, generator=generator)
    assert len(aggregation(x)) == 1
    nothing = aggregation(x[:0], INDEX[:0])
    assert nothing.shape[0] == 0
    assert len(aggregation(x[:0], INDEX[:0], dim_size=2)) == 2


def test_errors_are_those_of_pyg(aggregation):
    x = torch.zeros(7, 3)
    with pytest.raises(ValueError, match="invalid 'dim_size'"):
        aggregation(x, INDEX, dim_size=3)
    with pytest.raises(ValueError, match="invalid 'dim_size'"):
        aggregation(x, ptr=torch.tensor([0, 7]), dim_size=3)
    with pytest.raises(ValueError, match="two-dimensional inputs"):
        aggregation(x.unsqueeze(0), INDEX)
    with pytest.raises(ValueError, match="first dimension"):
        aggregation(x, INDEX, dim=1)


def test_works_in_layers_and_beside_other_aggregations(generator):
    x = torch.randn(5, 3, generator=generator)
    edges = torch.tensor([[0, 4, 1, 2, 3], [1, 0, 0, 1, 4]])  # pyg: from row 0 to row 1
    plain = pyg_nn.GINConv(nn.Identity())
    ours = pyg_nn.GINConv(nn.Identity(), aggr=FSPoolAggregation(3, init="ones"))
    torch.testing.assert_close(ours(x, edges), plain(x, edges))
    both = pyg_nn.MultiAggregation(["mean", SetAggregation(FSPool(3))])
    assert both(x, torch.tensor([0, 1, 0, 1, 1])).shape == (2, 6)
    sage = pyg_nn.SAGEConv(3, 4, aggr=FSPoolAggregation(3))
    sage(x, edges).sum().backward()
    assert sage.aggr_module.pool.weight.grad is not None


def test_repr_and_reset_follow_pyg():
    aggregation = FSPoolAggregation(3, pieces=5)
    assert repr(aggregation) == "FSPoolAggregation(features=3, pieces=5)"
    assert repr(SetAggregation(SumPool())) == "SetAggregation(SumPool())"
    before = aggregation.pool.weight.clone()
    aggregation.reset_parameters()
    assert not torch.equal(before, aggregation.pool.weight)
    ones = FSPoolAggregation(3, init="ones")
    with torch.no_grad():
        ones.pool.weight.zero_()
    ones.reset_parameters()
    assert (ones.pool.weight == 1).all()
    layer = pyg_nn.GINConv(nn.Identity(), aggr=ones)
    layer.reset_parameters()
    grouped = SetAggregation(DeepSets(MLP(3, 8, 8), FSPool(8)))
    before = grouped.pool.module.pool.weight.clone()
    grouped.reset_parameters()
    assert not torch.equal(before, grouped.pool.module.pool.weight)


@pytest.mark.slow
def test_a_model_with_it_compiles(generator):
    model = pyg_nn.GINConv(nn.Linear(3, 2), aggr=FSPoolAggregation(3))
    x = torch.randn(5, 3, generator=generator)
    edges = torch.tensor([[0, 4, 1, 2, 3], [1, 0, 0, 1, 4]])
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(compiled(x, edges), model(x, edges))


def test_fspool_agrees_with_the_padded_form(generator):
    x = torch.randn(6, 3, generator=generator)
    aggregation = FSPoolAggregation(3)
    expected = fspool(x.view(2, 3, 3), aggregation.pool.weight)
    torch.testing.assert_close(aggregation(x, torch.tensor([0, 0, 0, 1, 1, 1])), expected)


def test_pyg_is_the_oracle_of_neighbour_sums_and_gin(generator):
    graphs = []
    for size in (4, 1, 6):
        pairs = (torch.rand(size, size, generator=generator) < 0.5).triu(1)
        edges = (pairs | pairs.t()).nonzero().t()
        graphs.append(Data(x=torch.randn(size, 3, generator=generator), edge_index=edges))
    batch = Batch.from_data_list(graphs)
    model = GIN(3, 2, hidden=4, blocks=2, eps=0.5).eval()
    sizes = batch.ptr.diff()
    sums = pyg_nn.SimpleConv(aggr="sum")(batch.x, batch.edge_index)
    torch.testing.assert_close(neighbour_sums(batch.x, batch.edge_index), sums)
    x, pooled = batch.x, []
    for block in model.blocks:
        mlp = nn.Sequential(
            block.first, nn.ReLU(), block.norms[0], block.second, nn.ReLU(), block.norms[1]
        )
        x = pyg_nn.GINConv(mlp, eps=0.5)(x, batch.edge_index)
        pooled.append(pyg_nn.global_add_pool(x, batch.batch))
    expected = model.classifier(torch.cat(pooled, dim=1))
    torch.testing.assert_close(model(batch.x, batch.edge_index, sizes), expected)


def test_an_index_must_name_a_group_for_each_row():
    with pytest.raises(ValueError, match=r"index must have shape \(total,\) = \(5\), got \(3,\)"):
        SetAggregation(SumPool())(torch.zeros(5, 1), torch.tensor([1, 0, 1]))


def test_half_a_model_is_not_drawn_anew():
    aggregation = SetAggregation(PointNet(3, 2))
    with pytest.raises(TypeError, match="weights of ContextLinear cannot be drawn anew"):
        aggregation.reset_parameters()
