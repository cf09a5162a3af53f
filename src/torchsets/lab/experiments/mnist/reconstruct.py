"""Denoise and auto-encode MNIST as point sets: FSPool + FSUnpool against plain poolings.

FSUnpool returns the points in the order they came in, so the loss is the plain squared error. The
baselines predict a list of 342 slots and are trained with the Chamfer loss on the zero-padded set.

What the classifiers share with it, the data and the training on minibatches of sets, is here too.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsets.data import (
    LabelledSets,
    Minibatches,
    SizeBuckets,
    add_noise,
    idx_point_sets,
    mnist_point_sets,
    small_digit_sets,
    with_mask_feature,
)
from torchsets.decoders import FSPoolAutoEncoder
from torchsets.lab.experiments.mnist.configs import (
    AUTO_ENCODERS,
    RECONSTRUCTION_TABLES,
    Classify,
    Reconstruct,
)
from torchsets.lab.experiments.mnist.figures import draw_reconstructions, draw_weight_functions
from torchsets.lab.experiments.mnist.models import AutoEncoder, build_auto_encoder, pad_to, predict
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import (
    History,
    Settings,
    linear_decay,
    move,
    pick_device,
    seed_everything,
    train,
)
from torchsets.losses import chamfer_loss
from torchsets.padded import SetBatch

TEST_SEED = 10_007  # of the noise on the test sets
_TEST_BATCH = 16  # the relaxed sort needs 32 N^2 numbers for each set
_EXAMPLES = 2  # of each noise


class Data(NamedTuple):
    """The sets to train on, and those to measure on."""

    training: LabelledSets
    test: LabelledSets


class Batch(NamedTuple):
    """Noisy sets to encode, and the clean ones to restore."""

    noisy: Tensor
    mask: Tensor
    clean: Tensor


def run(config: Reconstruct, recorder: Recorder) -> None:
    """Train every model at every noise, measure and draw them."""
    data = load_data(config, recorder)
    _check_slots(config, data.test)
    recorder.add_table(
        "mnist/masked-chamfer",
        caption="Test Chamfer loss between the predicted and the true points alone, without "
        "padding. With the mask feature, predicted points are those with a mask of at least 0.5, "
        "or the one with the largest; without it, all slots of a baseline, and the true number of "
        "FSPool",
        unit="1e-3",
        better="lower",
    )
    trained: dict[tuple[str, float], AutoEncoder] = {}
    for sigma in config.sigmas:
        for name in config.models:
            task = task_name(name, sigma)
            model = train_auto_encoder(config, recorder, name, sigma, data.training, task=task)
            trained[name, sigma] = model
            _measure(config, recorder, name, sigma, model, data.test)
    rows = [row for sigma in config.sigmas for row in _examples(config, sigma, trained, data.test)]
    if rows:
        draw_reconstructions(recorder, rows)
    weights = {
        f"sigma={sigma:.2f}": model.pool.weight
        for (_, sigma), model in trained.items()
        if isinstance(model, FSPoolAutoEncoder)
    }
    draw_weight_functions(recorder, weights)


def load_data(config: Classify | Reconstruct, recorder: Recorder) -> Data:
    """Load the sets of an experiment, and record which they are."""
    data = Data(
        load_sets(config.dataset, "train", config.training_sets),
        load_sets(config.dataset, "test", config.test_sets),
    )
    recorder.add_data("training sets", data.training.digest())
    recorder.add_data("test sets", data.test.digest())
    return data


def load_sets(dataset: str, split: str, limit: int | None = None) -> LabelledSets:
    """Load "mnist", "digits" (8x8, embedded) or a folder of idx files; at most ``limit`` sets."""
    if dataset == "mnist":
        sets = mnist_point_sets(split)
    elif dataset == "digits":
        sets = small_digit_sets(split)
    elif Path(dataset).is_dir():
        sets = idx_point_sets(dataset, split)
    else:
        raise ValueError(f"dataset must be mnist, digits or a folder of idx files, got {dataset!r}")
    return sets if limit is None else sets.select(torch.arange(min(limit, len(sets.labels))))


def train_on_sets(
    config: Classify | Reconstruct,
    recorder: Recorder,
    task: str,
    model: nn.Module,
    loss: Callable[[Any], Tensor],
    draw: Callable[[Tensor, float, torch.Generator], Any],
    labelled: LabelledSets,
    *,
    decay: bool = False,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
) -> History:
    """Train any model of these experiments on minibatches of sets, or load it if it is trained.

    Args:
        config: Epochs, batch size, learning rate and so on.
        recorder: Of the run.
        task: Name of the training.
        model: Its parameters without gradients stay as they are.
        loss: Of a batch.
        draw: Makes a batch of the chosen sets, (B,) long; it also gets the share of the steps
            done, in [0, 1), and a generator for all its randomness.
        labelled: What to choose from.
        decay: Whether the learning rate decays linearly to 0.
        evaluate: What to measure after each epoch.
    """
    chosen: Minibatches | SizeBuckets
    if config.bucketed:
        chosen = SizeBuckets(labelled.sets.sizes, config.batch_size, seed=config.seed)
    else:
        chosen = Minibatches(len(labelled.labels), config.batch_size, seed=config.seed)
    steps = config.epochs * chosen.per_epoch
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return train(
        model,
        torch.optim.Adam(trained, lr=config.learning_rate, fused=True),
        loss,
        lambda step, generator: draw(chosen(step), step / steps, generator),
        recorder=recorder,
        task=task,
        settings=Settings(
            steps,
            schedule=linear_decay if decay else None,
            seed=config.seed,
            evaluate_every=chosen.per_epoch,
        ),
        evaluate=evaluate,
    )


def train_auto_encoder(
    config: Reconstruct,
    recorder: Recorder,
    name: str,
    sigma: float,
    labelled: LabelledSets,
    *,
    task: str,
) -> AutoEncoder:
    """Train one model, or load it if the run has it already."""
    _check_slots(config, labelled)
    seed_everything(config.seed)
    model = build_auto_encoder(config, name).to(pick_device(config.device))

    def draw(chosen: Tensor, _: float, generator: torch.Generator) -> Batch:
        return draw_batch(labelled, chosen, sigma, config.mask_feature, generator)

    loss = partial(auto_encoding_loss, model, slots=config.slots)
    train_on_sets(config, recorder, task, model, loss, draw, labelled)
    return model


def task_name(name: str, sigma: float) -> str:
    """The name of the task that trains one model at one noise."""
    return f"sigma={sigma:.2f}/{name}"


def draw_batch(
    labelled: LabelledSets,
    chosen: Tensor,
    sigma: float,
    mask_feature: bool,
    generator: torch.Generator,
) -> Batch:
    """Pad the chosen sets, with noise and without."""
    clean = labelled.sets.batch(chosen)
    noisy = add_noise(clean, sigma, generator=generator)
    if mask_feature:
        noisy, clean = with_mask_feature(noisy), with_mask_feature(clean)
    return Batch(noisy.elements, clean.mask, clean.elements)


def auto_encoding_loss(model: AutoEncoder, batch: Batch, *, slots: int) -> Tensor:
    """The squared error of FSPool, the Chamfer loss of others, on sets padded to ``slots``."""
    if isinstance(model, FSPoolAutoEncoder):
        difference: Tensor = model(batch.noisy, batch.mask) - batch.clean  # 0 at padding
        count = difference.shape[0] * slots * difference.shape[2]
        return difference.square().sum() / count
    predicted, _ = predict(model, batch.noisy, batch.mask, slots=slots)
    return chamfer_loss(predicted, pad_to(batch.clean, slots), reduction="mean").mean()


@torch.no_grad()
def _measure(
    config: Reconstruct,
    recorder: Recorder,
    name: str,
    sigma: float,
    model: AutoEncoder,
    test: LabelledSets,
) -> None:
    """Record the two Chamfer losses on the test sets, in thousandths."""
    generator = torch.Generator().manual_seed(TEST_SEED)
    device = next(model.parameters()).device
    tables = {
        "zero-padded": RECONSTRUCTION_TABLES[config.mask_feature],
        "masked": "mnist/masked-chamfer",
    }
    totals = dict.fromkeys(tables, 0.0)
    for chosen in torch.split(test.sets.sizes.argsort(), _TEST_BATCH):  # little padding
        batch = draw_batch(test, chosen, sigma, config.mask_feature, generator)
        noisy, mask, clean = move(batch, device)
        predicted, points = predict(model, noisy, mask, slots=config.slots)
        losses = {
            "zero-padded": chamfer_loss(predicted, pad_to(clean, config.slots), reduction="mean"),
            "masked": chamfer_loss(
                predicted[..., :2],
                clean[..., :2],
                target_mask=mask,
                prediction_mask=points,
                reduction="mean",
            ),
        }
        for key, values in losses.items():
            totals[key] += values.double().sum().item()
    column = f"sigma={sigma:.2f}"
    recorder.add_results(
        Cell(table, AUTO_ENCODERS[name], column, None, 1000 * totals[key] / len(test.labels))
        for key, table in tables.items()
    )


@torch.no_grad()
def _examples(
    config: Reconstruct,
    sigma: float,
    trained: Mapping[tuple[str, float], AutoEncoder],
    test: LabelledSets,
) -> list[dict[str, Tensor]]:
    """The first test sets with noise and without, and what each model makes of them."""
    clean = test.sets.batch(slice(_EXAMPLES))
    noisy = add_noise(clean, sigma, generator=torch.Generator().manual_seed(TEST_SEED))
    made = {
        AUTO_ENCODERS[name]: _reconstruct(config, trained[name, sigma], noisy)
        for name in config.models
    }
    columns = {f"input, sigma={sigma:.2f}": noisy.to_list(), "target": clean.to_list(), **made}
    return [
        {title: sets[index] for title, sets in columns.items()} for index in range(len(clean.mask))
    ]


def _reconstruct(config: Reconstruct, model: AutoEncoder, sets: SetBatch) -> list[Tensor]:
    """The points that a model makes of noisy sets of (x, y), one tensor for each set."""
    noisy = with_mask_feature(sets) if config.mask_feature else sets
    noisy = noisy.to(next(model.parameters()).device)
    predicted, points = predict(model, *noisy, slots=config.slots)
    return [one[real, :2].cpu() for one, real in zip(predicted, points, strict=True)]


def _check_slots(config: Reconstruct, labelled: LabelledSets) -> None:
    sizes = labelled.sets.sizes
    largest = int(sizes.max()) if len(sizes) else 0
    if largest > config.slots:
        raise ValueError(f"slots must be at least {largest}, the largest set, got {config.slots}")
