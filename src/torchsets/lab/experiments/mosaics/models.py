"""The models that put tiles together, and the classifier of what comes out."""

from itertools import combinations
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from torchsets.data import tiles_to_image
from torchsets.encoders import TileEncoder
from torchsets.lab.experiments.mosaics.configs import Classify, Explicit, Source
from torchsets.permutations import (
    LinearAssignment,
    PairwiseCost,
    PermutationOptimiser,
    optimise_permutation,
    tie_tags,
)
from torchsets.pooling import FSPool
from torchsets.resnet import ResNet

_TAGS = 2  # numbers that tie_tags gives each tile
_ANALYSED = 125  # pictures at a time


class Mosaic(nn.Module):
    """Shuffled tiles to tiles in order.

    Args:
        config: Sizes.
        name: One of the models of the configuration.
        source: Where the pictures are from.
        grid: Tiles along each side.
        side: Pixels along each side of a tile.
    """

    def __init__(
        self, config: Explicit | Classify, name: str, source: Source, *, grid: int, side: int
    ) -> None:
        super().__init__()
        self.grid = (grid, grid)
        self.tagged = name.endswith("-tags")
        self.encoder = TileEncoder(source.channels, config.features or source.features)
        width = self.encoder.width(side, side) + _TAGS * self.tagged
        linear = None
        if not name.startswith("po-u"):
            linear = LinearAssignment(width, grid * grid, clip=config.clip)
        self.order: LinearAssignment | PermutationOptimiser
        if name == "linear":
            self.order = cast(LinearAssignment, linear)
        else:
            cost = PairwiseCost(width, config.hidden, outputs=2)
            self.order = PermutationOptimiser(
                cost, steps=config.inner_steps, initial=linear, grid=self.grid
            )

    def describe(self, tiles: Tensor) -> Tensor:
        """What is compared of tiles (B, N, C, h, w), (B, N, D)."""
        features = self.encoder(tiles)
        if self.tagged:
            features = torch.cat([features, tie_tags(tiles, dtype=features.dtype)], dim=2)
        return cast(Tensor, features)

    def permute(self, tiles: Tensor) -> Tensor:
        """The soft permutation of tiles (B, N, C, h, w), tile x position, (B, N, N)."""
        return self.order.permute(self.describe(tiles))

    def forward(self, tiles: Tensor) -> Tensor:
        """The mixture of tiles at each position, (B, N, C, h, w)."""
        ordered: Tensor = self.order(self.describe(tiles), values=tiles).elements
        return ordered

    def costs(self, tiles: Tensor) -> Tensor:
        """The costs between tiles (B, N, C, h, w) along columns and rows, (B, 2, N, N)."""
        return self.optimiser.cost(self.describe(tiles), None)

    @property
    def optimiser(self) -> PermutationOptimiser:
        """The part that descends; LinAssign has none."""
        if not isinstance(self.order, PermutationOptimiser):
            raise TypeError(f"order must be a PermutationOptimiser, got {type(self.order)}")
        return self.order

    @property
    def compares(self) -> bool:
        """Whether it compares tiles; LinAssign does not."""
        return isinstance(self.order, PermutationOptimiser)

    @torch.no_grad()
    def permutations_by_step(self, tiles: Tensor) -> list[Tensor]:
        """The soft permutations (B, N, N) before the first and after each inner step."""
        order, features = self.optimiser, self.describe(tiles)
        costs = order.cost(features, None)
        initial = None if order.initial is None else order.initial.scores(features)
        return [
            optimise_permutation(
                costs, steps=step, step_size=order.step_size, initial=initial, grid=order.grid
            )
            for step in range(order.steps + 1)
        ]


def sensitivity(model: Mosaic, tiles: Tensor) -> Tensor:
    """How much each pixel of a tile matters for the costs, (2, h, w): the thesis' F1, then F2.

    The size of the gradient of all costs in tiles (B, N, C, h, w): of the sum over pairs of their
    absolute values, summed over pictures, averaged over tiles and colours.
    """
    maps = []
    for channel in (1, 0):  # F1 orders from left to right, which is the second output
        total = torch.zeros_like(tiles[0, 0, 0])
        for part in torch.split(tiles, _ANALYSED):
            given = part.detach().requires_grad_()
            size = model.costs(given)[:, channel].abs().sum() / len(tiles)
            (gradient,) = torch.autograd.grad(size, given)
            total += gradient.abs().sum(dim=0).mean(dim=(0, 1))
        maps.append(total)
    return torch.stack(maps)


class PairGradients(NamedTuple):
    """How the costs of pairs i < j of tiles react to the pixels of these tiles.

    Attributes:
        pairs: The pairs, M of them.
        first: dF(i, j) / d tile i, averaged over colours, (M, 2, h, w): the thesis' F1, then F2.
        second: dF(j, i) / d tile j, likewise.
    """

    pairs: list[tuple[int, int]]
    first: Tensor
    second: Tensor


def pair_gradients(model: Mosaic, tiles: Tensor) -> PairGradients:
    """Differentiate the costs between the tiles (1, N, C, h, w) of one picture."""
    given = tiles.detach().requires_grad_()
    costs = model.costs(given)[0].flip(0)  # F1 first
    pairs = list(combinations(range(tiles.shape[1]), 2))
    first, second = [], []
    for i, j in pairs:
        gradients = [torch.autograd.grad(cost[i, j], given, retain_graph=True)[0] for cost in costs]
        both = torch.stack(gradients)[:, 0].mean(dim=2)  # (2, N, h, w)
        first.append(both[:, i])
        second.append(-both[:, j])  # F(j, i) is -F(i, j)
    return PairGradients(pairs, torch.stack(first), torch.stack(second))


def build_classifier(config: Classify, source: Source, *, fspool: bool = False) -> ResNet:
    """Return an untrained classifier of whole pictures."""
    return ResNet(
        18,
        outputs=source.classes,
        channels=source.channels,
        width=config.width,
        stem="large" if source.side >= 64 else "small",
        pool=FSPool(8 * config.width) if fspool else None,
    )


class Judged(nn.Module):
    """Shuffled tiles to classes: a model, then a trained classifier whose weights are frozen.

    Args:
        mosaic: The model.
        classifier: Of whole pictures.
        batch_statistics: Whether batch normalisation in the classifier is still in training mode
            when this module is.
    """

    def __init__(self, mosaic: Mosaic, classifier: ResNet, *, batch_statistics: bool) -> None:
        super().__init__()
        self.mosaic = mosaic
        self.classifier = classifier.requires_grad_(False)
        self.batch_statistics = batch_statistics

    def train(self, mode: bool = True) -> "Judged":
        """Set the mode, of the classifier too if it still normalises by batches."""
        super().train(mode)
        self.classifier.train(mode and self.batch_statistics)
        return self

    def forward(self, tiles: Tensor) -> Tensor:
        """Classes of tiles (B, N, C, h, w), (B, classes)."""
        picture = tiles_to_image(self.mosaic(tiles), self.mosaic.grid)
        return cast(Tensor, self.classifier(picture))
