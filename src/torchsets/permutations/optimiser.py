"""Permutation-optimisation: turn a set into a list by minimising a learned ordering cost."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchsets._autograd import is_traced, without_autocast
from torchsets._checks import check_mask, check_padded_sets
from torchsets.padded import fill_padding, lengths_to_mask
from torchsets.permutations.cost import check_costs, check_grid
from torchsets.permutations.descent import descend, descend_plainly, scale_largest
from torchsets.permutations.grid_descent import descend_on_grid
from torchsets.permutations.linear import LinearAssignment
from torchsets.permutations.ordered_sets import OrderedSets, check_values, order_elements
from torchsets.permutations.sinkhorn import (
    check_scores,
    real_cells,
    separate_padding,
    widen,
)


def optimise_permutation(
    costs: Tensor,
    *,
    steps: int,
    step_size: float | Tensor,
    initial: Tensor | None = None,
    grid: tuple[int, int] | None = None,
    mask: Tensor | None = None,
    through_sinkhorn: bool = False,
) -> Tensor:
    """Find a permutation of low :func:`ordering_cost` by gradient descent on its scores.

    Each step normalises the scores with Sinkhorn, and takes the gradient of the cost with respect
    to the *normalised* permutation as the direction for the scores: the true gradient vanishes
    near a hard permutation. The result is differentiable in ``costs``, ``step_size`` and
    ``initial``. Elements with equal costs, such as two identical ones, share their positions
    evenly: nothing can tell them apart.

    Args:
        costs: Cost of element i anywhere before j, antisymmetric, (B, N, N); for a grid
            (B, 2, N, N), see :func:`ordering_cost`. Each matrix is scaled to Frobenius norm 1,
            unless all its entries are below 1e-35.
        steps: Number of gradient steps; 0 only normalises the initial scores.
        step_size: Length of a step, one number for all sets; its absolute value counts.
        initial: Scores of element i at position k to start from, (B, N, N). None: all 0.
        grid: Rows and columns, if positions form a grid.
        mask: True where an element is real, (B, N), bool. None: all are real.
        through_sinkhorn: Take the true gradient with respect to the scores instead.

    Returns:
        Soft permutations, element x position, (B, N, N). A set of n elements has its rows and the
        first n columns filled; all else is exactly 0.

    Raises:
        ValueError: If a shape or dtype differs from the above, a grid comes with a mask, or
            the step size is no finite number.

    Example:
        >>> value = torch.tensor([[0.3, 0.9, 0.1]])
        >>> costs = value.unsqueeze(2) - value.unsqueeze(1)  # large numbers go last
        >>> soft = optimise_permutation(costs, steps=6, step_size=5.0)
        >>> (soft.mT @ value.unsqueeze(2)).flatten().round(decimals=2)
        tensor([0.1000, 0.3000, 0.9000])

    Reference:
        Zhang, Hare, Prügel-Bennett 2019, https://arxiv.org/abs/1812.03928, algorithm 1.
    """
    _check(costs, initial, grid, mask, steps, step_size)
    if costs.shape[-1] == 0:
        return costs[:, 0] if costs.ndim == 4 else costs.clone()
    wide = widen(costs)
    step_size = torch.as_tensor(step_size, dtype=wide.dtype, device=wide.device)
    scores = None if initial is None else initial.to(wide.dtype)
    if mask is not None:
        # From here on padding takes care of itself: its costs are 0, its scores are separate.
        wide = wide.masked_fill(~(mask.unsqueeze(2) & mask.unsqueeze(1)), 0)
        scores = separate_padding(torch.zeros_like(wide) if scores is None else scores, mask)
    with without_autocast(costs):
        wide = scale_largest(wide)
        if through_sinkhorn:
            soft = descend_plainly(wide, step_size, scores, steps, grid=grid, through_sinkhorn=True)
        elif grid is None:
            uniform = initial is None and steps > 0 and not is_traced()  # for the fast path only
            start = _uniform_row(wide, mask) if uniform else None
            soft = descend(wide, step_size, scores, steps, start=start)
        else:
            soft = descend_on_grid(wide, step_size, scores, steps, grid)
    if mask is not None:
        soft = soft.masked_fill(~real_cells(mask), 0)
    return soft.to(costs.dtype)


class PermutationOptimiser(nn.Module):
    """Order sets by a learned pairwise cost: PO-U, or PO-LA with linear initial scores.

    Args:
        cost: Maps (elements, mask) to costs (B, N, N), or (B, 2, N, N) for a grid; normally a
            :class:`PairwiseCost`.
        steps: Gradient steps.
        initial: A :class:`LinearAssignment` for the initial scores (PO-LA). None: uniform (PO-U).
        grid: Rows and columns, if positions form a grid.

    Attributes:
        cost: The cost.
        step_size: Length of a step, learned, starts at 1; its absolute value counts.

    Example:
        >>> from torchsets.permutations import PairwiseCost
        >>> order = PermutationOptimiser(PairwiseCost(2, hidden=16))
        >>> elements, permutation, mask = order(torch.rand(8, 5, 2))
        >>> elements.shape, permutation.shape
        (torch.Size([8, 5, 2]), torch.Size([8, 5, 5]))
    """

    def __init__(
        self,
        cost: Callable[[Tensor, Tensor | None], Tensor],
        *,
        steps: int = 4,
        initial: LinearAssignment | None = None,
        grid: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        if steps < 0:
            raise ValueError(f"steps must be at least 0, got {steps}")
        self.cost = cost
        self.steps = steps
        self.initial = initial
        self.grid = None if grid is None else check_grid(grid)
        self.step_size = nn.Parameter(torch.ones(()))

    def permute(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        """Find the soft permutation of each set (B, N, D), element x position, (B, N, N)."""
        check_padded_sets(elements, mask)
        if self.grid is not None and mask is not None:
            raise ValueError("mask is not supported with grid: every position is filled")
        elements = fill_padding(elements, mask)
        return optimise_permutation(
            self.cost(elements, mask),
            steps=self.steps,
            step_size=self.step_size,
            initial=None if self.initial is None else self.initial.scores(elements, mask),
            grid=self.grid,
            mask=mask,
        )

    def forward(
        self, elements: Tensor, mask: Tensor | None = None, *, values: Tensor | None = None
    ) -> OrderedSets:
        """Order sets.

        Args:
            elements: What is compared, (B, N, D), floating point.
            mask: True where an element is real, (B, N), bool. None: all are real.
            values: What is ordered in place of the elements, (B, N, ...), such as tiles that are
                compared by their features. None: the elements.
        """
        check_padded_sets(elements, mask)
        if values is not None:
            check_values(values, elements)
        permutation = self.permute(elements, mask)
        return order_elements(elements if values is None else values, permutation, mask)


def _check(
    costs: Tensor,
    initial: Tensor | None,
    grid: tuple[int, int] | None,
    mask: Tensor | None,
    steps: int,
    step_size: float | Tensor,
) -> None:
    check_costs(costs, grid)
    if steps < 0:
        raise ValueError(f"steps must be at least 0, got {steps}")
    if isinstance(step_size, Tensor):
        if step_size.numel() != 1:
            raise ValueError(f"step_size must be one number, got {tuple(step_size.shape)}")
    elif not math.isfinite(step_size):
        raise ValueError(f"step_size must be finite, got {step_size}")
    if mask is not None:
        if grid is not None:
            raise ValueError("mask is not supported with grid: every position is filled")
        check_mask(mask, costs.shape[:2], of="costs")
    if initial is not None:
        check_scores(initial, None, name="initial")
        if initial.shape != _scores_shape(costs):
            raise ValueError(
                f"initial must have shape {_scores_shape(costs)} to match costs, "
                f"got {tuple(initial.shape)}"
            )


def _scores_shape(costs: Tensor) -> tuple[int, int, int]:
    return costs.shape[0], costs.shape[-1], costs.shape[-1]


def _uniform_row(costs: Tensor, mask: Tensor | None) -> Tensor:
    """The weights of any element when all positions are equally likely, (B, 1, N)."""
    batch, size = costs.shape[:2]
    if mask is None:
        return costs.new_full((batch, 1, size), 1 / size)
    count = mask.sum(dim=1, keepdim=True)
    positions = lengths_to_mask(count.squeeze(1), size=size)
    return (positions.to(costs.dtype) / count.clamp(min=1)).unsqueeze(1)
