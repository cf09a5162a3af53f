"""Train an implicit DSPN in other ways, and descend in other ways when it is tested.

What the thesis left to try (its conclusion of chapter 6, and chapter 7), on the states of objects:
fewer steps early in the training, Sinkhorn's loss, a start made by an MLP; and in tests more
steps, steps that adapt, steps until a tolerance, and the average over several starts.
"""

import time
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.lab.experiments.outcomes import START_SEED, as_way
from torchsets.lab.experiments.scenes.configs import (
    OBJECTS,
    SOLVER_TABLE,
    SOLVERS,
    Solvers,
)
from torchsets.lab.experiments.scenes.figures import draw_ways
from torchsets.lab.experiments.scenes.models import DescentAutoEncoder
from torchsets.lab.experiments.scenes.states import (
    COLUMNS,
    TEST_SEED,
    TRAINING_SEED,
    draw_batch,
    fit,
    load_states,
    precision,
)
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import move, seed_everything
from torchsets.losses import assign
from torchsets.losses.elements import cost_matrix
from torchsets.metrics import set_size_accuracy, set_size_error
from torchsets.padded import SetBatch, SetPrediction

BESIDE = f"{SOLVER_TABLE}/beside"
_TEST_BATCH = 250


class Decoded(NamedTuple):
    """Test scenes as a model restores them.

    Attributes:
        sets: The predictions.
        loss: The representation loss before each step, (T, scenes).
        seconds: By the clock.
    """

    sets: SetPrediction
    loss: Tensor
    seconds: float


def run(config: Solvers, recorder: Recorder) -> None:
    """Train in every way, then test each in every way."""
    objects = config.objects
    _describe_tables(config, recorder)
    training = load_states(objects, config.training_scenes, TRAINING_SEED + config.seed)
    test = load_states(objects, config.test_scenes, TEST_SEED + config.seed)
    for name in config.solvers:
        seed_everything(config.seed)
        model = DescentAutoEncoder(
            config,
            slots=OBJECTS[objects][1],
            pooling=config.pooling,
            implicit=True,
            transport=name == "transport",
            listed_start=name == "mlp-start",
        )
        seconds = fit(
            config,
            recorder,
            name,
            model,
            training,
            updates=config.steps,
            first_steps=max(1, config.inner_steps // 2) if name == "half-steps" else None,
        )
        row = SOLVERS[name]
        beside = Cell(BESIDE, row, "minutes of training", None, seconds / 60)
        recorder.add_results([beside])
        curves: dict[str, list[tuple[float, list[float]]]] = {}
        for kind, way, steps, found in try_ways(model, test, config):
            values = precision(found.sets, test).tolist()
            curves.setdefault(kind, []).append((steps, values))
            _measure(recorder, f"{row}, {way}", steps, values, found, test)
        draw_ways(recorder, name, row, curves)


def try_ways(
    model: DescentAutoEncoder, test: SetBatch, config: Solvers
) -> Iterator[tuple[str, str, float, Decoded]]:
    """Decode in every way: its kind, what it is called, the mean number of steps, what it found."""
    most = max(config.test_steps)
    untouched = decode(model, test, 1).loss[0].mean().item()
    for steps in config.test_steps:
        yield "steps", f"{steps} steps", steps, decode(model, test, steps)
    model.adaptive = True
    for steps in config.adaptive_steps:
        yield "adaptive steps", f"{steps} adaptive steps", steps, decode(model, test, steps)
    model.adaptive = False
    for share in config.tolerances:
        model.decoder.tolerance = share * untouched
        found = decode(model, test, most)
        taken = (found.loss >= share * untouched).sum(dim=0)
        way = f"until {share:g}, at most {most} steps"
        yield "until a tolerance", way, taken.double().mean().item(), found
    model.decoder.tolerance = None
    if model.start is not None:
        return
    for starts in config.starts:
        several = [decode(model, test, most, start=start) for start in range(starts)]
        seconds = sum(one.seconds for one in several)
        loss = torch.stack([one.loss for one in several]).amin(dim=0)
        best, mean = join_starts(several)
        for kind, sets in (("best", best), ("mean", mean)):
            way = f"{kind} of {starts} starts"
            yield f"{kind} of starts", way, starts * most, Decoded(sets, loss, seconds)


@torch.no_grad()
def decode(model: DescentAutoEncoder, test: SetBatch, steps: int, *, start: int = 0) -> Decoded:
    """Restore the test scenes, always from the same starts for the same number."""
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(START_SEED + start)
    parts, losses = [], []
    begin = time.perf_counter()
    for chosen in torch.split(torch.arange(len(test.mask)), _TEST_BATCH):
        found = model(move(draw_batch(test, chosen, generator), device), steps=steps).to("cpu")
        parts.append(found)
        losses.append(as_way(found).loss)
    seconds = time.perf_counter() - begin
    sets = SetPrediction(
        torch.cat([part.elements for part in parts]), torch.cat([part.presence for part in parts])
    )
    return Decoded(sets, torch.cat(losses, dim=1), seconds)


def join_starts(several: list[Decoded]) -> tuple[SetPrediction, SetPrediction]:
    """For each scene the set whose loss was lowest; and the mean of all, matched to that one."""
    slots = torch.stack(
        [torch.cat([one.sets.elements, one.sets.presence[..., None]], dim=-1) for one in several]
    )
    lowest = torch.stack([one.loss[-1] for one in several]).argmin(dim=0)
    best = slots[lowest, torch.arange(slots.shape[1])]
    matched = []
    for one in slots:
        order = assign(cost_matrix("huber", best, one))
        matched.append(one.take_along_dim(order.unsqueeze(-1), dim=1))
    mean = torch.stack(matched).mean(dim=0)
    return SetPrediction(best[..., :-1], best[..., -1]), SetPrediction(
        mean[..., :-1], mean[..., -1]
    )


def _measure(
    recorder: Recorder,
    row: str,
    steps: float,
    values: list[float],
    found: Decoded,
    test: SetBatch,
) -> None:
    presence, mask = found.sets.presence, test.mask
    beside = {
        "steps": steps,
        "ms a scene": 1000 * found.seconds / len(mask),
        "loss left in %": 100 * (found.loss[-1].mean() / found.loss[0].mean()).item(),
        "size error": set_size_error(presence, mask).item(),
        "sizes right in %": 100 * set_size_accuracy(presence, mask).item(),
    }
    recorder.add_results(
        [
            *(
                Cell(SOLVER_TABLE, row, name, None, value)
                for name, value in zip(COLUMNS, values, strict=True)
            ),
            *(Cell(BESIDE, row, name, None, value) for name, value in beside.items()),
        ]
    )


def _describe_tables(config: Solvers, recorder: Recorder) -> None:
    recorder.add_table(
        SOLVER_TABLE,
        caption=f"States of {config.objects} objects restored from a vector of {config.latent} "
        f"by an implicit DSPN: average precision over {config.test_scenes} scenes after "
        f"{config.steps} updates, by the way it was trained and the way it descends in the test",
        unit="%",
        better="higher",
    )
    recorder.add_table(
        BESIDE,
        caption="Beside it: minutes of training and milliseconds a scene by the clock of a machine "
        f"that may be busy, in batches of {_TEST_BATCH}; the mean number of steps that a set took; "
        "the representation loss before the last step as a share of that before the first; the "
        "number of objects with a presence of at least 0.5, its mean absolute error and where it "
        "is right",
        unit="",
    )
