"""How models are trained to answer, how answers are scored, and what of it is compared."""

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from torchsets.data import Minibatches
from torchsets.data.vqa import VQAQuestions
from torchsets.lab.experiments.vqa.configs import CountVQA, OrderVQA
from torchsets.lab.experiments.vqa.data import Asked, Data, Target, known_answers
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import Settings, move, train
from torchsets.metrics.vqa import COUNT_WORDS, VQAScores, question_kinds, vqa_accuracy, vqa_scores

LARGEST = 10
KINDS = ("all", "yes/no", "number", "count", "other numbers", "other")
_TEST_BATCH = 512
_TIMED = 10  # steps to measure


def train_answerer(
    config: CountVQA | OrderVQA,
    recorder: Recorder,
    name: str,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[Target], Tensor],
    data: Data,
    *,
    places: Tensor,
    schedule: Callable[[float, int], float],
    clip: float | None = None,
) -> float:
    """Train a model on the questions at some places, and return the CPU seconds of a step.

    ``schedule`` gets the share of the steps done, and their number.
    """
    batches = Minibatches(len(places), config.batch_size, seed=config.seed)
    steps = config.steps or config.epochs * batches.per_epoch
    every = max(1, steps // config.evaluations) if config.evaluations else batches.per_epoch

    def draw(step: int, generator: torch.Generator | None = None) -> Target:
        del generator
        return data.training.batch(places[batches(step)])

    def evaluate() -> dict[str, float]:
        measured = data.measured
        return {} if measured is None else curve_points(measured, answer_all(model, measured))

    train(
        model,
        optimiser,
        loss,
        draw,
        recorder=recorder,
        task=name,
        settings=Settings(
            steps,
            schedule=lambda share: schedule(share, steps),
            clip=clip,
            seed=config.seed,
            record_every=max(1, every // 4),
            evaluate_every=every,
        ),
        evaluate=evaluate,
    )
    model.eval()
    return step_seconds(model, loss, map(draw, range(_TIMED)))


@torch.no_grad()
def answer_all(model: nn.Module, asked: Asked) -> Tensor:
    """The class that a model gives to each question, (Q,), long."""
    device = next(model.parameters()).device
    given = [
        model(move(asked.batch(chosen).asked, device)).argmax(dim=1).cpu()
        for chosen in torch.split(torch.arange(len(asked.questions)), _TEST_BATCH)
    ]
    return torch.cat(given)


def score(asked: Asked, predicted: Tensor) -> VQAScores:
    """Accuracy and balanced pairs by kind of question; "other numbers" are not counted."""
    kinds = question_kinds(asked.questions.texts, known_answers(asked.questions).type_names)
    kinds["other numbers"] = kinds["number"] & ~kinds["count"]
    return vqa_scores(accuracies(asked, predicted), kinds, asked.pairs)


def curve_points(asked: Asked, predicted: Tensor) -> dict[str, float]:
    """What the learning curves show, in per cent."""
    found = score(asked, predicted).accuracy
    return {kind: 100 * found[kind] for kind in ("all", "count") if kind in found}


def accuracies(asked: Asked, predicted: Tensor) -> Tensor:
    """The VQA accuracy of each answer, (Q,)."""
    return vqa_accuracy((asked.given == predicted.unsqueeze(1)).sum(dim=1))


def true_counts(questions: VQAQuestions) -> Tensor:
    """What most people counted, (Q,), long; -1 if the question is no count of 0 to 10."""
    answers = known_answers(questions)
    values = [
        int(one) if one.isdecimal() and int(one) <= LARGEST else -1 for one in answers.strings
    ]
    counted = torch.tensor(values)[answers.chosen]
    asks = torch.tensor([text.lower().startswith(COUNT_WORDS) for text in questions.texts])
    return counted.masked_fill(~asks, -1)


def chosen_questions(asked: Asked, count: int) -> Tensor:
    """The places of some counting questions, spread over all of them; else of any."""
    places = (true_counts(asked.questions) >= 0).nonzero().squeeze(1)
    if len(places) == 0:
        places = torch.arange(len(asked.questions))
    count = min(count, len(places))
    return places[torch.linspace(0, len(places) - 1, count).long()]


def by_true_count(asked: Asked, predicted: Tensor) -> dict[int, float]:
    """The VQA accuracy of counts in per cent, by what most people counted."""
    accuracy, counts = accuracies(asked, predicted), true_counts(asked.questions)
    return {
        count: 100 * accuracy[counts == count].mean().item()
        for count in range(LARGEST + 1)
        if (counts == count).any()
    }


def step_seconds(
    model: nn.Module, loss: Callable[[Target], Tensor], batches: Iterable[Target]
) -> float:
    """CPU seconds of a forward and backward pass: other processes hardly change them."""
    device = next(model.parameters()).device
    moved = [move(batch, device) for batch in batches]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()
    start = time.process_time()
    for batch in moved:
        loss(batch).backward()  # type: ignore[no-untyped-call]  # torch's
    seconds = (time.process_time() - start) / len(moved)
    model.zero_grad()
    model.load_state_dict(before)  # batch norm has counted the batches
    model.eval()
    return seconds


def own_cells(prefix: str, row: str, asked: Asked, predicted: Tensor, seconds: float) -> list[Cell]:
    """The numbers of a model for the tables of :func:`describe_tables`."""
    found = score(asked, predicted)
    cells = [
        Cell(f"{prefix}{key}", row, kind, None, 100 * values[kind])
        for key, values in (("accuracy", found.accuracy), ("pairs", found.pairs))
        for kind in KINDS
        if kind in values
    ]
    cells += [
        Cell(f"{prefix}by-count", row, str(count), None, value)
        for count, value in by_true_count(asked, predicted).items()
    ]
    return [*cells, Cell(f"{prefix}seconds", row, "ms", None, 1000 * seconds)]


def table_prefix(experiment: str, dataset: str) -> str:
    """The first part of the keys of our own tables: real and synthetic questions are kept apart."""
    return f"{experiment}/" if dataset == "synthetic" else f"{experiment}/v2-"


def describe_tables(recorder: Recorder, prefix: str, data: Data) -> None:
    """Describe our own tables of an experiment."""
    measured = data.measured
    if measured is None:
        return
    synthetic = data.scenes is not None
    source = "Synthetic questions about generated scenes, not VQA v2's" if synthetic else "VQA v2"
    asked = f"{source}: {len(measured.questions)} that were not trained on"
    for key, caption, unit, better in (
        ("accuracy", f"VQA accuracy by kind of question. {asked}", "%", "higher"),
        ("pairs", f"Balanced pairs with both answers right. {asked}", "%", "higher"),
        ("by-count", f"VQA accuracy of counts by the true count. {asked}", "%", "higher"),
        ("seconds", "CPU time of a forward and backward pass", "ms", "lower"),
    ):
        recorder.add_table(f"{prefix}{key}", caption=caption, unit=unit, better=better)
