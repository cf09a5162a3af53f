"""Predict the corners of a polygon from its angle: DSPN against decoders that predict lists.

The input (cos n*angle, sin n*angle) goes once around a circle while the polygon turns onto itself.
An MLP that follows the corners must end with its outputs at other corners than it began with, so
it has to jump. A DSPN descends anew for every angle. In the second task the input is the polygon
itself, squeezed through a permutation-invariant vector: nothing passes by that vector.
"""

import math
from functools import partial

import torch
from torch import Tensor

from torchsets.data import turned_polygons
from torchsets.decoders import DSPN
from torchsets.lab.experiments.polygons.configs import DECODERS, TASKS, Decode
from torchsets.lab.experiments.polygons.figures import (
    Outcome,
    draw_descent,
    draw_errors,
    draw_steps,
)
from torchsets.lab.experiments.polygons.models import PolygonModel
from torchsets.lab.records import Cell, Recorder
from torchsets.lab.training import Settings, linear_decay, pick_device, seed_everything, train
from torchsets.matching import assign

TEST_SEED = 10_007


def run(config: Decode, recorder: Recorder) -> None:
    """Train every model for every task and size, then measure and draw them."""
    for task in config.tasks:
        _add_tables(config, recorder, task)
        outcomes: dict[tuple[str, int], Outcome] = {}
        for size in config.sizes:
            for name in config.models:
                model = _train(config, recorder, name, task, size)
                row = DECODERS[name]
                outcomes[row, size] = outcome = _test(config, model)
                values = {"worst": outcome.errors.max(), "mean": outcome.errors.mean()}
                recorder.add_results(
                    Cell(f"dspn-polygons/{task}-{table}", row, f"n={size}", None, value.item())
                    for table, value in values.items()
                )
        draw_errors(recorder, task, outcomes)
        draw_steps(recorder, task, outcomes)
        draw_descent(recorder, task, outcomes)


def corner_errors(predicted: Tensor, polygons: Tensor) -> Tensor:
    """The distance of each predicted corner from the true one in the best matching, (B, N)."""
    distances = torch.cdist(
        predicted, polygons, compute_mode="donot_use_mm_for_euclid_dist"
    )  # (B, N, N)
    return distances.gather(2, assign(distances).unsqueeze(-1)).squeeze(-1)


def _train(config: Decode, recorder: Recorder, name: str, task: str, size: int) -> PolygonModel:
    seed_everything(config.seed)
    model = PolygonModel(config, name, task, size).to(pick_device(config.device))
    learned = [weight for weight in model.parameters() if weight.requires_grad]
    train(
        model,
        # Implicit gradients are small, because they lack the step size: a smaller eps than usual.
        torch.optim.Adam(learned, lr=config.learning_rate, eps=1e-12, fused=True),
        model.loss,
        partial(_draw, config.batch_size, size),
        recorder=recorder,
        task=f"{task} n={size}/{name}",
        settings=Settings(
            config.steps, schedule=partial(linear_decay, start=0.3), seed=config.seed
        ),
    )
    return model


def _draw(count: int, size: int, step: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Angles, and starts for the descent."""
    angles = 2 * math.pi * torch.rand(count, generator=generator)
    return angles, torch.randn(count, size, 2, generator=generator)


@torch.no_grad()
def _test(config: Decode, model: PolygonModel) -> Outcome:
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(TEST_SEED + config.seed)
    starts = torch.randn(config.test_starts, model.size, 2, generator=generator).to(device)
    angles = torch.linspace(0, 2 * math.pi / model.size, config.angles)
    predicted = model.predict(angles.to(device), starts=starts, steps=config.test_steps)
    errors = corner_errors(predicted.elements.cpu(), turned_polygons(angles, model.size))
    shown = angles[len(angles) // 3 :][:1]
    options = {"initial": starts[:1], "steps": config.test_steps}
    one = model.decoder(
        model.vector(shown.to(device)), **(options if isinstance(model.decoder, DSPN) else {})
    )
    return Outcome(angles, errors, one, turned_polygons(shown, model.size)[0])


def _add_tables(config: Decode, recorder: Recorder, task: str) -> None:
    how = f"of a predicted corner from the polygon, over {config.angles} angles, {TASKS[task]}"
    for table, what in (("worst", "Largest"), ("mean", "Mean")):
        recorder.add_table(
            f"dspn-polygons/{task}-{table}",
            caption=f"{what} distance {how}",
            unit="radii",
            better="lower",
        )
