"""Put the shuffled tiles of pictures together, given the right pictures in training.

The loss compares the soft mixture of tiles at each position with the right tile. All models are
equivariant in the tiles, so training needs no shuffle; the evaluation needs one, because equal
tiles would otherwise be in their own positions by accident.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets._extras import import_extra
from torchsets.data import (
    CIFAR10_COLOURS,
    IMAGENET_COLOURS,
    MNIST_COLOURS,
    Minibatches,
    cifar10_images,
    image_to_tiles,
    imagenet_pictures,
    mnist_images,
    mosaic_size,
    resize_bilinear,
    shuffle_tiles,
)
from torchsets.lab.experiments.mosaics.configs import (
    ROWS,
    THESIS_ROWS,
    Classify,
    Explicit,
    Source,
    sources_of,
)
from torchsets.lab.experiments.mosaics.figures import Examples, Trained, draw_explicit
from torchsets.lab.experiments.mosaics.models import Mosaic
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import Settings, pick_device, seed_everything, train
from torchsets.metrics import accuracy_ceiling, mosaic_scores

TEST_SEED = 10_007
COLOURS = {
    "digits": MNIST_COLOURS,
    "mnist": MNIST_COLOURS,
    "cifar10": CIFAR10_COLOURS,
    "imagenet": IMAGENET_COLOURS,
}
_TEST_BATCH = 250
_SHOWN = 8  # pictures of a figure, the first ones
_CURVE = 64  # points of a learning curve


@dataclass(frozen=True)
class Pictures:
    """Pictures of one split, rescaled to a multiple of the grid.

    Attributes:
        read: Indices (B,) to pictures (B, C, H, W), uint8.
        labels: The class of each, (S,), long.
        name: The dataset.
        grid: Tiles along each side.
        whole: How many pictures the files hold.
    """

    read: Callable[[Tensor], Tensor]
    labels: Tensor
    name: str
    grid: int
    whole: int

    def tiles(self, chosen: Tensor) -> Tensor:
        """The tiles of some pictures in order, (B, N, C, h, w), in the units of the network."""
        tiles = image_to_tiles(self.read(chosen), (self.grid, self.grid))
        return COLOURS[self.name].apply(tiles)

    def batches(self) -> list[Tensor]:
        """All indices in order, some at a time."""
        return list(torch.split(torch.arange(len(self.labels)), _TEST_BATCH))


class Data(NamedTuple):
    """Both splits of a dataset."""

    training: Pictures
    test: Pictures


class Scores(NamedTuple):
    """Means over pictures: squared error; per cent right, restored, and right at most."""

    error: float
    right: float
    restored: float
    ceiling: float


def run(config: Explicit, recorder: Recorder) -> None:
    """Train every model on every grid of every dataset, and measure them."""
    _describe_tables(recorder)
    for name, source in sources_of(config).items():
        for grid in config.grids:
            data = load_data(config, recorder, name, source, grid)
            column = f"{source.label} {grid}x{grid}"
            trained: dict[str, Trained] = {}
            for model_name in config.models:
                model, step_sizes = _train(config, recorder, model_name, source, data.training)
                scores = evaluate(model, data.test, seed=TEST_SEED + config.seed)
                _record(recorder, model_name, column, scores, share_of(source, data))
                trained[ROWS[model_name]] = Trained(model, step_sizes)
            draw_explicit(recorder, column, trained, _examples(config, data.test), COLOURS[name])


def load_data(
    config: Explicit | Classify, recorder: Recorder, name: str, source: Source, grid: int
) -> Data:
    """Load the pictures of a dataset for a grid, and record which they are."""
    size = mosaic_size(source.side, grid)
    limits = {"train": config.training_pictures, "test": config.test_pictures}
    splits = []
    for split, limit in limits.items():
        if name == "imagenet":
            folder = imagenet_pictures("val" if split == "test" else split, size=size)
            labels = folder.labels[:limit]
            splits.append(Pictures(folder.read, labels, name, grid, len(folder)))
            digest = hashlib.sha256(" ".join(path.name for path in folder.paths).encode())
        else:
            images, labels = _load(name, split)
            whole = len(images)
            images, labels = images[:limit], labels[:limit]
            digest = hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes())
            resized = resize_bilinear(images, (size, size))
            splits.append(Pictures(resized.__getitem__, labels, name, grid, whole))
        recorder.add_data(
            f"{source.label} {split}", f"{len(labels)} pictures {digest.hexdigest()[:16]}"
        )
    return Data(*splits)


def share_of(source: Source, data: Data) -> str:
    """What a row of the thesis' tables adds to its name if the files hold a part of the data."""
    if data.training.whole >= source.training and data.test.whole >= source.test:
        return ""
    return f", part of {source.label}: {data.training.whole} and {data.test.whole} pictures"


def steps_of(config: Explicit | Classify, source: Source, pictures: Pictures) -> int:
    """How many optimiser steps a model is trained for."""
    if config.steps is not None:
        return config.steps
    return (config.epochs or source.epochs) * (len(pictures.labels) // config.batch_size)


@torch.no_grad()
def evaluate(model: Mosaic, pictures: Pictures, *, seed: int) -> Scores:
    """Shuffle the tiles of each picture and put them together by the best hard permutation."""
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    found = []
    for chosen in pictures.batches():
        tiles, positions = shuffle_tiles(pictures.tiles(chosen), generator=generator)
        tiles, positions = tiles.to(device), positions.to(device)
        scores = mosaic_scores(model.permute(tiles), tiles, positions)
        ceiling = accuracy_ceiling(tiles)
        columns = (scores.error, 100 * scores.correct, 100 * scores.restored, 100 * ceiling)
        found.append(torch.stack([column.double() for column in columns]))
    return Scores(*torch.cat(found, dim=1).mean(dim=1).tolist())


def _train(
    config: Explicit, recorder: Recorder, name: str, source: Source, pictures: Pictures
) -> tuple[Mosaic, list[tuple[int, float]]]:
    """A trained model, and its inner step size after training steps."""
    seed_everything(config.seed)
    grid, steps = pictures.grid, steps_of(config, source, pictures)
    side = mosaic_size(source.side, grid) // grid
    model = Mosaic(config, name, source, grid=grid, side=side).to(pick_device(config.device))
    minibatches = Minibatches(len(pictures.labels), config.batch_size, seed=config.seed)

    def loss(tiles: Tensor) -> Tensor:
        ordered: Tensor = model(tiles)
        return (ordered - tiles).square().mean()

    history = train(
        model,
        torch.optim.Adam(model.parameters(), lr=config.learning_rate),
        loss,
        lambda step, generator: pictures.tiles(minibatches(step)),
        recorder=recorder,
        task=f"{source.label} {grid}x{grid}/{name}",
        settings=Settings(
            steps,
            seed=config.seed,
            record_every=max(1, steps // _CURVE),
            evaluate_every=max(1, steps // _CURVE),
        ),
        evaluate=(lambda: {"step size": model.optimiser.step_size.abs().item()})
        if model.compares
        else None,
    )
    return model, history.curve("step size")


def _examples(config: Explicit, pictures: Pictures) -> Examples:
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    chosen = torch.arange(min(config.analysed_pictures, len(pictures.labels)))
    shuffled, _ = shuffle_tiles(pictures.tiles(chosen), generator=generator)
    return Examples(shuffled[:_SHOWN], shuffled)


def _record(recorder: Recorder, name: str, column: str, scores: Scores, share: str) -> None:
    row = ROWS[name]
    cells = [
        Cell("mosaics/error", row, column, None, scores.error),
        Cell("mosaics/restored", row, column, None, scores.restored),
        Cell("mosaics/right", row, column, None, scores.right),
        Cell("mosaics/right", "largest possible", column, None, scores.ceiling),
    ]
    if name in THESIS_ROWS:
        cells += [
            Cell("perm/mosaic", row + share, column, None, scores.error),
            Cell("perm/mosaic2", row + share, column, None, scores.right),
        ]
    recorder.add_results(cells)


def _describe_tables(recorder: Recorder) -> None:
    for key, caption, unit, better in (
        (
            "error",
            "Mean squared error, the models that tell equal tiles apart included",
            "",
            "lower",
        ),
        ("restored", "Share of pictures restored exactly: equal tiles may swap", "%", "higher"),
        (
            "right",
            "Share of pictures with every tile in its own position. Which of equal tiles is which "
            "can only be guessed: more than the row of the largest possible cannot be expected",
            "%",
            "higher",
        ),
    ):
        recorder.add_table(f"mosaics/{key}", caption=caption, unit=unit, better=better)


def _load(name: str, split: str) -> tuple[Tensor, Tensor]:
    """Pictures (S, C, H, W), uint8, and their labels."""
    if name == "mnist":
        return mnist_images(split)
    if name == "cifar10":
        return cifar10_images(split)
    digits = import_extra("sklearn.datasets", "app").load_digits()
    images = torch.from_numpy(digits.images).mul(255 / 16).round().byte().unsqueeze(1)
    chosen = slice(1347) if split == "train" else slice(1347, None)
    return images[chosen], torch.from_numpy(digits.target)[chosen].long()
