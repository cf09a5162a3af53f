"""Answer questions about sets of objects: FSPool, relation networks, Janossy, plain pooling.

With our own questions the models train on sampled scenes and are tested on CLEVR's validation
scenes; their accuracies are not those of CLEVR's questions.
"""

import time
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import nll_loss

from torchsets.data import Minibatches
from torchsets.data.questions import ANSWERS, FAMILIES
from torchsets.lab.experiments.clevr.configs import MILESTONES, OTHER_ROWS, AskScenes
from torchsets.lab.experiments.clevr.data import (
    Asked,
    Data,
    best_constant,
    family_names,
    load_data,
    type_of,
)
from torchsets.lab.experiments.clevr.figures import draw_families, draw_mistakes, draw_weights
from torchsets.lab.experiments.clevr.models import (
    Answerer,
    Batch,
    PooledObjects,
    function_shapes,
)
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import History, Settings, move, pick_device, seed_everything, train
from torchsets.pooling import FSPool

_TEST_BATCH = 1024
_WARM_STEPS = 500
_FALL = 0.3  # share of the steps over which the learning rate falls
_FIRST = 0.2  # share of the steps that ask the first groups alone
_TIMED = 10  # steps to measure
_LAST = 11  # evaluations whose mean is the thesis' accuracy
_OUR = "Our own questions about scenes, not CLEVR's. "


class Trained(NamedTuple):
    """A model, its learning curves, which test answers are right, and CPU seconds of a step."""

    model: Answerer
    history: History
    given: Tensor
    seconds: float


def run(config: AskScenes, recorder: Recorder) -> None:
    """Train every model and measure it on the questions of the test scenes."""
    data = load_data(config)
    recorder.add_data("training questions", data.training.digest())
    recorder.add_data("test questions", data.test.digest())
    _describe_tables(config, recorder, data)
    for name in config.models:
        trained = _train(config, recorder, name, data)
        row = OTHER_ROWS[name]
        recorder.add_results(_cells(config, data, row, trained))
        if isinstance(trained.model.objects, PooledObjects):
            pool = trained.model.objects.pool
            if isinstance(pool, FSPool):
                recorder.add_results(
                    Cell("clevr-questions/functions", row, shape, None, count)
                    for shape, count in function_shapes(pool.weight).items()
                )
                draw_weights(recorder, pool.weight)
        right = trained.given == data.test.column("answers")
        draw_families(recorder, row, _by_family(data.test, right))
        draw_mistakes(recorder, row, data.test, trained.given)


@torch.no_grad()
def answer_all(model: Answerer, asked: Asked) -> Tensor:
    """The number of the answer that the model gives to each question, (questions,)."""
    device = next(model.parameters()).device
    by_length = asked.column("lengths").argsort(stable=True)  # little padding
    given = torch.empty(len(by_length), dtype=torch.long)
    for chosen in torch.split(by_length, _TEST_BATCH):
        given[chosen] = model(move(asked.batch(chosen), device)).argmax(dim=1).cpu()
    return given


def learning_rate_factor(share: float, *, config: AskScenes, steps: int) -> float:
    """The learning rate after a share of the training, as a share of its largest value."""
    if config.schedule == "thesis":
        return min(1.0, 0.01 * 2.0 ** (int(share * config.epochs + 1e-6) // 20))
    rising = (share * steps + 1) / min(_WARM_STEPS, steps)
    return min(1.0, rising, (1 - share) / _FALL)


def _train(config: AskScenes, recorder: Recorder, name: str, data: Data) -> Trained:
    seed_everything(config.seed)
    asked = data.training
    model = Answerer(
        config,
        name,
        features=asked.states.elements.shape[2],
        words=len(asked.questions.vocabulary),
        answers=len(ANSWERS),
    )
    model.to(pick_device(config.device))
    per_epoch = len(asked.questions) // config.batch_size
    steps = config.steps or config.epochs * per_epoch
    every = max(1, steps // config.evaluations) if config.evaluations else per_epoch
    optimiser = torch.optim.Adam(
        model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )

    def evaluate() -> dict[str, float]:
        model.orders = 1  # Janossy's many orders only count at the end
        right = answer_all(model, data.test) == data.test.column("answers")
        model.orders = config.orders
        return {"accuracy": 100 * right.double().mean().item()}

    draw = _Draw(config, asked, steps)
    history = train(
        model,
        optimiser,
        lambda batch: nll_loss(model(batch), batch.answers),
        draw,
        recorder=recorder,
        task=name,
        settings=Settings(
            steps,
            schedule=partial(learning_rate_factor, config=config, steps=steps),
            clip=config.clip,
            seed=config.seed,
            record_every=max(1, every // 4),
            evaluate_every=every,
        ),
        evaluate=evaluate,
    )
    model.eval()
    return Trained(model, history, answer_all(model, data.test), _step_seconds(model, draw))


class _Draw:
    """The questions of a step; at first of the first groups alone."""

    def __init__(self, config: AskScenes, asked: Asked, steps: int) -> None:
        self.asked, self.until = asked, 0
        self.all = Minibatches(len(asked.questions), config.batch_size, seed=config.seed)
        if config.first_groups:
            self.until = int(_FIRST * steps)
            first = [at for at, one in enumerate(FAMILIES) if one.group in config.first_groups]
            among = torch.isin(asked.column("families"), torch.tensor(first))
            self.places = among.nonzero().squeeze(1)
            self.first = Minibatches(len(self.places), config.batch_size, seed=config.seed)

    def __call__(self, step: int, generator: torch.Generator | None = None) -> Batch:
        if step < self.until:
            return self.asked.batch(self.places[self.first(step)])
        return self.asked.batch(self.all(step))


def _step_seconds(model: Answerer, draw: _Draw) -> float:
    """CPU seconds of a forward and backward pass: other processes hardly change them."""
    device = next(model.parameters()).device
    batches = [move(draw(step), device) for step in range(_TIMED)]
    model.train()
    start = time.process_time()
    for batch in batches:
        nll_loss(model(batch), batch.answers).backward()  # type: ignore[no-untyped-call]  # torch's
    seconds = (time.process_time() - start) / _TIMED
    model.zero_grad()
    model.eval()
    return seconds


def _by_family(asked: Asked, right: Tensor) -> dict[str, float]:
    families = asked.column("families")
    return {
        name: 100 * right[families == number].double().mean().item()
        for number, name in family_names(asked).items()
    }


def _cells(config: AskScenes, data: Data, row: str, trained: Trained) -> list[Cell]:
    curve = trained.history.curve("accuracy")
    right = trained.given == data.test.column("answers")
    accuracy = 100 * right.double().mean().item()
    last = [value for _, value in curve[-_LAST:]]
    own = "clevr-questions/accuracy"
    by_family = _by_family(data.test, right)
    cells = [
        Cell("fspool/clevr", row, "accuracy", None, accuracy),
        Cell(own, row, "accuracy", None, accuracy),
        Cell(own, row, "mean over families", None, sum(by_family.values()) / len(by_family)),
        Cell(own, row, f"mean of the last {len(last)} evaluations", None, sum(last) / len(last)),
        Cell("clevr-questions/seconds", row, "ms", None, 1000 * trained.seconds),
    ]
    for name, chosen in type_of(data.test).items():
        value = 100 * right[chosen].double().mean().item()
        cells.append(Cell("clevr-questions/types", row, name, None, value))
    for milestone in MILESTONES:
        step = next((step for step, value in curve if value >= milestone), None)
        if step is None:
            continue
        seen = step * config.batch_size
        column = f"{milestone:g} %"
        cells.append(Cell("clevr-questions/milestones", row, column, None, seen / 1000))
        if milestone >= 98:
            epochs = seen / len(data.training.questions)
            cells.append(Cell("fspool/clevr-epochs", row, f"{milestone:.2f} %", None, epochs))
        if milestone == 99:
            hours = step / curve[-1][0] * trained.history.seconds / 3600
            cells.append(Cell("fspool/clevr-time-to-99-text", row, "until 99 %", None, hours))
    if config.steps is None:
        hours = trained.history.seconds / 3600
        cells.append(Cell("fspool/clevr-time", row, f"{config.epochs} epochs", None, hours))
    return cells


def _describe_tables(config: AskScenes, recorder: Recorder, data: Data) -> None:
    ours = _OUR if config.dataset == "ours" else ""
    where = "CLEVR's validation scenes" if data.real else "other sampled scenes"
    asked = f"{ours}{len(data.test.questions)} questions about {where}"
    constant = f"the best constant answer of each family: {best_constant(data.test):.1f} %"
    for key, caption, unit, better in (
        ("accuracy", f"Accuracy of the answers. {asked}; {constant}", "%", "higher"),
        ("types", f"Accuracy by type of question. {asked}", "%", "higher"),
        ("milestones", "Questions seen until an accuracy was reached", "thousands", "lower"),
        ("equal-time", f"Accuracy after minutes of CPU time in steps. {asked}", "%", "higher"),
        ("seconds", "CPU time of a forward and backward pass", "ms", "lower"),
        ("functions", "Learned weight functions of FSPool, by their shape", "features", None),
        ("tests", "p of Welch's t-test of the accuracies over seeds, two-sided", "", None),
    ):
        recorder.add_table(f"clevr-questions/{key}", caption=caption, unit=unit, better=better)
