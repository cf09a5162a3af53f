"""The total cost of an ordering, from the costs of putting one element before another."""

import torch
from torch import Tensor

from torchsets._checks import check_floating
from torchsets.permutations.sinkhorn import check_scores


def ordering_cost(
    permutation: Tensor, costs: Tensor, *, grid: tuple[int, int] | None = None
) -> Tensor:
    """Add up the pairwise costs of the order that a permutation gives.

    c(P) = sum_ij C_ij sum_k P_ik B_jk with B_jk = sum_{k' > k} P_jk' - sum_{k' < k} P_jk': each
    C_ij counts once when i comes before j, and with the other sign when it comes after. For
    antisymmetric costs the gradient with respect to P is 2 C B.

    Args:
        permutation: Weight of element i at position k, (B, N, N), floating point.
        costs: Cost of element i anywhere before j, antisymmetric, (B, N, N). For a grid
            (B, 2, N, N): [:, 0] from top to bottom within each column, [:, 1] from left to right
            within each row.
        grid: Rows and columns, if positions form a grid; position = row * columns + column.

    Returns:
        One cost per set, (B,). Costs are used as they are, without normalising them.

    Raises:
        ValueError: If a shape or dtype differs from the above.

    Example:
        >>> costs = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])  # element 0 belongs before 1
        >>> ordering_cost(torch.eye(2).unsqueeze(0), costs)
        tensor([-2.])

    Reference:
        Zhang, Hare, Prügel-Bennett 2019, https://arxiv.org/abs/1812.03928.
    """
    check_scores(permutation, None, name="permutation")
    check_costs(costs, grid)
    if costs.shape[0] != permutation.shape[0] or costs.shape[-1] != permutation.shape[-1]:
        raise ValueError(
            f"costs must fit permutation {tuple(permutation.shape)}, got {tuple(costs.shape)}"
        )
    total = permutation.new_zeros(permutation.shape[0])
    for cost, axis in _problems(costs, grid):
        balance = _balance(_as_grid(permutation, grid), axis).flatten(2)
        total = total + (permutation * torch.bmm(cost, balance)).sum(dim=(1, 2))
    return total


def check_costs(costs: Tensor, grid: tuple[int, int] | None) -> None:
    """Raise ``ValueError`` unless costs are floating (B, N, N), or (B, 2, N, N) for a grid of N."""
    if grid is None:
        check_scores(costs, None, name="costs")
        return
    rows, columns = check_grid(grid)
    if costs.ndim != 4 or costs.shape[1:] != (2, rows * columns, rows * columns):
        raise ValueError(
            f"costs must have shape (B, 2, N, N) with N = {rows} * {columns} for the grid, "
            f"got {tuple(costs.shape)}"
        )
    check_floating(costs, name="costs")


def check_grid(grid: tuple[int, int]) -> tuple[int, int]:
    """Return rows and columns; raise ``ValueError`` if one of them is negative."""
    if min(grid) < 0:
        raise ValueError(f"grid must not be negative, got {grid}")
    return grid


def ordering_gradient(
    permutation: Tensor, costs: Tensor, grid: tuple[int, int] | None = None
) -> Tensor:
    """2 C B, the gradient of :func:`ordering_cost` with respect to the permutation, (B, N, N)."""
    parts = [
        2 * torch.bmm(cost, _balance(_as_grid(permutation, grid), axis).flatten(2))
        for cost, axis in _problems(costs, grid)
    ]
    return parts[0] if grid is None else parts[0] + parts[1]


def _problems(costs: Tensor, grid: tuple[int, int] | None) -> list[tuple[Tensor, int]]:
    """Each ordering problem: its costs, and the axis of the positions that it runs along."""
    return [(costs, -1)] if grid is None else [(costs[:, 0], -2), (costs[:, 1], -1)]


def _as_grid(permutation: Tensor, grid: tuple[int, int] | None) -> Tensor:
    return permutation if grid is None else permutation.view(*permutation.shape[:2], *grid)


def _balance(permutation: Tensor, axis: int) -> Tensor:
    """B: the weight at later positions minus the weight at earlier ones."""
    until = permutation.cumsum(dim=axis)
    total = until.narrow(axis, until.shape[axis] - 1, 1) if until.shape[axis] else until
    return torch.add(permutation, until, alpha=-2) + total
