"""Learn to put tiles together from a classifier of whole pictures, without the right pictures.

A ResNet is trained on intact pictures and frozen. A model in front of it then learns from the
classification loss alone. The permutation stays soft, in the test too.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from torchsets.data import Minibatches, mosaic_size, shuffle_tiles, tiles_to_image
from torchsets.lab.experiments.mosaics.configs import THESIS_ROWS, Classify, Source, sources_of
from torchsets.lab.experiments.mosaics.explicit import (
    COLOURS,
    TEST_SEED,
    Data,
    Pictures,
    load_data,
    share_of,
    steps_of,
)
from torchsets.lab.experiments.mosaics.figures import draw_implicit
from torchsets.lab.experiments.mosaics.models import Judged, Mosaic, build_classifier
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import Settings, pick_device, seed_everything, train
from torchsets.resnet import ResNet

_CURVE = 64  # points of a learning curve
_SHOWN = 8


class Batch(NamedTuple):
    """Tiles in order, (B, N, C, h, w), and the class of each picture, (B,)."""

    tiles: Tensor
    labels: Tensor


class Scores(NamedTuple):
    """Accuracy in per cent, and the mean squared error of the soft pictures."""

    accuracy: float
    error: float


def run(config: Classify, recorder: Recorder) -> None:
    """Train a classifier for every grid of every dataset, then every model in front of it."""
    recorder.add_table(
        "mosaics-classify/pooling",
        caption="Accuracy of the classifier on intact pictures, by how it pools its last map",
        unit="%",
        better="higher",
    )
    for name, source in sources_of(config).items():
        for grid in config.grids:
            data = load_data(config, recorder, name, source, grid)
            _run_grid(config, recorder, name, source, data)


def _run_grid(config: Classify, recorder: Recorder, name: str, source: Source, data: Data) -> None:
    grid, seed = data.test.grid, TEST_SEED + config.seed
    column, share = f"{source.label} {grid}x{grid}", share_of(source, data)
    pooling = "mosaics-classify/pooling"
    classifier = _train_classifier(config, recorder, source, data.training, fspool=False)
    intact = measure_classifier(classifier, data.test, seed=None)
    recorder.add_result(pooling, model="mean", column=column, value=intact.accuracy)
    rows = {"max": intact, "min": measure_classifier(classifier, data.test, seed=seed)}
    if config.fspool:
        other = _train_classifier(config, recorder, source, data.training, fspool=True)
        accuracy = measure_classifier(other, data.test, seed=None).accuracy
        recorder.add_result(pooling, model="FSPool", column=column, value=accuracy)
    shown, _ = shuffle_tiles(
        data.test.tiles(data.test.batches()[0][:_SHOWN]),
        generator=torch.Generator().manual_seed(seed),
    )
    for model_name in config.models:
        row = THESIS_ROWS[model_name]
        model = _train_model(config, recorder, model_name, source, data.training, classifier)
        rows[row] = measure_model(model, data.test, seed=seed)
        draw_implicit(recorder, f"{column} {row}", model.mosaic, shown, COLOURS[name])
    for row, scores in rows.items():
        recorder.add_results(
            [
                Cell("perm/classify", row + share, column, None, scores.accuracy),
                Cell("perm/classify2", row + share, column, None, scores.error),
            ]
        )


@torch.no_grad()
def measure_classifier(classifier: ResNet, pictures: Pictures, *, seed: int | None) -> Scores:
    """Classify intact pictures, or with a seed pictures whose tiles are in a random order."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    device = next(classifier.parameters()).device
    grid = (pictures.grid, pictures.grid)
    right, error = [], []
    for chosen in pictures.batches():
        tiles = pictures.tiles(chosen)
        given = tiles if generator is None else shuffle_tiles(tiles, generator=generator)[0]
        guessed = classifier(tiles_to_image(given, grid).to(device)).argmax(dim=1).cpu()
        right.append(guessed == pictures.labels[chosen])
        error.append((given - tiles).square().flatten(1).mean(dim=1))
    return _mean(right, error)


@torch.no_grad()
def measure_model(model: Judged, pictures: Pictures, *, seed: int) -> Scores:
    """Shuffle the tiles, put them together softly, and classify the outcome."""
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    right, error = [], []
    for chosen in pictures.batches():
        tiles = pictures.tiles(chosen)
        shuffled, _ = shuffle_tiles(tiles, generator=generator)
        mixed = model.mosaic(shuffled.to(device))
        picture = tiles_to_image(mixed, model.mosaic.grid)
        right.append(model.classifier(picture).argmax(dim=1).cpu() == pictures.labels[chosen])
        error.append((mixed.cpu() - tiles).square().flatten(1).mean(dim=1))
    return _mean(right, error)


def _mean(right: list[Tensor], error: list[Tensor]) -> Scores:
    accuracy = 100 * torch.cat(right).double().mean().item()
    return Scores(accuracy, torch.cat(error).double().mean().item())


def _train_classifier(
    config: Classify, recorder: Recorder, source: Source, pictures: Pictures, *, fspool: bool
) -> ResNet:
    seed_everything(config.seed)
    classifier = build_classifier(config, source, fspool=fspool).to(pick_device(config.device))
    grid = (pictures.grid, pictures.grid)

    def loss(batch: Batch) -> Tensor:
        return cross_entropy(classifier(tiles_to_image(batch.tiles, grid)), batch.labels)

    steps = config.classifier_steps or steps_of(config, source, pictures)
    train(
        classifier,
        torch.optim.Adam(classifier.parameters(), lr=config.learning_rate),
        loss,
        partial(_draw, pictures, _minibatches(config, pictures)),
        recorder=recorder,
        task=f"{source.label} {grid[0]}x{grid[0]}/classifier{' fspool' if fspool else ''}",
        settings=_settings(config, steps),
    )
    return classifier


def _train_model(
    config: Classify,
    recorder: Recorder,
    name: str,
    source: Source,
    pictures: Pictures,
    classifier: ResNet,
) -> Judged:
    seed_everything(config.seed)
    grid = pictures.grid
    side = mosaic_size(source.side, grid) // grid
    mosaic = Mosaic(config, name, source, grid=grid, side=side)
    own = build_classifier(config, source)  # its running statistics may drift
    own.load_state_dict(classifier.state_dict())
    model = Judged(mosaic, own, batch_statistics=config.batch_statistics)
    model.to(pick_device(config.device))

    def loss(batch: Batch) -> Tensor:
        return cross_entropy(model(batch.tiles), batch.labels)

    train(
        model,
        torch.optim.Adam(mosaic.parameters(), lr=config.learning_rate),
        loss,
        partial(_draw, pictures, _minibatches(config, pictures)),
        recorder=recorder,
        task=f"{source.label} {grid}x{grid}/{name}",
        settings=_settings(config, steps_of(config, source, pictures)),
    )
    return model


def _settings(config: Classify, steps: int) -> Settings:
    return Settings(steps, seed=config.seed, record_every=max(1, steps // _CURVE))


def _minibatches(config: Classify, pictures: Pictures) -> Minibatches:
    return Minibatches(len(pictures.labels), config.batch_size, seed=config.seed)


def _draw(
    pictures: Pictures, minibatches: Minibatches, step: int, generator: torch.Generator
) -> Batch:
    chosen = minibatches(step)
    return Batch(pictures.tiles(chosen), pictures.labels[chosen])
