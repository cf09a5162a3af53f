"""Denoise and auto-encode MNIST as point sets: FSPool + FSUnpool against plain poolings.

FSUnpool returns the points in the order they came in, so the loss is the plain squared error. The
baselines predict a list of 342 slots and are trained with the Chamfer loss on the zero-padded set.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsets.data import PointSets, add_noise
from torchsets.decoders import FSPoolAutoEncoder
from torchsets.lab.experiments.mnist.figures import draw_reconstructions, draw_weight_functions
from torchsets.lab.experiments.mnist.models import build_auto_encoder
from torchsets.lab.experiments.mnist.sets import (
    TEST_SEED,
    check_sigmas,
    load_sets,
    minibatches,
    pieces_of,
    with_mask_feature,
)
from torchsets.lab.records import Recorder
from torchsets.lab.training import Settings, pick_device, seed_everything, train
from torchsets.losses import chamfer_loss
from torchsets.padded import SetBatch

ROWS = {
    "fspool": "FSPool + FSUnpool",
    "sum-mlp": "Sum + MLP",
    "sum-lstm": "Sum + RNN",
    "max-mlp": "Max + MLP",
    "mean-mlp": "Mean + MLP",
    "max-lstm": "Max + RNN",  # this and the next are not in the thesis
    "mean-lstm": "Mean + RNN",
}
_TEST_BATCH = 16  # the relaxed sort needs 32 N^2 numbers for each set


@dataclass(frozen=True)
class Config:
    """The defaults are the thesis' settings (lines 4168-4247, 5546-5553).

    Attributes:
        dataset: mnist, digits (8x8, embedded), or a folder with idx files named as MNIST's.
        models: Any of fspool, sum-mlp, sum-lstm, max-mlp, max-lstm, mean-mlp, mean-lstm.
        sigmas: Standard deviations of the noise on the input; the target has none.
        mask_feature: Whether each element has a third feature, 1, that must be predicted; it is
            0 for padding.
        epochs: Passes over the training sets.
        training_sets: How many sets to train on. None: all.
        test_sets: How many sets to measure on. None: all.
        bucketed: Whether the sets of a batch have similar sizes: half as long with FSPool, whose
            relaxed sort costs the square of the largest size.
        batch_size: Sets per step.
        learning_rate: Of Adam.
        hidden: Width of the layers.
        latent: Size of the latent vector.
        slots: Number of points that the baselines predict, and to which sets are padded.
        seed: Seed of the weights, the batches and the noise.
        device: auto, cpu or cuda.
    """

    dataset: str = "mnist"
    models: tuple[str, ...] = ("fspool", "sum-mlp", "sum-lstm", "max-mlp", "mean-mlp")
    sigmas: tuple[float, ...] = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05)
    mask_feature: bool = False
    epochs: int = 10
    training_sets: int | None = None
    test_sets: int | None = None
    bucketed: bool = False
    batch_size: int = 16
    learning_rate: float = 1e-3
    hidden: int = 32
    latent: int = 16
    slots: int = 342
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        unknown = set(self.models) - set(ROWS)
        if unknown:
            raise ValueError(f"models must be among {', '.join(ROWS)}, got {', '.join(unknown)}")
        check_sigmas(self.sigmas)


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "dataset": "digits",
        "models": ("fspool", "sum-mlp", "sum-lstm"),
        "sigmas": (0.0, 0.05),
        "epochs": 1,
        "training_sets": 320,
        "test_sets": 32,
        "slots": 48,
    },
    "cpu": {
        "models": ("fspool", "sum-mlp"),
        "sigmas": (0.0, 0.05),
        "epochs": 1,
        "bucketed": True,
    },
    "full": {},
}


class Batch(NamedTuple):
    """Noisy sets to encode, and the clean ones to restore."""

    noisy: Tensor
    mask: Tensor
    clean: Tensor


def run(config: Config, recorder: Recorder) -> None:
    """Train every model at every noise, measure and draw them."""
    sets = load_sets(config.dataset, "train", config.training_sets)
    test = load_sets(config.dataset, "test", config.test_sets)
    _check_slots(config, test)
    recorder.add_data("training sets", sets.digest())
    recorder.add_data("test sets", test.digest())
    recorder.add_table(
        "mnist/masked-chamfer",
        caption="Test Chamfer loss between the predicted and the true points alone, without "
        "padding. With the mask feature, predicted points are those with a mask of at least 0.5, "
        "or the one with the largest; without it, all slots of a baseline, and the true number of "
        "FSPool",
        unit="1e-3",
        better="lower",
    )
    trained: dict[tuple[str, float], nn.Module] = {}
    for sigma in config.sigmas:
        for name in config.models:
            task = task_name(name, sigma)
            model = train_auto_encoder(config, recorder, name, sigma, sets, task=task)
            trained[name, sigma] = model
            measure(config, recorder, name, sigma, model, test)
    models = {
        (ROWS[name], sigma): partial(_reconstruct, model, config)
        for (name, sigma), model in trained.items()
    }
    draw_reconstructions(recorder, models, test)
    pools = {
        f"sigma={sigma:.2f}": model.pool.weight
        for (_, sigma), model in trained.items()
        if isinstance(model, FSPoolAutoEncoder)
    }
    if pools:
        draw_weight_functions(recorder, pools)


def pieces(table: str, config: Config) -> list[Config]:
    """Split into independent runs: one model at one noise each."""
    masked = table == "fspool/mnist1-masked"
    return [
        replace(config, models=(name,), sigmas=(sigma,), mask_feature=masked)
        for name in config.models
        for sigma in config.sigmas
    ]


def train_auto_encoder(
    config: Config, recorder: Recorder, name: str, sigma: float, sets: PointSets, *, task: str
) -> nn.Module:
    """Train one model, or load it if the run has it already."""
    _check_slots(config, sets)
    seed_everything(config.seed)
    model = build_auto_encoder(
        name,
        hidden=config.hidden,
        latent=config.latent,
        slots=config.slots,
        mask_feature=config.mask_feature,
    ).to(pick_device(config.device))
    chosen = minibatches(sets, config.batch_size, seed=config.seed, bucketed=config.bucketed)

    def draw(step: int, generator: torch.Generator) -> Batch:
        return draw_batch(sets, chosen(step), sigma, config.mask_feature, generator)

    train(
        model,
        torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True),
        partial(auto_encoding_loss, model, slots=config.slots),
        draw,
        recorder=recorder,
        task=task,
        settings=Settings(config.epochs * chosen.per_epoch, seed=config.seed),
    )
    return model


def _check_slots(config: Config, sets: PointSets) -> None:
    largest = int(sets.sizes.max()) if len(sets) else 0
    if largest > config.slots:
        raise ValueError(f"slots must be at least {largest}, the largest set, got {config.slots}")


def draw_batch(
    sets: PointSets, chosen: Tensor, sigma: float, mask_feature: bool, generator: torch.Generator
) -> Batch:
    """Pad the chosen sets, with noise and without."""
    clean = sets.batch(chosen)
    noisy = add_noise(clean, sigma, generator=generator)
    if mask_feature:
        noisy, clean = with_mask_feature(noisy), with_mask_feature(clean)
    return Batch(noisy.elements, clean.mask, clean.elements)


def auto_encoding_loss(model: nn.Module, batch: Batch, *, slots: int) -> Tensor:
    """The squared error of FSPool, the Chamfer loss of others, on sets padded to ``slots``."""
    if isinstance(model, FSPoolAutoEncoder):
        difference: Tensor = model(batch.noisy, batch.mask) - batch.clean  # 0 at padding
        count = difference.shape[0] * slots * difference.shape[2]
        return difference.square().sum() / count
    predicted, _ = predict(model, batch.noisy, batch.mask, slots=slots)
    return chamfer_loss(predicted, pad_to(batch.clean, slots), reduction="mean").mean()


def predict(model: nn.Module, noisy: Tensor, mask: Tensor, *, slots: int) -> tuple[Tensor, Tensor]:
    """Return the predicted features of all slots, (B, slots, D), and which slots are points."""
    features = noisy.shape[2]
    if isinstance(model, FSPoolAutoEncoder):
        elements = pad_to(model(noisy, mask), slots)
        points = nn.functional.pad(mask, (0, slots - mask.shape[1]))
    else:
        prediction = model(noisy, mask)
        elements, points = prediction.elements, prediction.presence > 0
        if features == 3:
            elements = torch.cat([elements, prediction.presence.unsqueeze(-1)], dim=-1)
    if features == 3:
        presence = elements[..., 2]  # at least one: to an empty set every distance is 0
        points = presence >= presence.amax(dim=1, keepdim=True).clamp(max=0.5)
    return elements, points


def pad_to(elements: Tensor, slots: int) -> Tensor:
    """Add zero rows up to that number of slots."""
    return nn.functional.pad(elements, (0, 0, 0, slots - elements.shape[1]))


@torch.no_grad()
def measure(
    config: Config, recorder: Recorder, name: str, sigma: float, model: nn.Module, test: PointSets
) -> None:
    """Record the two Chamfer losses on the test sets, in thousandths."""
    generator = torch.Generator().manual_seed(TEST_SEED)
    device = next(model.parameters()).device
    totals = {"zero-padded": 0.0, "masked": 0.0}
    for chosen in pieces_of(test, _TEST_BATCH):
        batch = draw_batch(test, chosen, sigma, config.mask_feature, generator)
        noisy, mask, clean = (part.to(device) for part in batch)
        predicted, points = predict(model, noisy, mask, slots=config.slots)
        losses = {
            "zero-padded": chamfer_loss(predicted, pad_to(clean, config.slots), reduction="mean"),
            "masked": chamfer_loss(
                predicted[..., :2], clean[..., :2], mask, prediction_mask=points, reduction="mean"
            ),
        }
        for key, values in losses.items():
            totals[key] += values.double().sum().item()
    table = "fspool/mnist1-masked" if config.mask_feature else "fspool/mnist1"
    if config.dataset not in ("mnist", "digits"):
        table = "mnist/zero-padded-chamfer"
        caption = "Test Chamfer loss between zero-padded sets"
        recorder.add_table(table, caption=caption, unit="1e-3", better="lower")
    for key, place in (("zero-padded", table), ("masked", "mnist/masked-chamfer")):
        value = 1000 * totals[key] / len(test)
        recorder.add_result(place, model=ROWS[name], column=f"sigma={sigma:.2f}", value=value)


@torch.no_grad()
def _reconstruct(model: nn.Module, config: Config, sets: SetBatch) -> list[Tensor]:
    """The points that a model makes of noisy sets of (x, y), one tensor for each set."""
    device = next(model.parameters()).device
    noisy = (with_mask_feature(sets) if config.mask_feature else sets).to(device)
    predicted, points = predict(model, *noisy, slots=config.slots)
    return [one[real, :2].cpu() for one, real in zip(predicted, points, strict=True)]


def task_name(name: str, sigma: float) -> str:
    """The name of the task that trains one model at one noise."""
    return f"sigma={sigma:.2f}/{name}"
