"""PO-U on image mosaics, MNIST 3 x 3, 64 channels, 64 hidden units, T = 4: one training step.

The straightforward implementation applies ReLU before pooling, concatenates the features of all
pairs, evaluates f on them and on the swapped ones, and leaves the descent to autograd.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchsets.encoders import TileEncoder
from torchsets.lab.benchmarks.harness import Case
from torchsets.permutations import PairwiseCost, PermutationOptimiser

_PICTURES, _GRID, _SIDE = 32, 3, 10
_CHANNELS, _HIDDEN, _STEPS = 64, 64, 4


def cases() -> list[Case]:
    """The forward and backward pass, with the network on tiles and without it."""
    return [
        Case(
            f"{_PICTURES} pictures of {_GRID} x {_GRID} tiles{', comparison alone' * alone}",
            {
                "torchsets": partial(_prepare, _Ours, alone),
                "plain": partial(_prepare, _Plain, alone),
            },
        )
        for alone in (False, True)
    ]


def _prepare(build: Callable[[], "_Ours"], alone: bool) -> Callable[[], object]:
    torch.manual_seed(0)
    model = build()
    generator = torch.Generator().manual_seed(0)
    tiles = torch.randn(_PICTURES, _GRID**2, 1, _SIDE, _SIDE, generator=generator)
    known = model.describe(tiles).detach()

    def step() -> Tensor:
        model.zero_grad()
        features = known if alone else model.describe(tiles)
        loss = (model.order_tiles(features, tiles) - tiles).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]  # torch's is untyped
        return loss.detach()

    return step


class _Ours(nn.Module):
    """The model of the experiment; the other one has the same weights, drawn alike."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = TileEncoder(1, _CHANNELS)
        width = self.encoder.width(_SIDE, _SIDE)
        self.order = PermutationOptimiser(
            PairwiseCost(width, _HIDDEN, outputs=2), steps=_STEPS, grid=(_GRID, _GRID)
        )

    def describe(self, tiles: Tensor) -> Tensor:
        return cast(Tensor, self.encoder(tiles))

    def order_tiles(self, features: Tensor, tiles: Tensor) -> Tensor:
        return cast(Tensor, self.order(features, values=tiles).elements)


class _Plain(_Ours):
    """As one writes it down from the paper."""

    def describe(self, tiles: Tensor) -> Tensor:
        features = functional.max_pool2d(self.encoder.conv(tiles.flatten(0, 1)).relu(), 2)
        return features.view(len(tiles), tiles.shape[1], -1)

    def order_tiles(self, features: Tensor, tiles: Tensor) -> Tensor:
        compare = cast(PairwiseCost, self.order.cost).compare
        count = features.shape[1]
        first = features.unsqueeze(2).expand(-1, -1, count, -1)
        second = features.unsqueeze(1).expand(-1, count, -1, -1)
        costs = compare(torch.cat([first, second], dim=3))
        costs = (costs - compare(torch.cat([second, first], dim=3))).permute(0, 3, 1, 2)
        costs = costs / costs.norm(dim=(2, 3), keepdim=True)
        scores = torch.zeros_like(costs[:, 0])
        for _ in range(_STEPS):
            gradient = _plain_gradient(_plain_sinkhorn(scores), costs)
            scores = scores - self.order.step_size.abs() * gradient
        permutation = _plain_sinkhorn(scores)
        moved = permutation.unsqueeze(3) * tiles.flatten(2).unsqueeze(2)
        return moved.sum(dim=1).view_as(tiles)


def _plain_sinkhorn(scores: Tensor) -> Tensor:
    soft = scores.exp()
    for _ in range(4):
        soft = soft / soft.sum(dim=2, keepdim=True)
        soft = soft / soft.sum(dim=1, keepdim=True)
    return soft


def _plain_gradient(soft: Tensor, costs: Tensor) -> Tensor:
    """Of the ordering cost along the columns of the grid, and along its rows."""
    on_grid = soft.view(*soft.shape[:2], _GRID, _GRID)
    gradient = torch.zeros_like(soft)
    for channel, axis in enumerate((2, 3)):
        until = on_grid.cumsum(dim=axis)
        later = on_grid.sum(dim=axis, keepdim=True) - until
        earlier = until - on_grid
        gradient = gradient + 2 * costs[:, channel] @ (later - earlier).flatten(2)
    return gradient
