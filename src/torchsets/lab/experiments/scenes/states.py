"""Auto-encode the objects of scenes through one vector: the set half of object detection.

A set encoder squeezes the states of 3 to 10 objects (position, material, colour, shape, size) into
a vector, and each decoder gets that vector alone. Without pictures there is nothing else to learn
than the way from a vector to a set. DSPN encodes with the encoder that it descends on, so it has no
weights beside it; the other decoders have an encoder of the same kind before them.
"""

from functools import partial

import torch
from torch import Tensor, nn

from torchsets.data import Minibatches, sample_scenes, scene_states
from torchsets.lab.experiments.outcomes import FOLLOWED, REST, Outcome, precisions, predict_sets
from torchsets.lab.experiments.scenes.configs import (
    DECODERS,
    OBJECTS,
    POOLINGS,
    TABLES,
    THRESHOLDS,
    Scenes,
    States,
    poolings_of,
    updates_of,
)
from torchsets.lab.experiments.scenes.figures import draw_precision, draw_scene
from torchsets.lab.experiments.scenes.models import (
    AutoEncoder,
    Batch,
    DescentAutoEncoder,
    build,
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
from torchsets.metrics import (
    set_size_accuracy,
    set_size_error,
    state_average_precision,
)
from torchsets.padded import SetBatch, SetPrediction, Trajectory

SIZE_TABLE, DESCENT_TABLE = "dspn-states/sizes", "dspn-states/descent"
COLUMNS = [f"AP_{threshold:g}" for threshold in THRESHOLDS]
TRAINING_SEED, TEST_SEED = 1_000_003, 2_000_003
_DRAWN = 3


def run(config: States, recorder: Recorder) -> None:
    """Train every model on every kind of scene, then measure and draw them."""
    _describe_tables(config, recorder)
    for objects in config.objects:
        training = load_states(objects, config.training_scenes, TRAINING_SEED + config.seed)
        test = load_states(objects, config.test_scenes, TEST_SEED + config.seed)
        ways: dict[str, Trajectory] = {}
        for name in config.models:
            for pooling in poolings_of(name, config):
                model = _train(config, recorder, objects, name, pooling, training)
                found = predict(model, test, config.test_steps)
                label = label_of(name, pooling)
                _measure(recorder, objects, label, found, test)
                ways[label] = found.way
        first = test.select(slice(FOLLOWED))
        draw_precision(
            recorder, objects, {one: precisions(ways[one], first, precision) for one in ways}
        )
        for index in range(min(_DRAWN, len(first.mask))):
            draw_scene(recorder, objects, ways, first, index)


def load_states(objects: str, count: int, seed: int) -> SetBatch:
    """Draw scenes, and give their objects as sets of states with a slot for every object."""
    states = scene_states(sample_scenes(count, objects=OBJECTS[objects], seed=seed))
    missing = OBJECTS[objects][1] - states.mask.shape[1]  # few scenes may all be small
    return SetBatch(
        nn.functional.pad(states.elements, (0, 0, 0, missing)),
        nn.functional.pad(states.mask, (0, missing)),
    )


def label_of(name: str, pooling: str) -> str:
    """The row of a model."""
    return DECODERS[name] + f", {POOLINGS[pooling]}" * (pooling != "fspool")


def draw_batch(
    states: SetBatch, chosen: Tensor, generator: torch.Generator, *, steps: int | None = None
) -> Batch:
    """Choose some scenes, and draw a start for each."""
    elements, mask = states.select(chosen)
    return Batch(elements, mask, torch.randn(elements.shape, generator=generator), steps)


def _train(
    config: States, recorder: Recorder, objects: str, name: str, pooling: str, training: SetBatch
) -> AutoEncoder:
    seed_everything(config.seed)
    model = build(config, name, pooling, slots=OBJECTS[objects][1])
    task, updates = f"{objects}/{name} {pooling}", updates_of(name, config)
    fit(config, recorder, task, model, training, updates=updates)
    return model


def fit(
    config: Scenes,
    recorder: Recorder,
    task: str,
    model: AutoEncoder,
    training: SetBatch,
    *,
    updates: int,
    first_steps: int | None = None,
) -> float:
    """Train a model, and return the seconds; first_steps: of a DSPN, in the first half."""
    model.to(pick_device(config.device))
    batches = Minibatches(len(training.mask), config.batch_size, seed=config.seed)
    if isinstance(model, DescentAutoEncoder) and config.step_size is None:
        some = draw_batch(training, torch.arange(min(256, len(training.mask))), torch.Generator())
        model.prepare(move(some, next(model.parameters()).device))

    def draw(step: int, generator: torch.Generator) -> Batch:
        steps = first_steps if step < updates // 2 else None
        return draw_batch(training, batches(step), generator, steps=steps)

    return train(
        model,
        adam(model, config.learning_rate, implicit=isinstance(model, DescentAutoEncoder)),
        model.loss,
        draw,
        recorder=recorder,
        task=task,
        settings=Settings(updates, schedule=late_decay(config.decay_from), seed=config.seed),
    ).seconds


def predict(model: AutoEncoder, test: SetBatch, test_steps: tuple[int, ...]) -> Outcome:
    """Predict the test scenes, always from the same starts."""
    return predict_sets(
        model,
        partial(draw_batch, test),
        len(test.mask),
        steps=test_steps if isinstance(model, DescentAutoEncoder) else (),
    )


def precision(prediction: SetPrediction, test: SetBatch) -> Tensor:
    """Average precision in % over all scenes at each threshold. All slots are ranked."""
    return 100 * state_average_precision(
        prediction.elements,
        prediction.presence,
        test.elements,
        test.mask,
        thresholds=THRESHOLDS,
    )


def _measure(recorder: Recorder, objects: str, label: str, found: Outcome, test: SetBatch) -> None:
    """Record the numbers of one model."""
    cells = []
    for step, prediction in found.after.items():
        row = f"{label}, {step} steps" if step else label
        for name, value in zip(COLUMNS, precision(prediction, test).tolist(), strict=True):
            cells.append(Cell(TABLES[objects], row, name, None, value))
        row = f"{row}, {objects} objects"
        error = set_size_error(prediction.presence, test.mask).item()
        right = 100 * set_size_accuracy(prediction.presence, test.mask).item()
        cells.append(Cell(SIZE_TABLE, row, "mean absolute error", None, error))
        cells.append(Cell(SIZE_TABLE, row, "right in %", None, right))
        if step:
            share = (found.loss[step - 1] / found.loss[0]).item()
            at_rest = found.at_rest[step - 1].item()
            cells.append(Cell(DESCENT_TABLE, row, "loss left", None, 100 * share))
            cells.append(Cell(DESCENT_TABLE, row, "sets at rest", None, 100 * at_rest))
    recorder.add_results(cells)


def _describe_tables(config: States, recorder: Recorder) -> None:
    for objects in config.objects:
        recorder.add_table(
            TABLES[objects],
            caption=f"States of {objects} objects restored from a vector of {config.latent}: "
            f"average precision over {config.test_scenes} scenes at distances up to the "
            f"threshold, after {config.steps} updates of {config.batch_size} scenes for the "
            "implicit DSPN"
            + ", and about the same time for the others" * config.equal_time
            + ". All slots count as predictions, ranked by presence",
            unit="%",
            better="higher",
        )
    recorder.add_table(
        SIZE_TABLE,
        caption="Number of predicted objects, those with a presence of at least 0.5: its mean "
        "absolute error, and the share of scenes in which it is right",
        unit="",
    )
    recorder.add_table(
        DESCENT_TABLE,
        caption="How far the descent of a DSPN gets: the representation loss before the last step "
        "as a share of that before the first, and the share of scenes that the last step changes "
        f"by at most {REST:g}",
        unit="%",
    )
