"""Class-specific numbering: give equal elements different numbers.

The input is a set of classes. The elements of each class are to be numbered 0, 1, 2, ..., in any
order: the loss matches predictions and numbers within each class. A network that treats equal
elements alike cannot do it. One that goes by the slots has to learn to count every position; a DSPN
starts from random sets, in which no two elements are equal.
"""

from functools import partial

import torch
from torch import Tensor, nn

from torchsets.data.minibatches import Minibatches
from torchsets.lab.experiments.numbering.configs import NUMBERERS, Numbering
from torchsets.lab.experiments.numbering.figures import Descent, draw_descents
from torchsets.lab.experiments.numbering.models import Numberer, SetNumberer, build_numberer
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import Settings, linear_decay, pick_device, seed_everything, train
from torchsets.matching import assign

BASE_SETS = 640  # training sets at 1x data
OTHER_CLASS = 1000.0  # added to the cost of pairs of different class
CHUNK = 500  # sets that are evaluated at the same time
VALIDATION_SEED, TEST_SEED = 20_011, 10_007


def run(config: Numbering, recorder: Recorder) -> None:
    """Train every model on every amount of data, measure, and draw the descent on one set."""
    recorder.add_table(
        "numbering/elements",
        caption="Class-specific numbering: share of elements that have their right number",
        unit="%",
        better="higher",
    )
    descents = {}
    for amount in config.data:
        for name in config.models:
            model = _train(config, recorder, name, amount)
            row = row_name(config, name)
            scores = _measure(config, model, config.test_sets, seed=TEST_SEED + config.seed)
            recorder.add_results(
                Cell(table, row, f"{amount}x data", None, scores[what])
                for table, what in (("numbering", "sets"), ("numbering/elements", "elements"))
            )
            if isinstance(model, SetNumberer):
                descents[f"{NUMBERERS[name]}, {amount}x data"] = _follow(config, model)
    if descents:
        draw_descents(recorder, descents)


def row_name(config: Numbering, name: str) -> str:
    """The row of a model, which says how its sets or its training are not the published ones."""
    label = NUMBERERS[name]
    published = Numbering()
    if config.elements != published.elements:
        return f"{label}, {config.elements} elements"
    if (config.steps, config.batch_size) != (published.steps, published.batch_size):
        return f"{label}, {config.steps} updates of {config.batch_size}"
    return label


def draw_sets(
    count: int, size: int, classes: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw sets: the class and the number within its class of each element, both (count, size)."""
    labels = torch.randint(classes, (count, size), generator=generator)
    one_hot = nn.functional.one_hot(labels, classes)
    seen = one_hot.cumsum(dim=1).gather(2, labels.unsqueeze(-1)).squeeze(-1)
    return labels, seen - 1


def pair_costs(scores: Tensor, numbers: Tensor, *, on_simplex: bool) -> Tensor:
    """What it costs to give each element each of the numbers of its set, (B, N, N).

    Args:
        scores: For each element N numbers, (B, N, N): a point of the simplex, whose squared
            distance from the one-hot number counts, or logits, whose cross entropy does.
        numbers: The numbers of the set, (B, N), long.
        on_simplex: Which of the two.
    """
    at_numbers = numbers.unsqueeze(1).expand_as(scores)
    if not on_simplex:
        return -scores.log_softmax(dim=-1).gather(2, at_numbers)
    length = scores.square().sum(dim=-1, keepdim=True)
    return length + 1 - 2 * scores.gather(2, at_numbers)


def match_in_classes(cost: Tensor, labels: Tensor) -> Tensor:
    """Match elements with numbers of their own class so that the total cost is least, (B, N)."""
    other = labels.unsqueeze(2) != labels.unsqueeze(1)
    return assign(cost.detach() + OTHER_CLASS * other)


def right_elements(scores: Tensor, labels: Tensor, numbers: Tensor, *, on_simplex: bool) -> Tensor:
    """Whether the largest score of each element is that of its matched number, (B, N), bool."""
    matches = match_in_classes(pair_costs(scores, numbers, on_simplex=on_simplex), labels)
    return scores.argmax(dim=-1) == numbers.gather(1, matches)


def _train(config: Numbering, recorder: Recorder, name: str, amount: int) -> Numberer:
    seed_everything(config.seed)
    model = build_numberer(config, name).to(pick_device(config.device))
    count = BASE_SETS * amount
    generator = torch.Generator().manual_seed(config.seed)
    labels, numbers = draw_sets(count, config.elements, config.classes, generator)
    minibatches = Minibatches(count, config.batch_size, seed=config.seed)

    def draw(step: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        chosen = minibatches(step)
        noise = torch.randn(*labels[chosen].shape, model.noise, generator=generator)
        return labels[chosen], numbers[chosen], noise

    def loss(batch: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        labels, numbers, noise = batch
        scores = model(_inputs(labels, config), noise)
        cost = pair_costs(scores, numbers, on_simplex=model.on_simplex)
        return cost.gather(2, match_in_classes(cost, labels).unsqueeze(-1)).mean()

    decay = config.decay_from
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    train(
        model,
        torch.optim.Adam(learned, lr=config.learning_rate),
        loss,
        draw,
        recorder=recorder,
        task=f"{amount}x/{name}",
        settings=Settings(
            config.steps,
            schedule=None if decay is None else partial(linear_decay, start=decay),
            seed=config.seed,
            evaluate_every=max(1, config.steps // 20),
        ),
        evaluate=lambda: {
            f"{what} right in %": value
            for what, value in _measure(
                config, model, config.validation_sets, seed=VALIDATION_SEED
            ).items()
        },
    )
    return model


@torch.no_grad()
def _measure(config: Numbering, model: Numberer, count: int, *, seed: int) -> dict[str, float]:
    """Percentages of sets that are all right, and of elements that are right."""
    device = pick_device(config.device)
    generator = torch.Generator().manual_seed(seed)
    labels, numbers = draw_sets(count, config.elements, config.classes, generator)
    sets, elements = 0, 0
    for part in torch.split(torch.arange(count), CHUNK):
        noise = torch.randn(len(part), config.elements, model.noise, generator=generator)
        own = labels[part].to(device)
        scores = model(_inputs(own, config), noise.to(device))
        right = right_elements(scores, own, numbers[part].to(device), on_simplex=model.on_simplex)
        sets += int(right.all(dim=1).sum())
        elements += int(right.sum())
    return {"sets": 100 * sets / count, "elements": 100 * elements / (count * config.elements)}


@torch.no_grad()
def _follow(config: Numbering, model: SetNumberer) -> Descent:
    """The first test set, its classes in order, after each step of the descent."""
    device = pick_device(config.device)
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    labels, numbers = draw_sets(1, config.elements, config.classes, generator)
    noise = torch.randn(1, config.elements, model.noise, generator=generator)
    order = labels[0].argsort(stable=True)
    labels, numbers, noise = labels[:, order].to(device), numbers[:, order], noise[:, order]
    trajectory = model.decode(_inputs(labels, config), noise.to(device)).trajectory
    assert trajectory is not None  # noqa: S101
    steps = trajectory.elements[:, 0]  # (T + 1, N, N)
    every = (len(steps), -1)
    right = right_elements(
        steps, labels.expand(*every), numbers.to(device).expand(*every), on_simplex=True
    )
    return Descent(labels[0].cpu(), steps.cpu(), right.cpu(), trajectory.loss[:, 0].cpu())


def _inputs(labels: Tensor, config: Numbering) -> Tensor:
    return nn.functional.one_hot(labels, config.classes).float()
