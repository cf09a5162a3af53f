"""Classify MNIST as point sets: FSPool against sum, mean and max pooling.

The encoder starts at random, or from a denoising auto-encoder, and then stays frozen or is
trained on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torchsets.data import PointSets, add_noise, jitter
from torchsets.lab.experiments.mnist import reconstruct as mnist_reconstruct
from torchsets.lab.experiments.mnist.encoders import check_encoders, digest_of, read_encoder
from torchsets.lab.experiments.mnist.figures import draw_accuracy, draw_weight_functions
from torchsets.lab.experiments.mnist.models import Classifier, SetEncoder, encoder_weights
from torchsets.lab.experiments.mnist.sets import (
    TEST_SEED,
    check_sigmas,
    load_sets,
    minibatches,
    pieces_of,
    with_mask_feature,
)
from torchsets.lab.experiments.mnist.tables import (
    ROWS,
    STARTS,
    describe_tables,
    record_accuracy,
    record_seconds,
)
from torchsets.lab.records import Recorder, read_run
from torchsets.lab.training import (
    Settings,
    linear_decay,
    pick_device,
    seed_everything,
    train,
)
from torchsets.padded import SetBatch
from torchsets.pooling import FSPool

AUTO_ENCODERS = {"fspool": "fspool", "sum": "sum-mlp", "mean": "mean-mlp", "max": "max-mlp"}
_OTHER_SEED = 20_011  # auto-encoders trained here see other batches and noise than classifiers
_TEST_BATCH = 200
_RELAXED_TEST_BATCH = 16  # the relaxed sort needs 32 N^2 numbers for each set


@dataclass(frozen=True)
class Config:
    """The defaults are the thesis' settings (lines 4249-4325).

    Attributes:
        dataset: mnist, digits (8x8, embedded), or a folder with idx files named as MNIST's.
        poolings: Any of fspool, sum, mean, max.
        sigmas: Standard deviations of the noise on the points, in training and test.
        starts: Any of frozen, unfrozen (encoders of auto-encoders) and random.
        encoders: Run folder of mnist-reconstruct to take trained encoders from. Empty: they are
            trained here first.
        encoder_epochs: Epochs of the auto-encoders that are trained here.
        mask_feature: Whether each element has a third feature, 1: as the auto-encoders had.
        epochs: Passes over the training sets. Accuracy is measured after each.
        training_sets: How many sets to train on. None: all.
        test_sets: How many sets to measure on. None: all.
        augment: Scale of small affine maps of the training sets, drawn anew each time. Not in the
            thesis.
        bucketed: Whether the sets of a batch have similar sizes, which saves time.
        batch_size: Sets per step.
        learning_rate: Of Adam.
        decay: Whether the learning rate falls to 0 in a line.
        hidden: Width of the layers of the encoder.
        latent: Size of the vector that it makes.
        layers: Linear layers before the pooling.
        classifier_hidden: Width of the classifier's hidden layer. The thesis does not state it; its
            3820 parameters fit 16, but then sum pooling dies in most of our seeds: every ReLU of
            the layer stays off.
        temperature: Of FSPool's sort in training; None sorts exactly, which is far faster.
        final_temperature: What the temperature falls to, geometrically. None: it stays.
        seed: Seed of the weights, the batches and the noise.
        device: auto, cpu or cuda.
    """

    dataset: str = "mnist"
    poolings: tuple[str, ...] = ("fspool", "sum", "mean", "max")
    sigmas: tuple[float, ...] = (0.05, 0.0)
    starts: tuple[str, ...] = ("frozen", "unfrozen", "random")
    encoders: str = ""
    encoder_epochs: int = 10
    mask_feature: bool = False
    epochs: int = 100
    training_sets: int | None = None
    test_sets: int | None = None
    augment: float = 0.0
    bucketed: bool = False
    batch_size: int = 16
    learning_rate: float = 1e-3
    decay: bool = False
    hidden: int = 32
    latent: int = 16
    layers: int = 2
    classifier_hidden: int = 32
    temperature: float | None = None
    final_temperature: float | None = None
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for field, known in (("poolings", ROWS), ("starts", STARTS)):
            unknown = set(getattr(self, field)) - set(known)
            if unknown:
                raise ValueError(
                    f"{field} must be among {', '.join(known)}, got {', '.join(unknown)}"
                )
        check_sigmas(self.sigmas)
        if self.layers != 2 and set(self.starts) != {"random"}:
            raise ValueError(
                f"layers must be 2 where starts has trained encoders, got {self.layers}"
            )
        if self.final_temperature is not None and self.temperature is None:
            raise ValueError("temperature must be given where final_temperature is, got None")


SCALES: dict[str, dict[str, Any]] = {
    "smoke": {
        "dataset": "digits",
        "poolings": ("fspool", "sum"),
        "epochs": 1,
        "encoder_epochs": 1,
        "training_sets": 320,
        "test_sets": 100,
    },
    "cpu": {"starts": ("random",), "epochs": 10},
    "full": {},
}


class Batch(NamedTuple):
    """Padded sets with their labels."""

    elements: Tensor
    mask: Tensor
    labels: Tensor
    temperature: float | None


def run(config: Config, recorder: Recorder) -> None:
    """Train a classifier for each noise, start and pooling, and measure it after each epoch."""
    if config.encoders and set(config.starts) != {"random"}:
        tasks = [
            mnist_reconstruct.task_name(AUTO_ENCODERS[pooling], sigma)
            for sigma in config.sigmas
            for pooling in config.poolings
        ]
        alike = ("dataset", "mask_feature", "hidden", "latent")
        check_encoders(config.encoders, tasks, {field: getattr(config, field) for field in alike})
    describe_tables(recorder, relaxed=config.temperature is not None)
    sets = load_sets(config.dataset, "train", config.training_sets)
    test = load_sets(config.dataset, "test", config.test_sets)
    recorder.add_data("training sets", sets.digest())
    recorder.add_data("test sets", test.digest())
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    pools: dict[str, Tensor] = {}
    for sigma in config.sigmas:
        for start in config.starts:
            for pooling in config.poolings:
                task = f"sigma={sigma:.2f} {start}/{pooling}"
                model, curve = _train(config, recorder, sigma, start, pooling, sets, test, task)
                record_seconds(recorder, sigma, start, pooling, task, epochs=config.epochs)
                panel = f"sigma={sigma:.2f}, {STARTS[start].lower()}"
                curves.setdefault(panel, {})[ROWS[pooling]] = curve
                record_accuracy(
                    recorder, sigma, start, pooling, curve, thesis=_is_the_thesis(config, start)
                )
                if config.temperature is not None and pooling == "fspool":
                    _compare_sorts(config, recorder, sigma, start, model, test)
                if isinstance(model.encoder.pool, FSPool):
                    pools[panel] = model.encoder.pool.weight
    draw_accuracy(recorder, curves)
    if pools:
        draw_weight_functions(recorder, pools)


def pieces(table: str, config: Config) -> list[Config]:
    """Split into independent runs: one pooling at one noise, and one auto-encoder for two starts.

    The last table of the thesis has 100 epochs at every scale.
    """
    sigmas = {"fspool/mnist": (0.05,), "fspool/mnist2": (0.0,)}.get(table, config.sigmas)
    if table == "fspool/mnist-100":
        config = replace(config, epochs=100)
    trained = tuple(start for start in config.starts if start != "random")
    random = tuple(start for start in config.starts if start == "random")
    return [
        replace(config, poolings=(pooling,), sigmas=(sigma,), starts=starts)
        for starts in (trained, random)
        for pooling in config.poolings
        for sigma in sigmas
        if starts and sigma in config.sigmas
    ]


def _is_the_thesis(config: Config, start: str) -> bool:
    """Whether a number may stand beside the thesis'; the digits stand in for MNIST at smoke."""
    return (
        config.dataset in ("mnist", "digits")
        and (config.hidden, config.latent, config.layers) == (32, 16, 2)
        and (config.dataset == "digits" or config.training_sets is None)
        and config.augment == 0
        and not config.decay
        and config.temperature is None
        and (start == "random" or not config.mask_feature)
    )


def build_classifier(config: Config, pooling: str, classes: int = 10) -> Classifier:
    """Return an untrained classifier."""
    encoder = SetEncoder(
        2 + config.mask_feature,
        pooling=pooling,
        hidden=config.hidden,
        latent=config.latent,
        layers=config.layers,
    )
    hidden = config.classifier_hidden
    return Classifier(encoder, latent=config.latent, hidden=hidden, classes=classes)


def _train(
    config: Config,
    recorder: Recorder,
    sigma: float,
    start: str,
    pooling: str,
    sets: PointSets,
    test: PointSets,
    task: str,
) -> tuple[Classifier, list[tuple[int, float]]]:
    """Train one classifier; return it with its accuracy after each epoch."""
    weights = None if start == "random" else _encoder(config, recorder, sigma, pooling, sets)
    seed_everything(config.seed)
    model = build_classifier(config, pooling, int(sets.labels.max()) + 1)
    model.to(pick_device(config.device))
    if weights is not None:
        model.encoder.load_state_dict(weights)
    model.encoder.requires_grad_(start != "frozen")
    chosen = minibatches(sets, config.batch_size, seed=config.seed, bucketed=config.bucketed)
    steps = config.epochs * chosen.per_epoch

    def draw(step: int, generator: torch.Generator) -> Batch:
        indices, temperature = chosen(step), temperature_at(config, step / steps)
        padded = sets.batch(indices)
        if config.augment > 0:
            padded = jitter(padded, config.augment, generator=generator)
        return _batch(config, padded, sets.labels[indices], sigma, temperature, generator)

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    train(
        model,
        torch.optim.Adam(trained, lr=config.learning_rate, fused=True),
        lambda batch: cross_entropy(_scores(model, batch), batch.labels),
        draw,
        recorder=recorder,
        task=task,
        settings=Settings(
            steps,
            schedule=linear_decay if config.decay else None,
            seed=config.seed,
            evaluate_every=chosen.per_epoch,
        ),
        evaluate=partial(_accuracy, config, model, test, sigma),
    )
    lines = [
        line
        for line in read_run(recorder.folder).metrics
        if line["task"] == task and "accuracy" in line
    ]
    return model, [(line["step"] // chosen.per_epoch, line["accuracy"]) for line in lines]


def temperature_at(config: Config, share: float) -> float | None:
    """The temperature of the sort after that share of the training, in [0, 1).

    Example:
        >>> temperature_at(Config(temperature=1.0, final_temperature=0.01), 0.5)
        0.1
    """
    if config.temperature is None or config.final_temperature is None:
        return config.temperature
    first, last = config.temperature, config.final_temperature
    return float(first * (last / first) ** share)


def _encoder(
    config: Config, recorder: Recorder, sigma: float, pooling: str, sets: PointSets
) -> Mapping[str, Tensor]:
    """The encoder's weights from an auto-encoder that is read, or trained here."""
    name = AUTO_ENCODERS[pooling]
    if config.encoders:
        task = mnist_reconstruct.task_name(name, sigma)
        weights = read_encoder(config.encoders, task)
        recorder.add_data(f"encoder {task}", digest_of(weights))
        return weights
    settings = mnist_reconstruct.Config(
        dataset=config.dataset,
        mask_feature=config.mask_feature,
        epochs=config.encoder_epochs,
        bucketed=config.bucketed,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        hidden=config.hidden,
        latent=config.latent,
        slots=max(mnist_reconstruct.Config.slots, int(sets.sizes.max())),
        seed=config.seed + _OTHER_SEED,
        device=config.device,
    )
    task = f"sigma={sigma:.2f} auto-encoder/{name}"
    model = mnist_reconstruct.train_auto_encoder(settings, recorder, name, sigma, sets, task=task)
    return encoder_weights(model.state_dict())


def _batch(
    config: Config,
    padded: SetBatch,
    labels: Tensor,
    sigma: float,
    temperature: float | None,
    generator: torch.Generator,
) -> Batch:
    padded = add_noise(padded, sigma, generator=generator)
    if config.mask_feature:
        padded = with_mask_feature(padded)
    return Batch(*padded, labels, temperature)


def _scores(model: nn.Module, batch: Batch) -> Tensor:
    scores: Tensor = model(batch.elements, batch.mask, temperature=batch.temperature)
    return scores


@torch.no_grad()
def _accuracy(
    config: Config,
    model: nn.Module,
    test: PointSets,
    sigma: float,
    *,
    temperature: float | None = None,
    batch_size: int = _TEST_BATCH,
) -> Mapping[str, float]:
    """Measure with the exact sort, unless a temperature is given."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(TEST_SEED)
    right = 0
    for chosen in pieces_of(test, batch_size):
        padded, labels = test.batch(chosen), test.labels[chosen]
        batch = _batch(config, padded, labels, sigma, temperature, generator)
        on_device = batch._replace(elements=batch.elements.to(device), mask=batch.mask.to(device))
        right += int((_scores(model, on_device).argmax(dim=1).cpu() == batch.labels).sum())
    return {"accuracy": 100 * right / len(test)}


def _compare_sorts(
    config: Config,
    recorder: Recorder,
    sigma: float,
    start: str,
    model: nn.Module,
    test: PointSets,
) -> None:
    """Does the exact sort at test time lower the accuracy of a relaxed model?"""
    last = temperature_at(config, 1.0)
    for column, temperature in (("relaxed at test", last), ("exact at test", None)):
        measure = partial(_accuracy, config, model, test, sigma, temperature=temperature)
        value = measure(batch_size=_RELAXED_TEST_BATCH)["accuracy"]  # the same noise for both
        recorder.add_result(
            "mnist/exact-sort",
            model=f"FSPool, sigma={sigma:.2f}, {STARTS[start].lower()}",
            column=column,
            value=value,
        )
