"""The soft permutation after the first step from uniform scores, as a product of thin matrices."""

import math

import torch
from torch import Tensor

# Beyond this pull the two factors, rounded to float32, give sums of terms of both signs that lose
# digits; it is also more than models that sort well reach at first.
_LARGEST_PULL = 5.0


def thin_rank(pull: Tensor) -> int:
    """How many columns :func:`thin_permutation` needs to be exact to rounding; 0: do without it.

    Interpolating exp(r x) on [-1, 1] at R Chebyshev nodes is wrong by about 2 (|r| / 2)^R / R!,
    its derivative in r by (|r| / 2)^(R - 1) / (R - 1)!, which must vanish beside exp(-|r|).
    """
    size = pull.shape[1]
    largest = float(pull.detach().abs().amax()) if pull.numel() else 0.0
    if not largest <= _LARGEST_PULL or pull.device.type == "mps":  # also nan; mps has no float64
        return 0
    wanted = torch.finfo(pull.dtype).eps / 2 * math.exp(-largest)
    rank, error = 1, 1.0
    while error > wanted:
        error *= largest / 2 / rank
        rank += 1
    return rank if 8 * rank <= size else 0  # where it becomes faster


def thin_permutation(pull: Tensor, rank: int, rounds: int) -> tuple[Tensor, Tensor]:
    """Sinkhorn of the scores pull_i x_k without an N x N matrix; differentiable in ``pull``.

    All elements start at all N positions x_k in [-1, 1] alike, and the first step moves element i
    by pull_i (B, N, 1) towards the end. exp(pull_i x_k) is smooth in x_k: interpolated at R nodes
    c, it is the product of exp(pull_i c) and fixed polynomials, and Sinkhorn only scales both.

    Returns:
        left (B, N, R) and right (B, R, N), whose product is the soft permutation.
    """
    # In float64: where most elements want the same end, the scaling of Sinkhorn sums terms of
    # both signs that are far larger than their sum. Only the factors are rounded.
    wide = pull.double()
    nodes, polynomials = _interpolation(wide, rank)
    left = (wide * nodes).exp()
    columns = torch.ones_like(wide).mT
    for _ in range(rounds):
        rows = (left @ (polynomials @ columns.mT)).reciprocal()
        columns = ((rows.mT @ left) @ polynomials).reciprocal()
    return (left * rows).to(pull), (polynomials * columns).to(pull)


def _interpolation(like: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Chebyshev nodes (R,), and at x_k the polynomial that is 1 at one node and 0 at the others."""
    size, degrees = like.shape[1], torch.arange(rank, dtype=torch.float64)
    positions = (2 * torch.arange(size, dtype=torch.float64) + 1) / size - 1
    angles = (2 * degrees + 1) * (math.pi / (2 * rank))
    weights = torch.cos(angles.unsqueeze(1) * degrees) * (2 / rank)
    weights[:, 0] /= 2
    polynomials = weights @ torch.cos(degrees.unsqueeze(1) * torch.arccos(positions))
    return torch.cos(angles).to(like), polynomials.to(like)
