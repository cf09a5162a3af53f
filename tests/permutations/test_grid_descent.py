import pytest
import torch

from torchsets.permutations import grid_descent, optimise_permutation, ordering_cost
from torchsets.permutations.descent import descend_plainly
from torchsets.permutations.grid_descent import descend_on_grid

GRIDS = [(2, 3), (1, 6), (6, 1), (3, 3), (1, 1)]


@pytest.fixture(params=[True, False], ids=["signs", "cumulative-sums"], autouse=True)
def _both_ways(request, monkeypatch):
    """Small grids go one way, large ones the other: each is tested on the same small grids."""
    if not request.param:
        monkeypatch.setattr(grid_descent, "_SMALL", 0)


def inputs(grid, generator, batch=3):
    size = grid[0] * grid[1]
    raw = torch.randn(batch, 2, size, size, generator=generator, dtype=torch.float64)
    initial = torch.randn(batch, size, size, generator=generator, dtype=torch.float64)
    return (raw - raw.mT).requires_grad_(), initial.requires_grad_()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("with_initial", [False, True], ids=["PO-U", "PO-LA"])
@pytest.mark.parametrize("steps", [0, 1, 4])
@pytest.mark.parametrize("size", [1.3, -0.7])
def test_values_and_gradients_equal_the_plain_ones(grid, with_initial, steps, size, generator):
    costs, initial = inputs(grid, generator)
    step_size = torch.tensor(size, dtype=torch.float64, requires_grad=True)
    start = initial if with_initial else None
    leaves = [costs, step_size, *([initial] if with_initial else [])]
    weights = torch.randn(initial.shape, generator=generator, dtype=torch.float64)
    results = []
    for soft in (
        descend_on_grid(costs, step_size, start, steps, grid),
        descend_plainly(costs, step_size, start, steps, grid=grid),
    ):
        total = (soft * weights).sum() + 0 * costs.sum() + 0 * step_size
        results.append((soft, *torch.autograd.grad(total, leaves)))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("with_initial", [False, True], ids=["PO-U", "PO-LA"])
def test_first_and_second_gradient(with_initial, generator):
    costs, initial = inputs((2, 2), generator, batch=2)
    step_size = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    leaves = (costs, step_size, initial) if with_initial else (costs, step_size)

    def function(x, y, z=None):
        return descend_on_grid(x, y, z, 2, (2, 2))

    assert torch.autograd.gradcheck(function, leaves)
    assert torch.autograd.gradgradcheck(function, leaves)


def test_the_inputs_are_left_alone(generator):
    costs, initial = (x.detach() for x in inputs((2, 3), generator))
    before = costs.clone(), initial.clone()
    descend_on_grid(costs, torch.tensor(1.0).double(), initial, 3, (2, 3))
    assert torch.equal(costs, before[0])
    assert torch.equal(initial, before[1])


def test_costs_of_one_direction_only_are_safe(generator):
    costs, _ = inputs((2, 3), generator)
    with torch.no_grad():
        costs[:, 0] = 0  # nothing is known about rows
    soft = optimise_permutation(costs, steps=3, step_size=1.0, grid=(2, 3))
    soft.square().sum().backward()
    assert torch.isfinite(costs.grad).all()
    by_row = soft.view(3, 6, 2, 3)
    torch.testing.assert_close(by_row[:, :, 0], by_row[:, :, 1])


def test_a_position_that_nobody_wants_is_safe_in_float32(generator):
    costs, initial = inputs((2, 2), generator, batch=2)
    with torch.no_grad():
        initial[:, :, 0] = -300.0  # its exponential is 0 in float32
    weights = torch.rand(2, 4, 4, generator=generator, dtype=torch.float64)
    results = []
    for dtype in (torch.float64, torch.float32):
        leaves = [x.detach().to(dtype).requires_grad_() for x in (costs, initial)]
        soft = optimise_permutation(
            leaves[0], steps=3, step_size=1.0, initial=leaves[1], grid=(2, 2)
        )
        gradients = torch.autograd.grad((soft * weights.to(dtype)).sum(), leaves)
        results.append([x.double() for x in (soft, *gradients)])
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)  # 300 in float32


def test_costs_that_lie_transposed_and_empty_batches_work(generator):
    costs, _ = inputs((2, 3), generator)
    expected = optimise_permutation(-costs, steps=2, step_size=1.0, grid=(2, 3))
    actual = optimise_permutation(costs.mT, steps=2, step_size=1.0, grid=(2, 3))
    torch.testing.assert_close(actual, expected)
    empty = costs.detach()[:0].requires_grad_()
    soft = optimise_permutation(empty, steps=2, step_size=1.0, grid=(2, 3))
    soft.sum().backward()
    assert soft.shape == (0, 6, 6)
    assert empty.grad.shape == empty.shape


def test_sets_do_not_see_each_other(generator):
    costs, _ = inputs((3, 3), generator)
    together = optimise_permutation(costs, steps=4, step_size=2.0, grid=(3, 3))
    alone = optimise_permutation(costs[1:2] * 7, steps=4, step_size=2.0, grid=(3, 3))
    torch.testing.assert_close(alone, together[1:2])


def test_steps_lower_the_cost(generator):
    costs, _ = inputs((3, 4), generator)
    totals = [
        ordering_cost(
            soft, costs / costs.square().sum(dim=(2, 3), keepdim=True).sqrt(), grid=(3, 4)
        )
        for soft in (
            optimise_permutation(costs, steps=steps, step_size=1.0, grid=(3, 4))
            for steps in range(5)
        )
    ]
    assert (torch.stack(totals).diff(dim=0) < 0).all()


@pytest.mark.slow
def test_compiles_and_maps_with_the_same_gradients(generator):
    costs, _ = inputs((2, 2), generator)

    def total(x):
        soft = optimise_permutation(x, steps=3, step_size=1.5, grid=(2, 2))
        return soft[..., 0].square().sum()

    (expected,) = torch.autograd.grad(total(costs), costs)
    compiled = torch.compile(total, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(costs), costs), (expected,))
    mapped = torch.func.vmap(torch.func.grad(lambda x: total(x.unsqueeze(0))))(costs.detach())
    torch.testing.assert_close(mapped, expected)
