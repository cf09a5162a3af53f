"""Count true objects from boxes and noisy weights: the counting module against plain sums.

Ten squares of side l lie in a unit image. Some are true objects; the weight of a box is its
largest overlap with a true one, mixed with a share q of noise. Sweeping l and q shows how robust
the module is to overlaps and to noise, and what its functions learn.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from torchsets.counting import Counter, count_by_nms
from torchsets.data import CountingSets, toy_counting_sets
from torchsets.lab.experiments.counting.configs import MODELS, CountToy, Setting, Sweep, sweeps_of
from torchsets.lab.experiments.counting.figures import (
    draw_accuracies,
    draw_functions,
    draw_matrices,
    draw_sample,
    draw_samples,
)
from torchsets.lab.experiments.counting.models import CountClassifier, Learned, SumOfWeights
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import Settings, move, pick_device, seed_everything, train

TEST_SEED, TUNING_SEED = 10_007, 20_011
TUNING_SETS = 2048
OVERLAPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SCORES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


def run(config: CountToy, recorder: Recorder) -> None:
    """Train and measure every model at every setting, then draw what they learned."""
    sweeps = sweeps_of(config)
    _describe_tables(recorder, sweeps)
    learned: dict[Setting, Learned] = {}
    accuracies: dict[Setting, dict[str, float]] = {}
    for setting in sorted({setting for sweep in sweeps for setting in sweep.settings}):
        accuracies[setting] = measured = {}
        for name in config.models:
            if name == "nms":
                measured[MODELS[name]] = _measure_nms(config, setting)
                continue
            model = _train(config, recorder, name, setting)
            measured[MODELS[name]] = _measure(config, model, setting)
            if isinstance(model.features, Counter):
                learned[setting] = Learned(model.features.cpu(), model.project.cpu())
        _record(recorder, sweeps, setting, measured)
    draw_samples(recorder, boxes=config.boxes)
    draw_accuracies(recorder, sweeps, accuracies)
    if learned:
        _draw_learned(config, recorder, sweeps, learned)


def _train(config: CountToy, recorder: Recorder, name: str, setting: Setting) -> CountClassifier:
    seed_everything(config.seed)
    features = Counter(config.boxes) if name == "counter" else SumOfWeights(config.boxes)
    model = CountClassifier(features).to(pick_device(config.device))

    def loss(batch: CountingSets) -> Tensor:
        return cross_entropy(model(batch.boxes, batch.weights), batch.counts)

    train(
        model,
        torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True),
        loss,
        lambda step, generator: _draw(config, setting, config.batch_size, generator),
        recorder=recorder,
        task=f"{name}/{setting}",
        settings=Settings(config.steps, seed=config.seed),
    )
    return model


def _draw(
    config: CountToy, setting: Setting, sets: int, generator: torch.Generator
) -> CountingSets:
    side, noise = setting
    return toy_counting_sets(sets, side=side, noise=noise, boxes=config.boxes, generator=generator)


@torch.no_grad()
def _measure(config: CountToy, model: CountClassifier, setting: Setting) -> float:
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    sets = move(_draw(config, setting, config.test_sets, generator), device)
    return _percentage(model(sets.boxes, sets.weights).argmax(dim=1), sets.counts)


def _measure_nms(config: CountToy, setting: Setting) -> float:
    """Accuracy of the suppression with the two thresholds that did best on other sets."""
    generator = torch.Generator().manual_seed(TUNING_SEED + config.seed)
    tuning = _draw(config, setting, min(TUNING_SETS, config.test_sets), generator)
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    test = _draw(config, setting, config.test_sets, generator)

    def accuracy(sets: CountingSets, overlap: float, score: float) -> float:
        counts = count_by_nms(sets.boxes, sets.weights, threshold=overlap, min_score=score)
        return _percentage(counts, sets.counts)

    choices = [(overlap, score) for overlap in OVERLAPS for score in SCORES]
    return accuracy(test, *max(choices, key=lambda choice: accuracy(tuning, *choice)))


def _percentage(predicted: Tensor, counts: Tensor) -> float:
    return 100 * (predicted == counts).double().mean().item()


def _describe_tables(recorder: Recorder, sweeps: Sequence[Sweep]) -> None:
    for sweep in sweeps:
        recorder.add_table(
            f"count-toy/{sweep.title}",
            caption=f"Toy counting: accuracy, {sweep.title}",
            unit="%",
            better="higher",
        )


def _record(
    recorder: Recorder, sweeps: Sequence[Sweep], setting: Setting, measured: Mapping[str, float]
) -> None:
    """Record the accuracies at one setting, in each sweep that it is part of."""
    recorder.add_results(
        Cell(f"count-toy/{sweep.title}", row, f"{sweep.varied}={value:g}", None, accuracy)
        for sweep in sweeps
        for value, one in zip(sweep.values, sweep.settings, strict=True)
        if one == setting
        for row, accuracy in measured.items()
    )


def _draw_learned(
    config: CountToy,
    recorder: Recorder,
    sweeps: Sequence[Sweep],
    learned: Mapping[Setting, Learned],
) -> None:
    """Functions for the sweeps nearest to those of the thesis, q = 0.5 and l = 0.5; a sample."""
    for varied, shown_at in (("l", 0.0), ("q", 0.5)):
        chosen = [sweep for sweep in sweeps if sweep.varied == varied]
        if chosen:
            sweep = min(chosen, key=lambda sweep: abs(sweep.fixed - 0.5))
            draw_functions(recorder, sweep, [learned[one].counter for one in sweep.settings])
            sweep = min(chosen, key=lambda sweep: abs(sweep.fixed - shown_at))
            draw_sample(recorder, sweep, [learned[one] for one in sweep.settings])
    setting = min(learned, key=lambda one: abs(one.side - 0.2) + abs(one.noise - 0.1))
    sets = _draw(config, setting, 4, torch.Generator().manual_seed(TEST_SEED))
    draw_matrices(recorder, learned[setting].counter, sets, title=str(setting))
