"""Sinkhorn normalisation: from scores to a soft permutation."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._autograd import Context, fast_or_plain, without_autocast
from torchsets._checks import check_counts, check_floating, check_mask
from torchsets.padded import lengths_to_mask

# The smallest share of the rows that a column may get in the first round for the fast way, which
# multiplies by its inverse: far above underflow in float32, even for the products that follow.
_SMALLEST_SHARE = 1e-20


def sinkhorn(
    scores: Tensor, *, steps: int = 4, temperature: float = 1.0, mask: Tensor | None = None
) -> Tensor:
    """Exponentiate scores, then normalise rows and columns alternately.

    Columns sum to 1, rows nearly so: exactly in the limit of many steps. Scores of any size are
    safe, also in float32.

    Args:
        scores: How well element i (row) suits position k (column), (B, N, N), floating point.
        steps: How often rows (last axis), then columns, are normalised.
        temperature: Scores are divided by it; a small one gives a harder permutation.
        mask: True where an element is real, (B, N), bool. None: all are real.

    Returns:
        Soft permutations, (B, N, N). A set of n elements has its rows and the first n columns
        filled; all else is exactly 0.

    Raises:
        ValueError: If a shape or dtype differs from the above, or an option is not positive.

    Example:
        >>> scores = torch.tensor([[[3.0, 0.0], [0.0, 0.0]]])
        >>> sinkhorn(scores, steps=50).round(decimals=2)
        tensor([[[0.8200, 0.1800],
                 [0.1800, 0.8200]]])

    Reference:
        Adams and Zemel 2011, https://arxiv.org/abs/1106.1925; with a temperature: Mena et al.
        2018, https://arxiv.org/abs/1802.08665.
    """
    check_scores(scores, mask)
    check_counts(steps=steps)
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if scores.shape[1] == 0:
        return scores.clone()
    wide = widen(scores)
    if mask is not None:
        wide = separate_padding(wide, mask)
    soft = normalise(wide if temperature == 1 else _divide(wide, temperature), steps)
    if mask is not None:
        soft = soft.masked_fill(~real_cells(mask), 0)
    return soft.to(scores.dtype)


def check_scores(scores: Tensor, mask: Tensor | None, *, name: str = "scores") -> None:
    """Raise ``ValueError`` unless scores are floating (B, N, N) and a mask is bool (B, N)."""
    if scores.ndim != 3 or scores.shape[1] != scores.shape[2]:
        raise ValueError(f"{name} must have shape (B, N, N), got {tuple(scores.shape)}")
    check_floating(scores, name=name)
    if mask is not None:
        check_mask(mask, scores.shape[:2], of=name)


def widen(tensor: Tensor) -> Tensor:
    """Half precision becomes float32: sums over a set and differences of scores need it."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def real_cells(mask: Tensor) -> Tensor:
    """True where a real element meets a real position, (B, N, N): the first n columns."""
    positions = lengths_to_mask(mask.sum(dim=1), size=mask.shape[1])
    return mask.unsqueeze(2) & positions.unsqueeze(1)


def separate_padding(scores: Tensor, mask: Tensor) -> Tensor:
    """Let padding elements share the padding positions among themselves.

    There are as many of the one as of the other, so no row or column is left without a finite
    score and nothing needs a special case; real cells never meet padding.
    """
    positions = lengths_to_mask(mask.sum(dim=1), size=mask.shape[1])
    real = mask.unsqueeze(2) & positions.unsqueeze(1)
    mixed = mask.unsqueeze(2) ^ positions.unsqueeze(1)
    return scores.masked_fill(~real, 0).masked_fill(mixed, float("-inf"))


def normalise(scores: Tensor, steps: int) -> Tensor:
    """The Sinkhorn operator without checks and masks, N at least 1."""
    return fast_or_plain(_Sinkhorn, _normalise_logarithms, scores, steps)


def pull_back(scores: Tensor, cotangent: Tensor, steps: int) -> Tensor:
    """The gradient at the scores for a gradient at their normalised form; itself differentiable."""
    stages = _stages(scores, steps)
    gradient = cotangent * stages[-1].exp()
    for index in reversed(range(len(stages))):
        axis = -1 if index % 2 == 0 else -2
        gradient = gradient - stages[index].exp() * gradient.sum(dim=axis, keepdim=True)
    return gradient


def _divide(scores: Tensor, temperature: float) -> Tensor:
    """Divide by the temperature, relative to the largest score of each row, without overflow.

    A difference beyond the number format becomes the largest one that is safe to add to another:
    a column of nothing but -inf would have no sum. -inf in the scores stays.
    """
    largest = scores.detach().amax(dim=-1, keepdim=True)
    quotient = ((scores - largest) / temperature).clamp(min=torch.finfo(scores.dtype).min / 4)
    return torch.where(scores == -torch.inf, scores, quotient)


def _normalise_logarithms(scores: Tensor, steps: int) -> Tensor:
    return _stages(scores, steps)[-1].exp()


def _stages(scores: Tensor, steps: int) -> list[Tensor]:
    """The logarithms after each normalisation: slow, safe, differentiable any number of times."""
    stages, scores = [], _divide(scores, 1)
    for axis in (-1, -2) * steps:
        scores = scores.log_softmax(dim=axis)
        stages.append(scores)
    return stages


class _Sinkhorn(torch.autograd.Function):
    """The fast way of :func:`scale`, falling back to logarithms where it cannot be trusted."""

    @staticmethod
    def forward(ctx: Context, scores: Tensor, steps: int) -> Tensor:
        ctx.steps = steps
        soft = scores.clone(memory_format=torch.contiguous_format)
        with without_autocast(scores):
            factors = scale(soft, steps)
            ctx.safe = factors.trusted()
            if not ctx.safe:
                ctx.save_for_backward(scores)
                return _normalise_logarithms(scores, steps)
        ctx.save_for_backward(scores, soft, factors.rows, factors.columns)
        return soft

    @staticmethod
    def backward(ctx: Context, *cotangents: Tensor) -> tuple[Tensor, None]:
        (cotangent,) = cotangents
        with without_autocast(cotangent):
            if torch.is_grad_enabled() or not ctx.safe:
                return pull_back(ctx.saved_tensors[0], cotangent, ctx.steps), None
            _, soft, rows, columns = ctx.saved_tensors
            mine = cotangent.clone(memory_format=torch.contiguous_format)
            total, scratch = torch.zeros_like(soft), torch.empty_like(soft)
            return pull_back_factors(soft, rows, columns, mine, scratch=scratch, total=total), None


class Factors(NamedTuple):
    """The scaling vectors of each round, relative to those of the last one.

    Attributes:
        rows: u of each round, (B, N, steps).
        columns: v before the first and after each round, (B, steps + 1, N).
        smallest: The smallest share of a column in the first round, a scalar.
    """

    rows: Tensor
    columns: Tensor
    smallest: Tensor

    def trusted(self) -> bool:
        """Whether no factor came near the limits of the number format."""
        finite = self.rows.isfinite().all() & self.columns.isfinite().all()
        return bool((self.smallest > _SMALLEST_SHARE) & finite)


def scale(scores: Tensor, steps: int) -> Factors:
    """Turn scores in place into diag(u) K diag(v), K = exp(scores); rounds only update u and v.

    K is read by matrix-vector products and not rewritten, forward and backward. Where a column all
    but vanishes beside the others its factor would overflow: see :meth:`Factors.trusted`.
    """
    kernel = scores.sub_(scores.amax(dim=2, keepdim=True)).exp_()
    rows, columns = [], [torch.ones_like(kernel[:, :1])]
    for _ in range(steps):
        rows.append(torch.bmm(kernel, columns[-1].mT).reciprocal_())
        columns.append(torch.bmm(rows[-1].mT, kernel).reciprocal_())
    u, v = rows[-1], columns[-1]
    kernel.mul_(u).mul_(v)
    largest = columns[1].amax() if kernel.numel() else kernel.new_ones(())
    return Factors(
        torch.cat(rows, dim=2).div_(u), torch.cat(columns, dim=1).div_(v), largest.reciprocal()
    )


def pull_back_factors(
    soft: Tensor,
    rows: Tensor,
    columns: Tensor,
    cotangent: Tensor,
    *,
    scratch: Tensor,
    total: Tensor,
) -> Tensor:
    """Add to ``total`` what :func:`pull_back` gives, from the result and the :class:`Factors`.

    It goes backwards through log soft = scores + f_L + g_L, where f and g are the logarithms of u
    and v: f_l = -log(K v_{l-1}) and g_l = -log(K^T u_l). Each step back is a matrix-vector
    product, and what it leaves at the scores is an outer product; one matmul adds them all up.
    ``cotangent`` and ``scratch`` are overwritten.
    """
    torch.mul(cotangent, soft, out=scratch)
    at_row = scratch.sum(dim=2, keepdim=True)  # gradient at f_L, (B, N, 1)
    at_column = scratch.sum(dim=1, keepdim=True)  # gradient at g_L, (B, 1, N)
    left, right = [], []
    for step in reversed(range(rows.shape[2])):
        u = rows[:, :, step : step + 1]
        v_before, v = columns[:, step : step + 1], columns[:, step + 1 : step + 2]
        weighted = v * at_column
        left.append(u)
        right.append(weighted)
        at_row = at_row - u * torch.bmm(soft, weighted.mT)
        weighted = u * at_row
        left.append(weighted)
        right.append(v_before)
        if step:
            at_column = -v_before * torch.bmm(weighted.mT, soft)
            at_row = torch.zeros_like(at_row)
    cotangent.baddbmm_(torch.cat(left, dim=2), torch.cat(right, dim=1), alpha=-1)
    return total.addcmul_(soft, cotangent)
