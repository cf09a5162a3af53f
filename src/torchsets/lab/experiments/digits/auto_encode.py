"""Auto-encode MNIST as sets of points through one vector: DSPN against an MLP and an LSTM.

The thesis measures the Chamfer loss with presence as a feature of sets that are padded to 342
slots. One slot at the place of the padding serves all of it, so the number says nothing about how
many points are predicted: a model may switch all slots on. Beside it stand numbers that do.
"""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.data import Minibatches, mnist_point_sets, small_digit_sets
from torchsets.lab.experiments.digits.configs import DECODERS, DESCENTS, Digits, updates_of
from torchsets.lab.experiments.digits.figures import Way, draw_digits
from torchsets.lab.experiments.digits.models import (
    AutoEncoder,
    DescentAutoEncoder,
    build,
    thesis_chamfer,
)
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import (
    Settings,
    adam,
    late_decay,
    move,
    pick_device,
    seed_everything,
    train,
)
from torchsets.losses import SetPredictionLoss, chamfer_loss, hungarian_loss
from torchsets.metrics import set_size_error
from torchsets.padded import SetBatch, SetPrediction
from torchsets.sets import Sets

TABLE, BESIDE_TABLE = "dspn/mnist", "dspn/mnist/beside"
COLUMNS = ("size error", "present points", "matched")
_TEST_BATCH = 50
_FOLLOWED = 50  # sets whose errors a figure shows after each step
_DRAWN = 3

_chamfer = SetPredictionLoss(thesis_chamfer, supervise="last")
_matched = SetPredictionLoss(
    partial(hungarian_loss, element="huber", reduction="mean"), supervise="last"
)


class Scores(NamedTuple):
    """How good predictions are; means over the sets.

    Attributes:
        chamfer: The thesis' loss, in thousandths.
        size: The absolute error of the number of points with a presence of at least 0.5.
        present: Squared Chamfer loss between these points and the true ones, in thousandths.
    """

    chamfer: float
    size: float
    present: float


def run(config: Digits, recorder: Recorder) -> None:
    """Train every model, then measure and draw them."""
    training = load_sets(config, "train", config.training_sets)
    test = load_sets(config, "test", config.test_sets)
    recorder.add_data("training sets", training.digest())
    recorder.add_data("test sets", test.digest())
    _describe_table(config, recorder)
    ways: dict[str, Way] = {}
    for name in config.models:
        model = _train(config, recorder, name, training)
        _measure(config, recorder, name, model, test)
        ways[DECODERS[name]] = follow(config, model, test)
    draw_digits(recorder, test[:_DRAWN].to_list(), ways)


def load_sets(config: Digits, split: str, limit: int | None) -> Sets:
    """Load the point sets of a split, at most so many of them."""
    load = mnist_point_sets if config.dataset == "mnist" else small_digit_sets
    sets = load(split).sets[:limit]
    largest = int(sets.sizes.max())
    if largest > config.slots:
        raise ValueError(f"slots must be at least {largest}, the largest set, got {config.slots}")
    return sets


def _train(config: Digits, recorder: Recorder, name: str, training: Sets) -> AutoEncoder:
    seed_everything(config.seed)
    model = build(config, name).to(pick_device(config.device))
    batches = Minibatches(len(training), config.batch_size, seed=config.seed)
    if isinstance(model, DescentAutoEncoder) and config.step_size is None:
        some = training.batch(slice(64), size=config.slots)
        model.prepare(move(some, next(model.parameters()).device))
    train(
        model,
        adam(model, config.learning_rate, implicit=name in DESCENTS),
        model.loss,
        lambda step, generator: training.batch(batches(step), size=config.slots),
        recorder=recorder,
        task=name,
        settings=Settings(
            updates_of(name, config),
            schedule=late_decay(config.decay_from),
            clip=config.clip if name in DESCENTS else None,
            seed=config.seed,
            record_every=20,
        ),
    )
    return model


def _measure(config: Digits, recorder: Recorder, name: str, model: AutoEncoder, test: Sets) -> None:
    """Record the numbers of one model, after each number of steps that is tested."""
    found = evaluate(config, model, test)
    aware = ", size-aware" * (config.loss != "thesis")
    for steps, (scores, matched) in found.items():
        row = DECODERS[name] + f" ({steps} iters)" * (steps not in (0, config.inner_steps))
        recorder.add_result(TABLE, model=row, column="loss", value=scores.chamfer)
        values = (scores.size, scores.present, matched)
        recorder.add_results(
            Cell(BESIDE_TABLE, row + aware, column, None, value)
            for column, value in zip(COLUMNS, values, strict=True)
        )


@torch.no_grad()
def evaluate(config: Digits, model: AutoEncoder, test: Sets) -> dict[int, tuple[Scores, float]]:
    """For each number of steps (0: there are none) the scores, and the matched error of some."""
    tested = sorted(set(config.test_steps)) if isinstance(model, DescentAutoEncoder) else [0]
    totals = {steps: torch.zeros(4, dtype=torch.float64) for steps in tested}
    matched = min(config.matched_sets, len(test))
    for chosen in torch.split(torch.arange(len(test)), _TEST_BATCH):
        sets = test.batch(chosen, size=config.slots)
        way = predict(model, sets, tested)
        for steps, prediction in way.items():
            scores = torch.tensor(score(prediction, sets), dtype=torch.float64)
            totals[steps][:3] += len(chosen) * scores
            few = max(0, min(len(chosen), matched - int(chosen[0])))
            first = SetPrediction(prediction.elements[:few], prediction.presence[:few])
            totals[steps][3] += 1000 * _matched(first, *sets.select(slice(few))).double().sum()
    return {
        steps: (Scores(*(total[:3] / len(test)).tolist()), total[3].item() / matched)
        for steps, total in totals.items()
    }


def predict(model: AutoEncoder, sets: SetBatch, tested: list[int]) -> dict[int, SetPrediction]:
    """The prediction on the CPU after each of some numbers of steps."""
    there = move(sets, next(model.parameters()).device)
    prediction = model(there, steps=max(tested) or None).to("cpu")
    way = prediction.trajectory
    if way is None:
        return dict.fromkeys(tested, prediction)
    return {steps: SetPrediction(way.elements[steps], way.presence[steps]) for steps in tested}


def score(prediction: SetPrediction, sets: SetBatch) -> Scores:
    """Compare predicted with true sets; a prediction without points keeps its likeliest one."""
    presence = prediction.presence
    points = presence >= presence.amax(dim=1, keepdim=True).clamp(max=0.5)
    present = chamfer_loss(prediction.elements, *sets, prediction_mask=points, reduction="mean")
    return Scores(
        1000 * _chamfer(prediction, *sets).mean().item(),
        set_size_error(presence, sets.mask).item(),
        1000 * present.mean().item(),
    )


@torch.no_grad()
def follow(config: Digits, model: AutoEncoder, test: Sets) -> Way:
    """How a model predicts the first test sets, step by step."""
    sets = test.batch(slice(_FOLLOWED), size=config.slots)
    steps = [0]
    if isinstance(model, DescentAutoEncoder):
        steps = sorted({*range(config.inner_steps + 1), *config.test_steps})
    found = predict(model, sets, steps)
    scores = [score(prediction, sets) for prediction in found.values()]

    def stacked(tensors: list[Tensor]) -> Tensor:
        return torch.stack([tensor[:_DRAWN] for tensor in tensors])

    return Way(
        steps,
        stacked([prediction.elements for prediction in found.values()]),
        stacked([prediction.presence for prediction in found.values()]),
        [one.chamfer for one in scores],
        [one.size for one in scores],
    )


def _describe_table(config: Digits, recorder: Recorder) -> None:
    recorder.add_table(
        BESIDE_TABLE,
        caption="What the Chamfer loss of the table does not see. Size error: mean absolute error "
        "of the number of points, those with a presence of at least 0.5. Present points: squared "
        "Chamfer loss between these points and the true ones, in thousandths. Matched: Huber loss "
        f"of the best one-to-one matching of all {config.slots} slots with the padded sets, "
        f"presence as a feature, for {config.matched_sets} sets, in thousandths",
        unit="",
        better="lower",
    )
