import pytest
import torch

from torchsets.counting.similarity import shifts, similar_rows
from torchsets.piecewise import monotone_values, piecewise_linear


def random_function(generator, pieces=5):
    return monotone_values(torch.randn(pieces, generator=generator, dtype=torch.float64))


def all_pairs(rows, values, valid):
    """Every pair of rows at once, the diagonal included."""
    factor = piecewise_linear(1 - (rows.unsqueeze(1) - rows.unsqueeze(2)).abs(), values)
    similarity = factor.prod(dim=0)  # (n, n, B)
    if valid is not None:
        other = ~torch.eye(len(valid), dtype=torch.bool).unsqueeze(-1)
        similarity = similarity.masked_fill(other & ~(valid.unsqueeze(0) & valid.unsqueeze(1)), 0)
    return similarity.sum(dim=1)


def with_exact_zeros(rows):
    """Make some factors exactly 0: one of a pair of rows, and several of another."""
    rows = rows.clone()
    rows[0, 0], rows[0, 1] = 0.0, 1.0
    rows[:2, 2], rows[:2, 3] = 1.0, 0.0
    return rows


@pytest.mark.parametrize("n", [2, 3, 4, 7])
@pytest.mark.parametrize("masked", [False, True])
def test_agrees_with_all_pairs(n, masked, generator):
    rows = torch.rand(3, n, 4, generator=generator, dtype=torch.float64)
    valid = torch.rand(n, 4, generator=generator) < 0.7 if masked else None
    values = random_function(generator)
    torch.testing.assert_close(similar_rows(rows, values, valid), all_pairs(rows, values, valid))


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_gradients_agree_with_all_pairs(zeros, masked, generator):
    rows = torch.rand(3, 5, 4, generator=generator, dtype=torch.float64)
    rows = (with_exact_zeros(rows) if zeros else rows).requires_grad_()
    valid = torch.rand(5, 4, generator=generator) < 0.7 if masked else None
    values = random_function(generator).requires_grad_()
    incoming = torch.rand(5, 4, generator=generator, dtype=torch.float64)
    got = torch.autograd.grad(similar_rows(rows, values, valid), (rows, values), incoming)
    rows_gradient, values_gradient = torch.autograd.grad(
        all_pairs(rows, values, valid), (rows, values), incoming
    )
    torch.testing.assert_close(got[0], rows_gradient)
    # a row is always similar to itself, which gives f(1) a gradient that f(1) = 1 ignores
    torch.testing.assert_close(got[1][:-1], values_gradient[:-1])


def test_second_derivatives(generator):
    rows = torch.rand(2, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    values = random_function(generator).requires_grad_()
    assert torch.autograd.gradcheck(similar_rows, (rows, values))
    assert torch.autograd.gradgradcheck(similar_rows, (rows, values))


def test_only_what_needs_a_gradient_gets_one(generator):
    rows = torch.rand(2, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    values = random_function(generator)
    total = similar_rows(rows, values).sum()
    (plain,) = torch.autograd.grad(total, rows, retain_graph=True)
    (differentiable,) = torch.autograd.grad(total, rows, create_graph=True)
    torch.testing.assert_close(plain, differentiable)


def test_factors_do_not_underflow_into_nan():
    rows = torch.rand(300, 4, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    values = torch.linspace(0, 1, 17).requires_grad_()
    similar_rows(rows, values).sum().backward()
    assert rows.grad.isfinite().all()
    assert values.grad.isfinite().all()


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_rows_are_similar_to_themselves_only(n):
    rows = torch.rand(n + 1, n, 3)
    assert similar_rows(rows, torch.linspace(0, 1, 5)).equal(torch.ones(n, 3))


@pytest.mark.parametrize("n", range(8))
def test_shifts_visit_each_pair_once(n):
    visited = [frozenset((i, (i + shift) % n)) for shift, m in shifts(n) for i in range(m)]
    assert len(visited) == len(set(visited)) == n * (n - 1) // 2
