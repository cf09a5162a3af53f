"""How well pictures were put together from their tiles."""

from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.permutations import hard_permutation, rank_equal


class MosaicScores(NamedTuple):
    """Scores of each picture.

    Attributes:
        correct: True where every tile is at its own position, (B,), bool. Two equal tiles that
            are exchanged count as wrong.
        restored: True where the picture is right, (B,), bool, whichever of equal tiles is where.
        error: The mean squared difference to the right picture, (B,).
    """

    correct: Tensor
    restored: Tensor
    error: Tensor


def mosaic_scores(permutation: Tensor, tiles: Tensor, positions: Tensor) -> MosaicScores:
    """Compare pictures, put together by the best hard permutations, with the right ones.

    Args:
        permutation: Weight of tile i at position k, (B, N, N), soft or hard.
        tiles: The shuffled tiles, (B, N, ...), floating point.
        positions: The position that each tile belongs to, (B, N), long.

    Returns:
        Scores of each picture, without a gradient.

    Raises:
        ValueError: If a shape or dtype differs from the above, or a weight is not finite.

    Example:
        >>> tiles = torch.tensor([[[2.0], [0.0], [0.0]]])
        >>> exchanged = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
        >>> mosaic_scores(exchanged, tiles, torch.tensor([[0, 1, 2]]))
        MosaicScores(correct=tensor([False]), restored=tensor([True]), error=tensor([0.]))
    """
    if tiles.shape[:2] != permutation.shape[:2]:
        raise ValueError(
            f"tiles must have shape {tuple(permutation.shape[:2])} and more to match permutation, "
            f"got {tuple(tiles.shape)}"
        )
    if positions.shape != tiles.shape[:2] or positions.dtype != torch.long:
        raise ValueError(
            f"positions must be long with shape {tuple(tiles.shape[:2])} to match tiles, "
            f"got {positions.dtype} with {tuple(positions.shape)}"
        )
    if not tiles.is_floating_point():
        raise ValueError(f"tiles must be floating point, got {tiles.dtype}")
    if not positions.sort(dim=1).values.equal(
        torch.arange(positions.shape[1], device=positions.device).expand_as(positions)
    ):
        raise ValueError("positions must be the numbers from 0 to N - 1 in each row, got others")
    hard = hard_permutation(permutation)
    found = hard.argmax(dim=2) if hard.shape[2] else positions
    flat = tiles.detach().flatten(2)
    placed, right = (
        flat.take_along_dim(at.argsort(dim=1).unsqueeze(2), 1) for at in (found, positions)
    )
    return MosaicScores(
        correct=(found == positions).all(dim=1),
        restored=(placed == right).flatten(1).all(dim=1),
        error=(placed - right).square().flatten(1).sum(dim=1) / max(1, flat[0:1].numel()),
    )


def accuracy_ceiling(tiles: Tensor) -> Tensor:
    """The largest probability with which every tile can go to its own position.

    Equal tiles can only be guessed: of a group of g there are g! orders, all equally likely.

    Args:
        tiles: The tiles of pictures, (B, N, ...).

    Returns:
        One probability per picture, (B,), float64.

    Example:
        >>> accuracy_ceiling(torch.tensor([[[0.0], [7.0], [0.0], [0.0]]]))
        tensor([0.1667], dtype=torch.float64)
    """
    ranks, _ = rank_equal(tiles)
    return (ranks + 1).double().prod(dim=1).reciprocal()  # 1 * 2 * ... * g for each group
