"""Flat sets: the same numbers and gradients as the padded form, for every pooling."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from torchsets import SetBatch, flat, pooling
from torchsets.encoders import DeepSets
from torchsets.mlp import MLP
from torchsets.pooling import (
    AttentionPool,
    FSPool,
    MaxPool,
    MeanPool,
    MinPool,
    SortPool,
    SumPool,
    by_size,
    fspool,
    fspool_flat,
    max_pool_flat,
)
from torchsets.testing import assert_obeys_laws, random_sets

MAKE = {
    "sum": SumPool,
    "mean": MeanPool,
    "max": MaxPool,
    "min": MinPool,
    "sort": lambda: SortPool(4),
    "fspool": lambda: FSPool(3, pieces=4),
    "relaxed": lambda: FSPool(3, pieces=4, temperature=0.5),
    "attention": lambda: AttentionPool(3),
    "grouped": lambda: Grouped(DeepSets(MLP(3, 8, 8), FSPool(8), MLP(8, 8, 2))),
}
SIZES = {
    "ragged": [3, 0, 1, 7, 2, 0, 16, 17],
    "one huge": [1, 400, 2, 0],
    "all empty": [0, 0],
    "no sets": [],
    "one": [1],
}


class Grouped(nn.Module):
    """A module without pool_flat: through by_size it gets one."""

    def __init__(self, module):
        super().__init__()
        self.inside = module
        self.flat = by_size(module)

    def forward(self, elements, mask=None):
        return self.inside(elements, mask)

    def pool_flat(self, values, sizes):
        return self.flat(values, sizes)


def flat_sets(sizes, generator, features=3, dtype=torch.float64):
    values = torch.randn(sum(sizes), features, dtype=dtype, generator=generator)
    return values, torch.tensor(sizes, dtype=torch.long)


def through_flat(pool):
    """A function of padded sets that goes by way of flat ones."""

    def function(elements, mask):
        return pool.pool_flat(*SetBatch(elements, mask).to_flat())

    return function


@pytest.fixture(params=MAKE)
def pool(request):
    torch.manual_seed(0)
    return MAKE[request.param]().double()


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ties", [False, True])
def test_equals_the_padded_form_with_its_gradients(pool, sizes, dtype, ties, generator):
    pool = pool.to(dtype)
    values, sizes = flat_sets(sizes, generator, dtype=dtype)
    if ties:
        values = values.round()
    results = []
    for call in (pool.pool_flat, lambda v, s: pool(*SetBatch.from_flat(v, s))):
        leaf = values.clone().requires_grad_()
        pooled = call(leaf, sizes)
        inputs = [leaf, *pool.parameters()]
        gradients = torch.autograd.grad(pooled.square().sum(), inputs)
        results.append([pooled, *gradients])
    rtol = 1e-9 if dtype == torch.float64 else 1e-4  # of the largest number: sums of many
    for got, expected in zip(*results, strict=True):
        assert got.dtype == dtype
        atol = rtol * (1 + expected.abs().amax().item()) if expected.numel() else 0.0
        torch.testing.assert_close(got, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_obeys_the_laws(pool, sizes, generator):
    elements, mask = random_sets(sizes, features=3, generator=generator)
    assert_obeys_laws(through_flat(pool), elements, mask)


def test_gradients_of_both_orders(pool, generator):
    values, sizes = flat_sets([3, 0, 1, 2], generator)
    values.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: pool.pool_flat(v, sizes), values, check_batched_grad=True
    )
    if not isinstance(pool, Grouped):
        assert torch.autograd.gradgradcheck(lambda v: pool.pool_flat(v, sizes).pow(3), values)


def test_gradient_of_the_weight(generator):
    values, sizes = flat_sets([3, 0, 1, 2], generator)
    weight = torch.randn(3, 4, dtype=torch.float64, generator=generator, requires_grad=True)
    assert torch.autograd.gradcheck(lambda w: fspool_flat(values, sizes, w), weight)


def test_nan_and_infinity_stay_in_their_set(pool, generator):
    values, sizes = flat_sets([3, 2, 0, 4], generator)
    clean = pool.pool_flat(values, sizes)
    for dirt in (float("nan"), float("inf"), float("-inf")):
        dirty = values.clone()
        dirty[4, 1] = dirt  # in the second set
        leaf = dirty.requires_grad_()
        got = pool.pool_flat(leaf, sizes)
        others = [0, 2, 3]
        torch.testing.assert_close(got[others], clean[others])
        assert not torch.isfinite(got[1]).all() or isinstance(pool, MaxPool | MinPool)
        (gradient,) = torch.autograd.grad(got[others].sum(), leaf)
        assert torch.isfinite(gradient[[0, 1, 2, 5, 6, 7, 8]]).all()


def test_an_empty_set_gives_zeros_and_a_single_one_the_first_weight():
    weight = torch.tensor([[2.0, 5.0, 7.0]])
    got = fspool_flat(torch.tensor([[3.0]]), torch.tensor([0, 1, 0]), weight)
    assert got.tolist() == [[0.0], [6.0], [0.0]]
    assert max_pool_flat(torch.zeros(0, 2), torch.tensor([0])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("run", [1, 2, 5, 16, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_runs_of_any_length_give_the_same_order(run, dtype, generator, monkeypatch):
    monkeypatch.setattr(flat, "_RUN", run)
    values, sizes = flat_sets([3, 0, 1, 7, 2, 0, 40, 17, 1, 1, 0], generator, dtype=dtype)
    values = values.round()  # ties: the place decides
    order = flat._numpy_flat_order(values.t().contiguous(), sizes.numpy())
    starts = np.concatenate([[0], sizes.cumsum(0).numpy()])
    for first, last in pairwise(starts):
        expected = values[first:last].argsort(dim=0, descending=True, stable=True) + first
        assert torch.equal(order[:, first:last], expected.t())


def test_a_large_set_is_sorted_alone(monkeypatch):
    """With a set of millions, the numbers of many others would not fit into the key."""
    monkeypatch.setattr(flat, "_RUN", 8)
    sizes = np.array([1, 2, 9, 1, 1, 8, 3, 3, 3])
    assert flat._run_borders(sizes.cumsum() - sizes, sizes) == [0, 2, 3, 5, 6, 7, 9]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_fast_order_is_the_plain_one(dtype, generator, monkeypatch):
    values, sizes = flat_sets([30, 0, 1, 70], generator, dtype=torch.float32)
    values[:5] = torch.tensor([[0.0], [-0.0], [float("inf")], [float("-inf")], [0.0]])
    rows = values.to(dtype).t().contiguous()
    fast = flat.flat_order(rows, sizes)
    monkeypatch.setattr(flat, "runs_on_numpy", lambda rows: False)
    assert torch.equal(fast, flat.flat_order(rows, sizes))


def test_threads_give_the_same_order(generator, monkeypatch):
    values, sizes = flat_sets([300, 0, 1, 70], generator, features=5, dtype=torch.float32)
    rows = values.t().contiguous()
    alone = flat._numpy_flat_order(rows, sizes.numpy())
    monkeypatch.setattr(flat, "_THREADED", 1)
    monkeypatch.setattr(flat, "_BLOCK", 800)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(flat._numpy_flat_order(rows, sizes.numpy()), alone)


def test_half_precision_is_summed_in_float32(generator):
    values = (1 + torch.rand(3000, 3, generator=generator)).bfloat16()
    sizes = torch.tensor([1000, 2000])
    for pool in (SumPool(), MeanPool(), FSPool(3, init="ones")):
        expected = pool.pool_flat(values.float(), sizes).bfloat16()
        torch.testing.assert_close(pool.pool_flat(values, sizes), expected)


@pytest.mark.slow
def test_compiles_and_exports_with_open_sizes(generator):
    class Flat(nn.Module):
        def __init__(self, pool):
            super().__init__()
            self.pool = pool

        def forward(self, values, sizes):
            return self.pool.pool_flat(values, sizes)

    one, other = flat_sets([3, 0, 5], generator), flat_sets([1, 9, 0, 4], generator)
    total, count = torch.export.Dim("total"), torch.export.Dim("count")
    for pool in (SumPool(), MeanPool(), MaxPool(), SortPool(4), FSPool(3).double()):
        model = Flat(pool)
        exported = torch.export.export(model, one, dynamic_shapes=({0: total}, {0: count}))
        torch.testing.assert_close(exported.module()(*other), model(*other))
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(*other), model(*other))
    with pytest.raises(RuntimeError, match="by_size cannot be exported or traced"):
        torch.export.export(by_size(MaxPool()), one, strict=False)


def test_by_size_pads_similar_sets_together(generator):
    seen = []

    class Spy(nn.Module):
        def forward(self, elements, mask):
            seen.append((elements.shape[1], mask.sum(dim=1).tolist()))
            return mask.sum(dim=1, keepdim=True)

    sizes = [5, 0, 1, 1000, 2, 3, 4, 8, 9, 1]
    got = by_size(Spy())(*flat_sets(sizes, generator))
    assert got.flatten().tolist() == sizes
    assert seen == [
        (1, [0, 1, 1]),
        (2, [2]),
        (4, [3, 4]),
        (8, [5, 8]),
        (16 - 7, [9]),
        (1000, [1000]),
    ]


@pytest.mark.parametrize("pool", [MaxPool(), SortPool(2), FSPool(3), by_size(SumPool())])
@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int32])
def test_sizes_are_integers_of_any_kind(pool, kind, generator):
    values, sizes = flat_sets([200, 0, 100, 3], generator)
    sizes = sizes if kind == torch.int32 else sizes.clamp(max=100)
    values = values[: int(sizes.sum())]
    function = pool if not hasattr(pool, "pool_flat") else pool.pool_flat
    assert torch.equal(function(values, sizes.to(kind)), function(values, sizes))


def test_by_size_pads_with_zeros_not_with_other_sets(generator):
    class Careless(nn.Module):
        def forward(self, elements, mask):
            return elements.sum(dim=1)  # without the mask

    values, sizes = flat_sets([2, 3, 4], generator)
    values[0] = float("nan")
    got = by_size(Careless())(values, sizes)
    torch.testing.assert_close(got[1:], torch.stack([values[2:5].sum(0), values[5:].sum(0)]))


def test_by_size_shares_the_weights(generator):
    pool = FSPool(3)
    assert [id(one) for one in by_size(pool).parameters()] == [id(pool.weight)]


@pytest.mark.parametrize(
    ("values", "sizes", "message"),
    [
        (torch.zeros(3), torch.tensor([3]), r"values must have shape \(total, D\), got \(3,\)"),
        (torch.zeros(3, 1).long(), torch.tensor([3]), "values must be floating point"),
        (torch.zeros(3, 1), torch.tensor([3.0]), r"sizes must be integer with shape \(B,\)"),
        (
            torch.zeros(3, 1),
            torch.tensor([3]).to(torch.uint16),
            "signed or uint8, got torch.uint16",
        ),
        (torch.zeros(3, 1), torch.tensor([[3]]), r"sizes must be integer with shape \(B,\)"),
        (torch.zeros(3, 1), torch.tensor([1, 1]), "add up to the 3 rows of values, got a sum of 2"),
        (torch.zeros(3, 1), torch.tensor([4, -1]), "must be non-negative"),
    ],
)
def test_rejects_bad_input(values, sizes, message):
    pools = (SumPool(), MeanPool(), MaxPool(), MinPool(), SortPool(2), FSPool(1))
    for pool in (*pools, by_size(SumPool())):
        with pytest.raises(ValueError, match=message):
            pool.pool_flat(values, sizes)


def test_rejects_a_weight_of_other_features():
    with pytest.raises(ValueError, match=r"weight must have shape \(D, K\) = \(2, any\)"):
        fspool_flat(torch.zeros(3, 2), torch.tensor([3]), torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"weight must have K >= 2 points, got \(2, 1\)"):
        fspool_flat(torch.zeros(3, 2), torch.tensor([3]), torch.zeros(2, 1))


def test_the_definition_on_one_set(generator):
    values, sizes = flat_sets([6], generator)
    weight = torch.randn(3, 5, dtype=torch.float64, generator=generator)
    expected = fspool(values.unsqueeze(0), weight)
    torch.testing.assert_close(fspool_flat(values, sizes, weight), expected)


@pytest.mark.parametrize("name", ["max_pool", "min_pool"])
def test_an_extreme_of_zero_has_the_gradient_of_the_padded_form(name):
    values = torch.tensor([[0.0], [-1.0], [0.0], [0.0], [1.0], [0.0]], dtype=torch.float64)
    if name == "min_pool":
        values = -values
    flat, padded = values.clone().requires_grad_(), values.view(3, 2, 1).clone().requires_grad_()
    getattr(pooling, f"{name}_flat")(flat, torch.tensor([2, 2, 2])).sum().backward()
    getattr(pooling, name)(padded).sum().backward()
    assert torch.equal(flat.grad, padded.grad.flatten(0, 1))
