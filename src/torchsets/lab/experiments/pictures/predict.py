"""Predict the objects of scenes from pictures: their states or boxes, by every decoder of sets.

A picture network makes one vector of a picture, from which DSPN, MLP, LSTM and TSPN predict a set;
queries and slots read the map of its features instead. All slots count as predictions, ranked by
presence. With ``sources=stages`` and ``hybrid`` the set half of a DSPN is trained first, without
pictures.
"""

from functools import partial

import torch

from torchsets.data import Minibatches
from torchsets.lab.experiments.outcomes import (
    FOLLOWED,
    REST,
    Outcome,
    precisions,
    predict_sets,
    single_precisions,
)
from torchsets.lab.experiments.pictures.configs import (
    DECODERS,
    DESCENT_SOURCES,
    DESCENTS,
    OBJECTS,
    POOLINGS,
    SOURCES,
    Pictures,
    poolings_of,
    sources_of,
    updates_of,
)
from torchsets.lab.experiments.pictures.data import (
    BOXES,
    FEATURES,
    STATES,
    Batch,
    RealPictures,
    Split,
    Target,
    in_shares,
    load_split,
    real_pictures,
)
from torchsets.lab.experiments.pictures.figures import draw_pictures, draw_precision, draw_worst
from torchsets.lab.experiments.pictures.models import Descent, Predictor, build
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import (
    Settings,
    adam,
    late_decay,
    linear_decay,
    move,
    pick_device,
    seed_everything,
    train,
)
from torchsets.metrics import (
    set_size_accuracy,
    set_size_error,
)
from torchsets.padded import SetBatch, Trajectory

SLOT_RATE, SLOT_WARM_UP = 0.2, 0.02  # slots: a lower learning rate, that rises at first
SET_RATES = {  # of a set half that is trained already: vectors cannot follow a faster one
    "unrolled": 0.05,
    "implicit": 0.0,  # whose gradients do not see that its steps become too large
}
_TEST_BATCH = 125


def run_states(config: Pictures, recorder: Recorder) -> None:
    """Predict the states of objects."""
    _run(config, recorder, STATES)


def run_boxes(config: Pictures, recorder: Recorder) -> None:
    """Predict the boxes of objects."""
    _run(config, recorder, BOXES)


def _run(config: Pictures, recorder: Recorder, target: Target) -> None:
    """Train every model, then measure and draw them."""
    training = load_split(config, target.name, training=True)
    test = load_split(config, target.name, training=False)
    real = real_pictures(config, target.name) if config.real_pictures else None
    _describe_tables(config, recorder, target)
    ways: dict[str, Trajectory] = {}
    for name in config.models:
        for source in sources_of(name, config):
            for pooling in poolings_of(name, config):
                model, seconds = _train(config, recorder, target, (name, source, pooling), training)
                found = predict(model, test, config.test_steps)
                label = label_of(name, source, pooling)
                ways[label] = found.way
                _measure(recorder, target, label, found, test.sets, seconds)
                _compare(config, recorder, target, (name, source, pooling), found, test.sets)
                if isinstance(model, Descent) and config.adaptive_steps:
                    model.adaptive = True
                    adaptive = predict(model, test, config.adaptive_steps)
                    model.adaptive = False
                    _measure(recorder, target, f"{label}, adaptive", adaptive, test.sets)
                if real is not None:
                    _measure_real(config, recorder, target, label, model, real)
    first = Split(test.images[:FOLLOWED], test.sets.select(slice(FOLLOWED)))
    curves = {label: precisions(way, first.sets, target.precision) for label, way in ways.items()}
    draw_precision(recorder, target.columns, curves)
    if target is BOXES:
        sets = SetBatch(in_shares(first.sets.elements, config), first.sets.mask)
        first = Split(first.images, sets)
        ways = {
            label: way._replace(elements=in_shares(way.elements, config))
            for label, way in ways.items()
        }
    draw_pictures(recorder, target.name, ways, first)
    draw_worst(recorder, target.name, ways, first, target.precision)


def label_of(name: str, source: str, pooling: str) -> str:
    """The row of a model."""
    parts = [DECODERS[name]]
    if source in SOURCES:
        parts.append(SOURCES[source])
    if pooling != "fspool":
        parts.append(f"{POOLINGS[pooling].lower()} pooling")
    return ", ".join(parts)


def _train(
    config: Pictures,
    recorder: Recorder,
    target: Target,
    kind: tuple[str, str, str],
    training: Split,
) -> tuple[Predictor, float]:
    name, source, _ = kind
    seed_everything(config.seed)
    slots = OBJECTS[config.objects][1]
    model = build(config, *kind, slots=slots, features=FEATURES[target.name])
    model = model.to(pick_device(config.device))
    batches = Minibatches(len(training.images), config.batch_size, seed=config.seed)
    implicit = name in DESCENTS
    task = " ".join(kind)
    some = training.draw(torch.arange(min(256, len(training.images))), torch.Generator())
    some = move(some, next(model.parameters()).device)
    if isinstance(model, Descent) and config.step_size is None:
        model.prepare(some)
    few = max(1, config.inner_steps // 2) if config.half_steps and name == "implicit" else None

    def draw(step: int, generator: torch.Generator, *, updates: int, joint_from: float) -> Batch:
        steps = few if step < updates // 2 else None
        return training.draw(batches(step), generator, joint=step >= joint_from, steps=steps)

    seconds = 0.0
    if isinstance(model, Descent) and source in DESCENT_SOURCES:
        seconds += train(
            model.decoder,
            adam(model.decoder, 2 * config.learning_rate, implicit=implicit),
            model.set_half_loss,
            partial(draw, updates=config.set_steps, joint_from=0),
            recorder=recorder,
            task=f"sets/{task}",
            settings=Settings(config.set_steps, schedule=late_decay(0.5), seed=config.seed),
        ).seconds
    if isinstance(model, Descent) and config.standardise:
        model.aim(some)
    updates = updates_of(name, source, config)
    joint_from = config.joint_from * updates if source in DESCENT_SOURCES else 0
    slow = name == "slots"
    clip = config.gradient_clip if name in DESCENTS and source not in DESCENT_SOURCES else None
    seconds += train(
        model,
        adam(
            model,
            config.learning_rate * (SLOT_RATE if slow else 1),
            implicit=implicit,
            rates={"decoder": SET_RATES[name]} if source in DESCENT_SOURCES else None,
        ),
        model.loss,
        partial(draw, updates=updates, joint_from=joint_from),
        recorder=recorder,
        task=f"pictures/{task}",
        settings=Settings(
            updates,
            schedule=partial(_warm_up, start=config.decay_from)
            if slow
            else late_decay(config.decay_from),
            clip=1.0 if slow else clip,
            seed=config.seed,
        ),
    ).seconds
    return model, seconds


def _warm_up(share: float, *, start: float) -> float:
    decayed = linear_decay(share, start=start) if start < 1 else 1.0
    return min(decayed, share / SLOT_WARM_UP)


def predict(model: Predictor, test: Split, test_steps: tuple[int, ...]) -> Outcome:
    """Predict sets for all pictures, always from the same starts."""
    return predict_sets(
        model,
        test.draw,
        len(test.images),
        steps=test_steps if isinstance(model, Descent) else (),
        batch_size=_TEST_BATCH,
    )


def _measure(
    recorder: Recorder,
    target: Target,
    label: str,
    found: Outcome,
    sets: SetBatch,
    seconds: float | None = None,
) -> None:
    """Record the numbers of one model in our own tables."""
    cells = []
    for step, prediction in found.after.items():
        row = f"{label}, {step} steps" if step else label
        values = target.precision(prediction, sets)
        single = single_precisions(prediction, sets, target.precision).mean(dim=0)
        for table, numbers in ((target.table, values), (f"{target.table}/single", single)):
            cells += [
                Cell(table, row, column, None, value)
                for column, value in zip(target.columns, numbers.tolist(), strict=True)
            ]
        beside = {
            "size error": set_size_error(prediction.presence, sets.mask).item(),
            "sizes right in %": 100 * set_size_accuracy(prediction.presence, sets.mask).item(),
        }
        if seconds is not None:
            beside["minutes"] = seconds / 60
        if step:
            beside["loss left in %"] = 100 * (found.loss[step - 1] / found.loss[0]).item()
            beside["at rest in %"] = 100 * found.at_rest[step - 1].item()
        cells += [
            Cell(f"{target.table}/beside", row, column, None, value)
            for column, value in beside.items()
        ]
    recorder.add_results(cells)


def _compare(
    config: Pictures,
    recorder: Recorder,
    target: Target,
    kind: tuple[str, str, str],
    found: Outcome,
    sets: SetBatch,
) -> None:
    """Record the numbers of the models that the thesis has, as it names them."""
    name, source, pooling = kind
    other = "" if source == "flat" else f", {source}"  # the thesis flattens the map
    cells = []
    for step, prediction in found.after.items():
        after = f" ({step} iters)" * (step > 0) + other
        compared = []
        if name in ("unrolled", "mlp", "lstm") and pooling == "fspool":
            compared += [(DECODERS[name], one) for one in target.thesis[config.supervise]]
        if name == "unrolled" and config.supervise == "last":
            compared += [(f"DSPN-RN-{POOLINGS[pooling]}", target.ablation)]
        for row, (table, columns, precision) in compared:
            values = precision(prediction, sets).tolist()
            cells += [
                Cell(table, row + after, column, None, value)
                for column, value in zip(columns, values, strict=True)
            ]
    recorder.add_results(cells)


def _measure_real(
    config: Pictures,
    recorder: Recorder,
    target: Target,
    label: str,
    model: Predictor,
    real: RealPictures,
) -> None:
    """Record how good a model is on real pictures, none of which it has seen."""
    for kind, split in (("real", real.pictures), ("rendered", real.renderings)):
        found = predict(model, split, config.test_steps)
        step, prediction = max(found.after.items())
        row = f"{label}, {step} steps, {kind}" if step else f"{label}, {kind}"
        values = target.precision(prediction, split.sets).tolist()
        recorder.add_results(
            Cell(f"{target.table}/real", row, column, None, value)
            for column, value in zip(target.columns, values, strict=True)
        )


def _describe_tables(config: Pictures, recorder: Recorder, target: Target) -> None:
    for table, text in (
        ("", "average precision over all pictures together"),
        ("/single", "mean of the average precision of each picture alone, as iDSPN is quoted"),
        ("/real", "the same for real pictures of CLEVR, and for our renderings of their scenes"),
    ):
        recorder.add_table(
            target.table + table,
            caption=f"The {target.name} of {config.objects} objects, predicted from pictures of "
            f"{config.size} pixels: {text}. All slots count, ranked by presence",
            unit="%",
            better="higher",
        )
    recorder.add_table(
        f"{target.table}/beside",
        caption="The number of objects with a presence of at least 0.5: its mean absolute error, "
        "and where it is right; minutes of training; for a DSPN, the representation loss before "
        "the last step as a share of that before the first, and the share of pictures whose sets "
        f"the last step changes by at most {REST:g}",
        unit="",
    )
