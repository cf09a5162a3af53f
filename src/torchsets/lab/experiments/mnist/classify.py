"""Classify MNIST as point sets: FSPool against sum, mean and max pooling.

The encoder starts at random, or from a denoising auto-encoder, and then stays frozen or is
trained on.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from torchsets.data import LabelledSets, add_noise, jitter, with_mask_feature
from torchsets.lab.experiments.mnist.configs import (
    ACCURACY_TABLES,
    LAST_TABLE,
    RECONSTRUCT,
    ROWS,
    STARTS,
    Classify,
    Reconstruct,
)
from torchsets.lab.experiments.mnist.figures import (
    draw_accuracy,
    draw_digits,
    draw_weight_functions,
)
from torchsets.lab.experiments.mnist.models import (
    Classifier,
    build_auto_encoder,
    build_classifier,
    encoder_of,
)
from torchsets.lab.experiments.mnist.reconstruct import (
    TEST_SEED,
    Data,
    load_data,
    task_name,
    train_auto_encoder,
    train_on_sets,
)
from torchsets.lab.experiments.values import config_from_json
from torchsets.lab.records import Cell, Recorder, read_run
from torchsets.lab.training import load_weights, move, pick_device, seed_everything
from torchsets.padded import SetBatch

AUTO_ENCODER_OF = {"fspool": "fspool", "sum": "sum-mlp", "mean": "mean-mlp", "max": "max-mlp"}
_OTHER_SEED = 20_011  # auto-encoders trained here see other batches and noise than classifiers
_TEST_BATCH = 200
_ALIKE = ("dataset", "mask_feature", "hidden", "latent")  # in classifier and auto-encoder


class Case(NamedTuple):
    """Which classifier: the noise on the points, the start of the encoder, the pooling."""

    sigma: float
    start: str
    pooling: str

    @property
    def panel(self) -> str:
        """What figures call the poolings of one noise and start."""
        return f"sigma={self.sigma:.2f}, {STARTS[self.start].lower()}"


class Trained(NamedTuple):
    """A classifier, pairs of (epoch, test accuracy in per cent), and the seconds per epoch."""

    model: Classifier
    curve: list[tuple[int, float]]
    seconds: float


class Batch(NamedTuple):
    """Padded sets with their labels."""

    elements: Tensor
    mask: Tensor
    labels: Tensor


def run(config: Classify, recorder: Recorder) -> None:
    """Train a classifier for each noise, start and pooling, and measure it after each epoch."""
    _check_encoders(config)
    recorder.add_table(
        "mnist/accuracy",
        caption="Test accuracy of the classifiers after 1, 10, 100 and the last epoch",
        unit="%",
        better="higher",
    )
    recorder.add_table(
        "mnist/seconds",
        caption="Seconds per epoch of training with its evaluation, on the machine of the run",
        unit="s",
        better="lower",
    )
    data = load_data(config, recorder)
    trained: dict[Case, Trained] = {}
    for case in cases(config):
        trained[case] = train_classifier(config, recorder, case, data)
        recorder.add_results(_cells(case, trained[case]))
    draw_digits(recorder, data.test)
    draw_trained(recorder, trained)


def cases(config: Classify) -> list[Case]:
    """List the classifiers of a configuration."""
    return [
        Case(sigma, start, pooling)
        for sigma in config.sigmas
        for start in config.starts
        for pooling in config.poolings
    ]


def train_classifier(
    config: Classify,
    recorder: Recorder,
    case: Case,
    data: Data,
    *,
    build: Callable[..., Classifier] | None = None,
    augment: float = 0.0,
    decay: bool = False,
    temperature: Callable[[float], float] | None = None,
) -> Trained:
    """Train one classifier, or load it if the run has it already.

    Args:
        config: Sizes, epochs and so on.
        recorder: Of the run.
        case: Which classifier.
        data: What to train and to measure on.
        build: Makes the classifier, as build_classifier does. None: that with its defaults.
        augment: Scale of small affine maps of the training sets. 0: none.
        decay: Whether the learning rate decays linearly to 0.
        temperature: Of FSPool's sort in training, given the share of the steps done, in [0, 1).
            None: it sorts exactly, as the accuracy after each epoch always does.
    """
    labelled = data.training
    weights = None if case.start == "random" else _encoder_weights(config, recorder, case, labelled)
    seed_everything(config.seed)
    classes = int(labelled.labels.max()) + 1
    model = (build or build_classifier)(config, case.pooling, classes=classes)
    model.to(pick_device(config.device))
    if weights is not None:
        model.encoder.load_state_dict(weights)
    model.encoder.requires_grad_(case.start != "frozen")

    def draw(chosen: Tensor, share: float, generator: torch.Generator) -> Batch:
        if temperature is not None:  # of the step that this batch is for
            model.set_temperature(temperature(share))
        padded = labelled.sets.batch(chosen)
        if augment > 0:
            padded = jitter(padded, augment, generator=generator)
        return _batch(config, case, padded, labelled.labels[chosen], generator)

    history = train_on_sets(
        config,
        recorder,
        f"sigma={case.sigma:.2f} {case.start}/{case.pooling}",
        model,
        lambda batch: cross_entropy(model(batch.elements, batch.mask), batch.labels),
        draw,
        labelled,
        decay=decay,
        evaluate=lambda: {"accuracy": accuracy(config, case, model, data.test)},
    )
    curve = [(epoch, value) for epoch, (_, value) in enumerate(history.curve("accuracy"), start=1)]
    return Trained(model, curve, history.seconds / config.epochs)


@torch.no_grad()
def accuracy(
    config: Classify,
    case: Case,
    model: Classifier,
    test: LabelledSets,
    *,
    temperature: float | None = None,
    batch_size: int = _TEST_BATCH,
) -> float:
    """Measure in per cent, with the exact sort unless a temperature is given."""
    model.set_temperature(temperature)
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(TEST_SEED)
    right = 0
    for chosen in torch.split(test.sets.sizes.argsort(), batch_size):  # little padding
        batch = _batch(config, case, test.sets.batch(chosen), test.labels[chosen], generator)
        elements, mask, labels = move(batch, device)
        right += int((model(elements, mask).argmax(dim=1) == labels).sum())
    return 100 * right / len(test.labels)


def shown_epochs(curve: list[tuple[int, float]]) -> Iterator[tuple[int, str, float]]:
    """Yield the epochs 1, 10, 100 and the last, each with what tables call it and its value."""
    for epoch, value in curve:
        if epoch in (1, 10, 100, curve[-1][0]):
            yield epoch, "1 epoch" if epoch == 1 else f"{epoch} epochs", value


def draw_trained(recorder: Recorder, trained: Mapping[Case, Trained]) -> None:
    """Draw what the classifiers of a run have learned, and how fast."""
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    weights: dict[str, Tensor] = {}
    for case, (model, curve, _) in trained.items():
        curves.setdefault(case.panel, {})[ROWS[case.pooling]] = curve
        if model.sorts:
            weights[case.panel] = model.sorts[-1].weight
    draw_accuracy(recorder, curves)
    draw_weight_functions(recorder, weights)


def _cells(case: Case, trained: Trained) -> Iterator[Cell]:
    """All numbers of one classifier; some have a place in the thesis' tables too."""
    row, start, noise = ROWS[case.pooling], STARTS[case.start], f"sigma={case.sigma:.2f}"
    yield Cell("mnist/seconds", row, f"{noise}, {start}", None, trained.seconds)
    for epoch, name, value in shown_epochs(trained.curve):
        yield Cell("mnist/accuracy", row, f"{noise}, {start}, {name}", None, value)
        if case.sigma in ACCURACY_TABLES and epoch in (1, 10):
            yield Cell(ACCURACY_TABLES[case.sigma], row, f"{name} {start}", None, value)
        elif case.sigma in ACCURACY_TABLES and epoch == 100:
            yield Cell(LAST_TABLE, row, f"{noise} {start}", None, value)


def _batch(
    config: Classify, case: Case, padded: SetBatch, labels: Tensor, generator: torch.Generator
) -> Batch:
    padded = add_noise(padded, case.sigma, generator=generator)
    if config.mask_feature:
        padded = with_mask_feature(padded)
    return Batch(*padded, labels)


def _check_encoders(config: Classify) -> None:
    """Raise ``ValueError`` before anything is trained if ``encoders`` has not what is needed."""
    if not config.encoders or set(config.starts) == {"random"}:
        return
    theirs = _encoders_config(config.encoders)
    for field in _ALIKE:
        if getattr(config, field) != getattr(theirs, field):
            raise ValueError(
                f"{field} must be that of the encoders in {config.encoders}, "
                f"{getattr(theirs, field)}, got {getattr(config, field)}"
            )
    finished = read_run(config.encoders).tasks
    for sigma, _, pooling in cases(config):
        task = task_name(AUTO_ENCODER_OF[pooling], sigma)
        if task not in finished:
            raise ValueError(
                f"encoders must be a run that has finished {task}, got {config.encoders}"
            )


def _encoders_config(folder: str) -> Reconstruct:
    theirs = read_run(folder)
    if (name := theirs.experiment) != RECONSTRUCT.name:
        raise ValueError(
            f"encoders must be a run of {RECONSTRUCT.name}, got one of {name} in {folder}"
        )
    return config_from_json(RECONSTRUCT, theirs.config, folder)


def _encoder_weights(
    config: Classify, recorder: Recorder, case: Case, labelled: LabelledSets
) -> Mapping[str, Tensor]:
    """The weights of an encoder from an auto-encoder that is read, or trained here."""
    name = AUTO_ENCODER_OF[case.pooling]
    if config.encoders:
        task = task_name(name, case.sigma)
        path = Path(config.encoders) / "checkpoint" / task
        model = build_auto_encoder(_encoders_config(config.encoders), name)
        if not load_weights(path, model):
            raise ValueError(f"encoders must be a run with its checkpoints, got none in {path}")
        weights = encoder_of(model).state_dict()
        recorder.add_data(f"encoder {task}", _digest(weights))
        return weights
    settings = Reconstruct(
        dataset=config.dataset,
        mask_feature=config.mask_feature,
        epochs=config.encoder_epochs,
        bucketed=config.bucketed,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        hidden=config.hidden,
        latent=config.latent,
        slots=max(Reconstruct.slots, int(labelled.sets.sizes.max())),
        seed=config.seed + _OTHER_SEED,
        device=config.device,
    )
    task = f"sigma={case.sigma:.2f} auto-encoder/{name}"
    trained = train_auto_encoder(settings, recorder, name, case.sigma, labelled, task=task)
    return encoder_of(trained).state_dict()


def _digest(weights: Mapping[str, Tensor]) -> str:
    """Return a short fingerprint of weights."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(weights[name].numpy().tobytes())
    return digest.hexdigest()[:16]
