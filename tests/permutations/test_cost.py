import pytest
import torch

from torchsets.permutations import ordering_cost


def total_cost(permutation, costs):
    """The definition, one set, five loops."""
    size = len(costs)
    total = 0.0
    for i in range(size):
        for j in range(size):
            for k in range(size):
                later = sum(permutation[j, m] for m in range(k + 1, size))
                earlier = sum(permutation[j, m] for m in range(k))
                total = total + costs[i, j] * permutation[i, k] * (later - earlier)
    return total


def antisymmetric(*shape, generator):
    costs = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return costs - costs.mT


def test_agrees_with_the_authors_numbers(golden):
    arrays = golden("po_cost_grad")
    permutation = arrays["P"].requires_grad_()
    cost = ordering_cost(permutation, arrays["C"])
    torch.testing.assert_close(cost, arrays["total_cost"], rtol=1e-6, atol=1e-12)
    (gradient,) = torch.autograd.grad(cost.sum(), permutation)
    torch.testing.assert_close(gradient, arrays["grad_P"], rtol=1e-6, atol=1e-12)


def test_second_derivatives_agree_with_the_authors_numbers(golden):
    arrays = golden("po_cost_grad")
    permutation, costs = arrays["P"].requires_grad_(), arrays["C"].requires_grad_()
    cost = ordering_cost(permutation, costs)
    (gradient,) = torch.autograd.grad(cost.sum(), permutation, create_graph=True)
    at_costs, at_permutation = torch.autograd.grad(
        (gradient * arrays["cot"]).sum(), [costs, permutation]
    )
    # Only the antisymmetric part of the costs counts: the author's form 2 C B agrees there.
    theirs = arrays["vjp_C"]
    torch.testing.assert_close(at_costs - at_costs.mT, theirs - theirs.mT, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(at_permutation, arrays["vjp_P"], rtol=1e-6, atol=1e-12)


def test_gradient_on_a_grid_agrees_with_the_authors_numbers(golden):
    arrays = golden("po_cost_grad_2d")
    permutation = arrays["P"].flatten(2).requires_grad_()
    cost = ordering_cost(permutation, arrays["C"], grid=(3, 3))
    (gradient,) = torch.autograd.grad(cost.sum(), permutation)
    expected = arrays["grad_P"].flatten(2)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-12)


def test_matches_plain_loops(generator):
    permutation = torch.rand(2, 4, 4, generator=generator, dtype=torch.float64)
    costs = antisymmetric(2, 4, 4, generator=generator)
    expected = torch.stack([total_cost(*one) for one in zip(permutation, costs, strict=True)])
    torch.testing.assert_close(ordering_cost(permutation, costs), expected)


def test_gradient_is_two_c_b(generator):
    permutation = torch.rand(2, 5, 5, generator=generator, dtype=torch.float64).requires_grad_()
    costs = antisymmetric(2, 5, 5, generator=generator)
    (gradient,) = torch.autograd.grad(ordering_cost(permutation, costs).sum(), permutation)
    position = torch.arange(5)
    sign = torch.sign(position.unsqueeze(1) - position).double()  # k' after k: +1
    torch.testing.assert_close(gradient, 2 * costs @ (permutation.detach() @ sign))


def test_a_grid_is_the_sum_over_its_rows_and_columns(generator):
    rows, columns = 2, 3
    permutation = torch.rand(1, 6, 6, generator=generator, dtype=torch.float64)
    costs = antisymmetric(1, 2, 6, 6, generator=generator)
    on_grid = permutation[0].view(6, rows, columns)
    pad = torch.nn.functional.pad
    expected = sum(
        total_cost(pad(on_grid[:, :, column], (0, 4)), costs[0, 0]) for column in range(columns)
    ) + sum(total_cost(pad(on_grid[:, row], (0, 3)), costs[0, 1]) for row in range(rows))
    cost = ordering_cost(permutation, costs, grid=(rows, columns))
    torch.testing.assert_close(cost, expected.unsqueeze(0))


def test_the_best_order_of_numbers_is_ascending():
    value = torch.tensor([0.5, 0.1, 0.9])
    costs = (value.unsqueeze(1) - value).unsqueeze(0)
    orders = [[0, 1, 2], [1, 0, 2], [0, 2, 1], [2, 1, 0], [1, 2, 0], [2, 0, 1]]
    cost = ordering_cost(torch.eye(3)[torch.tensor(orders)], costs.expand(6, 3, 3))
    assert cost.argmin() == 1  # 0.5 to position 1, 0.1 to position 0, 0.9 to position 2


@pytest.mark.parametrize(("batch", "size"), [(0, 3), (2, 0)])
def test_nothing_costs_nothing(batch, size):
    permutation = torch.zeros(batch, size, size, requires_grad=True)
    cost = ordering_cost(permutation, torch.zeros(batch, size, size))
    assert cost.tolist() == [0.0] * batch
    cost.sum().backward()


@pytest.mark.parametrize(
    ("permutation", "costs", "grid", "message"),
    [
        (torch.zeros(2, 2), torch.zeros(1, 2, 2), None, "permutation must have shape"),
        (torch.zeros(1, 2, 2), torch.zeros(2, 2), None, r"costs must have shape \(B, N, N\)"),
        (torch.zeros(1, 2, 2), torch.zeros(1, 3, 3), None, r"costs must fit permutation \(1, 2, 2"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 4, 4), (2, 2), r"costs must have shape \(B, 2, N, N"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 2, 4, 4), (2, 3), r"N = 2 \* 3 for the grid"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 2, 4, 4), (-2, -2), "grid must not be negative"),
        (torch.zeros(1, 4, 4), torch.zeros(1, 2, 4, 4).long(), (2, 2), "costs must be floating"),
    ],
)
def test_rejects_bad_input(permutation, costs, grid, message):
    with pytest.raises(ValueError, match=message):
        ordering_cost(permutation, costs, grid=grid)
