import pytest
import torch

from torchsets.padded import lengths_to_mask
from torchsets.piecewise import piecewise_linear
from torchsets.pooling import FSPool, FSUnpool, fspool, max_pool, sum_pool
from torchsets.testing import (
    assert_empty_batches_connected,
    assert_handles_scales,
    assert_obeys_laws,
    assert_twice_differentiable,
    random_sets,
)

MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 1, 0], [0, 0, 0, 0, 1, 0], [0] * 6]).bool()
CLOSE = {"rtol": 1e-6, "atol": 1e-9}  # the author's numbers, float64


def double(module, weight):
    module = module.double()
    with torch.no_grad():
        module.weight.copy_(weight)
    return module


def pool_for(arrays, weight="weight"):
    features, points = arrays[weight].shape
    return double(FSPool(features, pieces=points - 1), arrays[weight])


def sets_of(arrays):
    elements = arrays["x"].transpose(1, 2).contiguous().requires_grad_()  # stored as (B, D, N)
    mask = lengths_to_mask(arrays["n"], size=elements.shape[1]) if "n" in arrays else None
    return elements, mask


def test_pools_one_set_as_the_definition_says(generator):
    elements = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    weight = torch.randn(2, 4, generator=generator, dtype=torch.float64)
    ranks = torch.linspace(0, 1, 5, dtype=torch.float64)
    expected = [
        (piecewise_linear(ranks, weight[d]) * elements[:, d].sort(descending=True).values).sum()
        for d in range(2)
    ]
    torch.testing.assert_close(fspool(elements.unsqueeze(0), weight)[0], torch.stack(expected))


@pytest.mark.parametrize(
    "name", ["fspool_fixed", "fspool_fixed_n21", "fspool_variable", "fspool_ties"]
)
def test_exact_pooling_matches_the_author(name, golden):
    arrays = golden(name)
    pool = pool_for(arrays)
    elements, mask = sets_of(arrays)
    pooled, order = pool.pool_with_order(elements, mask)
    torch.testing.assert_close(pooled, arrays["out"], **CLOSE)
    torch.testing.assert_close(pool(elements, mask), arrays["out"], **CLOSE)
    (pooled * arrays["cot"]).sum().backward()
    torch.testing.assert_close(pool.weight.grad, arrays["grad_weight"], **CLOSE)
    if name == "fspool_ties":  # equal values may share the gradient in another way
        torch.testing.assert_close(elements.grad.sum(1), arrays["grad_x"].sum(2), **CLOSE)
        return
    torch.testing.assert_close(elements.grad, arrays["grad_x"].transpose(1, 2), **CLOSE)
    real = torch.ones(order.shape[:2]).bool() if mask is None else mask
    assert torch.equal(order[real], arrays["perm"].transpose(1, 2)[real])


@pytest.mark.parametrize("name", ["fspool_relaxed_fixed", "fspool_relaxed_variable"])
def test_relaxed_pooling_matches_the_author(name, golden):
    arrays = golden(name)
    pool = pool_for(arrays)
    elements, mask = sets_of(arrays)
    temperature = float(arrays["temperature"])
    pooled, order = pool.pool_with_order(elements, mask, temperature=temperature)
    # His padding value leaves 1e-8 of itself in float64.
    close = {"rtol": 1e-6, "atol": 1e-7}
    torch.testing.assert_close(pooled, arrays["out"], **close)
    stored = arrays["perm"].view(order.shape)
    real = torch.ones(elements.shape[:2]).bool() if mask is None else mask
    block = (real.unsqueeze(2) & real.unsqueeze(1)).unsqueeze(1).expand(order.shape)
    torch.testing.assert_close(order[block], stored[block], **close)
    assert order[~block].abs().sum() == 0
    (pooled * arrays["cot"]).sum().backward()
    torch.testing.assert_close(pool.weight.grad, arrays["grad_weight"], **close)
    expected = arrays["grad_x"].transpose(1, 2)
    torch.testing.assert_close(elements.grad[real], expected[real], **close)


@pytest.mark.parametrize("name", ["fsunpool_hard", "fsunpool_hard_variable", "fsunpool_relaxed"])
def test_unpooling_matches_the_author(name, golden):
    arrays = golden(name)
    pool = pool_for(arrays, "weight_pool")
    unpool = double(FSUnpool(3), arrays["weight_unpool"])
    elements, mask = sets_of(arrays)
    vector = arrays["v"].requires_grad_()
    temperature = 1.0 if "relaxed" in name else None
    pooled, order = pool.pool_with_order(elements, mask, temperature=temperature)
    restored = unpool(vector, order, mask)
    torch.testing.assert_close(restored, arrays["out"].transpose(1, 2), **CLOSE)
    loss = (restored * arrays["cot"].transpose(1, 2)).sum() + (pooled * arrays["cot_pooled"]).sum()
    loss.backward()
    torch.testing.assert_close(elements.grad, arrays["grad_x"].transpose(1, 2), **CLOSE)
    torch.testing.assert_close(vector.grad, arrays["grad_v"], **CLOSE)
    torch.testing.assert_close(pool.weight.grad, arrays["grad_weight_pool"], **CLOSE)
    torch.testing.assert_close(unpool.weight.grad, arrays["grad_weight_unpool"], **CLOSE)


def relaxed_pool(pool):
    return lambda elements, mask: pool.pool_with_order(elements, mask, temperature=0.5)[0]


def unpooled(temperature):
    torch.manual_seed(0)
    pool, unpool = FSPool(3).double(), FSUnpool(3).double()

    def function(elements, mask):
        pooled, order = pool.pool_with_order(elements, mask, temperature=temperature)
        return unpool(pooled, order, mask)

    return function


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_pooling_obeys_the_laws(sizes, generator):
    torch.manual_seed(0)
    pool = FSPool(3).double()
    sets = random_sets(sizes, features=3, generator=generator)
    assert_obeys_laws(pool, *sets)
    assert_obeys_laws(relaxed_pool(pool), *sets)


def test_an_exact_order_gives_equal_elements_the_same_results_as_a_set(generator):
    """Which of the equal elements gets which result is decided by their slots."""
    elements, mask = random_sets([6], features=3, generator=generator)
    elements[:, 3:] = elements[:, :3]
    function = unpooled(None)
    expected = function(elements, mask)[0]
    assert not torch.allclose(expected[3:], expected[:3])
    order = torch.tensor([5, 1, 3, 2, 0, 4])
    shuffled = function(elements[:, order], mask)[0]

    def as_set(rows):
        return rows[rows[:, 0].argsort()]

    torch.testing.assert_close(as_set(shuffled), as_set(expected))
    relaxed = unpooled(1.0)(elements, mask)[0]
    torch.testing.assert_close(relaxed[3:], relaxed[:3])


@pytest.mark.parametrize("size", [1, 6, 21, 22, 100])
def test_the_maximum_is_a_special_case_for_up_to_as_many_elements_as_points(size, generator):
    elements = torch.randn(1, size, 1, generator=generator)
    weight = torch.zeros(1, 21)
    weight[0, 0] = 1
    is_maximum = torch.allclose(fspool(elements, weight), elements.amax(dim=1))
    assert is_maximum == (size <= 21)


@pytest.mark.parametrize("temperature", [None, 1.0])
def test_pooling_and_unpooling_are_finite_at_any_scale(temperature):
    torch.manual_seed(0)
    pool, unpool = FSPool(3), FSUnpool(3)

    def function(elements, mask):
        pooled, order = pool.pool_with_order(elements, mask, temperature=temperature)
        return pooled, unpool(pooled, order, mask)

    assert_handles_scales(function, features=3)


@pytest.mark.parametrize("temperature", [None, 1.0])
@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]])
def test_unpooling_obeys_the_laws(sizes, temperature, generator):
    """Distinct elements only for the exact sort: equal ones get different ranks."""
    elements, mask = random_sets(sizes, features=3, generator=generator)
    function = unpooled(temperature)
    if temperature is not None:
        assert_obeys_laws(function, elements, mask, equivariant=True)
        return
    assert_twice_differentiable(function, elements, mask)
    assert_empty_batches_connected(function, features=3)
    order = torch.rand(mask.shape, generator=generator).argsort(dim=1)
    shuffled = function(elements.take_along_dim(order.unsqueeze(-1), 1), mask.gather(1, order))
    torch.testing.assert_close(
        shuffled, function(elements, mask).take_along_dim(order.unsqueeze(-1), 1)
    )
    assert (function(elements, mask)[~mask] == 0).all()


def test_small_sets_have_stated_results():
    weight = torch.tensor([[2.0, 5.0, 7.0]])
    elements = torch.tensor([[[3.0], [torch.nan]], [[torch.nan], [torch.nan]]])
    mask = torch.tensor([[True, False], [False, False]])
    assert fspool(elements, weight, mask).tolist() == [[6.0], [0.0]]
    assert fspool(torch.tensor([[[3.0]]]), weight).tolist() == [[6.0]]
    assert fspool(torch.zeros(2, 0, 1), weight).tolist() == [[0.0], [0.0]]


def test_sum_and_max_are_special_cases(generator):
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator)
    ones = FSPool(2, init="ones").double()
    torch.testing.assert_close(ones(elements, mask), sum_pool(elements, mask))
    top = torch.zeros(2, 101, dtype=torch.float64)  # 0 from the second rank of 101 or fewer on
    top[:, 0] = 1
    torch.testing.assert_close(fspool(elements, top, mask), max_pool(elements, mask))


def test_a_padded_relaxed_sort_in_single_precision_equals_the_bare_one(generator):
    torch.manual_seed(0)
    pool = FSPool(4)
    bare = torch.randn(1, 133, 4, generator=generator)
    padded = torch.full((1, 342, 4), torch.nan)
    slots = torch.randperm(342, generator=generator)[:133].sort().values
    padded[:, slots] = bare
    mask = torch.zeros(1, 342, dtype=torch.bool)
    mask[:, slots] = True
    expected, _ = pool.pool_with_order(bare, temperature=1.0)
    actual, _ = pool.pool_with_order(padded, mask, temperature=1.0)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("temperature", [None, 0.7])
def test_gradients_of_both_orders(temperature, generator):
    elements = torch.randn(4, 6, 2, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(2, 4, generator=generator, dtype=torch.float64).requires_grad_()
    unpool = double(FSUnpool(2, pieces=3), weight.detach().flip(0))

    def function(elements, weight):
        pool = FSPool(2, pieces=3)
        del pool.weight
        pool.weight = weight
        pooled, order = pool.pool_with_order(elements, MASK, temperature=temperature)
        return unpool(pooled.square(), order, MASK)

    assert torch.autograd.gradcheck(function, (elements, weight))
    assert torch.autograd.gradgradcheck(function, (elements, weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_compiles_and_exports_with_equal_gradients(dtype, generator):
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator, dtype=dtype)
    elements.requires_grad_()
    torch.manual_seed(0)
    pool = FSPool(2).to(dtype)
    expected = pool(elements, mask)
    assert expected.dtype == dtype
    gradients = torch.autograd.grad(expected.square().sum(), (elements, pool.weight))
    compiled = torch.compile(pool, backend="aot_eager", fullgraph=True)(elements, mask)
    torch.testing.assert_close(compiled, expected)
    again = torch.autograd.grad(compiled.square().sum(), (elements, pool.weight))
    torch.testing.assert_close(again, gradients)
    exported = torch.export.export(pool, (elements.detach(), mask)).module()
    torch.testing.assert_close(exported(elements, mask), expected)


@pytest.mark.slow
def test_compiled_unpooling_equals_the_eager_one(generator):
    elements, mask = random_sets([3, 1, 5], features=3, generator=generator)
    for temperature in (None, 1.0):
        function = unpooled(temperature)
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(elements, mask), function(elements, mask))


def test_autocast_keeps_the_dtype_and_sums_in_single_precision(generator):
    torch.manual_seed(0)
    pool, unpool = FSPool(3), FSUnpool(3)
    elements = torch.randn(2, 342, 3, generator=generator)
    expected = pool(elements)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(pool(elements), expected)
        half, order = pool.pool_with_order(elements.bfloat16(), temperature=1.0)
        assert half.dtype == order.dtype == unpool(half, order).dtype == torch.bfloat16
    torch.testing.assert_close(pool(elements.bfloat16()).float(), expected, rtol=0.02, atol=0.2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("temperature", [None, 1e-3])
def test_half_precision_is_summed_in_single_precision(dtype, temperature, generator):
    # Each point collects about 100 000, more than float16 can hold; the sum is their difference.
    elements = (1000 + torch.randint(0, 8, (2, 200, 3), generator=generator) * 8).to(dtype)
    weight = torch.tensor([[1.0, -1.0]] * 3, dtype=dtype)
    pool = FSPool(3, pieces=1, temperature=temperature).to(dtype)
    with torch.no_grad():
        pool.weight.copy_(weight)
    exact = fspool(elements.double(), weight.double())
    assert exact.min() > 100
    assert pool(elements).dtype == dtype
    torch.testing.assert_close(
        pool(elements).double(), exact, rtol=2 * torch.finfo(dtype).eps, atol=0
    )


@pytest.mark.parametrize("sizes", [[4, 4], [3, 1, 5], [0, 2]], ids=str)
def test_a_relaxed_pooling_obeys_the_laws(sizes, generator):
    torch.manual_seed(0)
    pool = FSPool(3, temperature=0.5).double()
    assert_obeys_laws(pool, *random_sets(sizes, features=3, generator=generator))


def test_the_temperature_of_the_module_is_used(generator):
    torch.manual_seed(0)
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator)
    pool = FSPool(2).double()
    exact, relaxed = pool(elements, mask), pool.pool_with_order(elements, mask, temperature=0.5)
    assert not torch.allclose(exact, relaxed[0])
    pool.temperature = 0.5
    assert torch.equal(pool(elements, mask), relaxed[0])
    assert torch.equal(pool.pool_with_order(elements, mask)[1], relaxed[1])
    other = pool.pool_with_order(elements, mask, temperature=2.0)
    assert not torch.allclose(other[0], relaxed[0])
    assert "temperature=0.5" in repr(pool)
    pool.temperature = None
    assert torch.equal(pool(elements, mask), exact)


def test_parameter_gradients_are_finite_under_nan_padding(generator):
    elements, mask = random_sets([0, 1, 4], features=3, generator=generator)
    for temperature in (None, 1.0):
        torch.manual_seed(0)
        pool, unpool = FSPool(3).double(), FSUnpool(3).double()
        pooled, order = pool.pool_with_order(elements, mask, temperature=temperature)
        unpool(pooled, order, mask).square().sum().backward()
        assert torch.isfinite(pool.weight.grad).all()
        assert torch.isfinite(unpool.weight.grad).all()


def test_starts_as_told():
    torch.manual_seed(0)
    weight = FSPool(100).weight
    assert weight.shape == (100, 21)
    assert abs(weight.mean()) < 0.1
    assert abs(weight.std() - 1) < 0.1
    assert (FSUnpool(3, pieces=4, init="ones").weight == 1).all()
    assert "features=3, pieces=4" in repr(FSPool(3, pieces=4))
    assert "features=3, pieces=4" in repr(FSUnpool(3, pieces=4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FSPool(3, init="zeros"), 'init must be "normal" or "ones", got \'zeros\''),
        (lambda: FSPool(3, pieces=0), "pieces must be at least 1, got 0"),
        (lambda: FSPool(3, temperature=0.0), "temperature must be above 0, or None, got 0"),
        (
            lambda: FSPool(3, temperature=float("nan")),
            "temperature must be above 0, or None, got nan",
        ),
        (
            lambda: fspool(torch.zeros(1, 4, 2), torch.zeros(3, 4)),
            r"weight must have shape \(D, K\) = \(2, any\)",
        ),
        (lambda: fspool(torch.zeros(1, 4, 2), torch.zeros(2, 1)), "weight must have K >= 2 points"),
        (lambda: fspool(torch.tensor(1.0), torch.zeros(2, 3)), "elements must have shape"),
        (
            lambda: FSPool(3)(torch.zeros(1, 4, 2)),
            r"elements must have shape \(B, N, D\) = \(any, any, 3\), got \(1, 4, 2\)",
        ),
        (
            lambda: FSPool(3).pool_with_order(torch.zeros(1, 4, 2)),
            r"elements must have shape \(B, N, D\) = \(any, any, 3\)",
        ),
        (
            lambda: FSPool(2).pool_with_order(
                torch.zeros(1, 4, 2), torch.ones(1, 4), temperature=1.0
            ),
            "mask must be bool",
        ),
        (
            lambda: FSUnpool(2)(torch.zeros(1, 2), torch.zeros(1, 2, 4).long()),
            r"order must have shape \(B, N, D\) = \(1, 2, 2\)",
        ),
        (
            lambda: FSUnpool(2)(torch.zeros(1, 3), torch.zeros(1, 4, 3).long()),
            r"vector must have shape \(B, D\) = \(any, 2\)",
        ),
        (
            lambda: FSUnpool(2)(torch.zeros(1, 1, 2), torch.zeros(1, 4, 2).long()),
            r"vector must have shape \(B, D\) = \(any, 2\), got \(1, 1, 2\)",
        ),
        (
            lambda: FSUnpool(2)(
                torch.zeros(1, 2), torch.zeros(1, 4, 2).long(), torch.ones(1, 3).bool()
            ),
            r"mask must have shape \(1, 4\) to match order",
        ),
    ],
)
def test_rejects_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_inductor_gives_equal_values_and_gradients(generator):
    torch.manual_seed(0)
    pool = FSPool(2)
    elements, mask = random_sets([3, 1, 5], features=2, generator=generator, dtype=torch.float32)
    elements.requires_grad_()
    expected = pool(elements, mask)
    actual = torch.compile(pool, fullgraph=True)(elements, mask)
    torch.testing.assert_close(actual, expected)
    inputs = (elements, pool.weight)
    torch.testing.assert_close(
        torch.autograd.grad(actual.square().sum(), inputs),
        torch.autograd.grad(expected.square().sum(), inputs),
    )
