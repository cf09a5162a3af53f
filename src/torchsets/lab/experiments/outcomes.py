"""What a model predicts for many sets, step by step if it takes steps, and how precise that is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsets.lab.figures import Line, Lines, Panel
from torchsets.lab.training import move
from torchsets.metrics import descent_progress
from torchsets.padded import SetBatch, SetPrediction, Trajectory

START_SEED = 3_000_017
FOLLOWED = 500  # sets whose predictions are kept after every step
REST = 1e-3  # a change of 0.003 in the units of a scene

Measure = Callable[[SetPrediction, SetBatch], Tensor]
"""A prediction and the true sets to a row of numbers."""


class Outcome(NamedTuple):
    """What a model predicts.

    Attributes:
        after: The prediction for all sets after each number of steps that is tested; without
            steps, after 0.
        way: The prediction for the first sets after every step.
        loss: The mean representation loss before each step, (T,).
        at_rest: Share of the sets at rest after each step, (T,).
    """

    after: dict[int, SetPrediction]
    way: Trajectory
    loss: Tensor
    at_rest: Tensor


@torch.no_grad()
def predict_sets(
    model: nn.Module,
    draw: Callable[[Tensor, torch.Generator], Any],
    count: int,
    *,
    steps: Sequence[int] = (),
    batch_size: int = 250,
) -> Outcome:
    """Predict sets, always from the same starts.

    Args:
        model: Called as ``model(batch, steps=, generator=)``, for a :class:`SetPrediction`.
        draw: Places of sets and a random generator to a batch.
        count: How many sets there are.
        steps: Numbers of steps to test with. Empty: the model takes none.
        batch_size: Sets at a time.
    """
    device = next(model.parameters()).device
    generator = torch.Generator().manual_seed(START_SEED)
    kept = sorted(set(steps)) or [0]
    after: dict[int, list[SetPrediction]] = {step: [] for step in kept}
    ways, progress = [], []
    for chosen in torch.split(torch.arange(count), batch_size):
        batch = move(draw(chosen, generator), device)
        prediction = model(batch, steps=max(kept) or None, generator=generator).to("cpu")
        way = as_way(prediction if steps else prediction._replace(trajectory=None))
        for step in kept:
            after[step].append(SetPrediction(way.elements[step], way.presence[step]))
        if chosen[0] < FOLLOWED:
            ways.append(way)
        progress.append(descent_progress(way, tolerance=REST))
    shares = torch.tensor([len(part.presence) for part in after[kept[0]]]) / count
    return Outcome(
        {
            step: SetPrediction(
                torch.cat([part.elements for part in parts]),
                torch.cat([part.presence for part in parts]),
            )
            for step, parts in after.items()
        },
        Trajectory(*(torch.cat(parts, dim=1)[:, :FOLLOWED] for parts in zip(*ways, strict=True))),
        torch.stack([one.loss for one in progress], dim=1) @ shares,
        torch.stack([one.at_rest for one in progress], dim=1) @ shares,
    )


def as_way(prediction: SetPrediction) -> Trajectory:
    """The steps of a prediction; without any, the prediction alone."""
    if prediction.trajectory is not None:
        return prediction.trajectory
    loss = prediction.presence.new_zeros(0, len(prediction.presence))
    return Trajectory(prediction.elements[None], prediction.presence[None], loss)


def precisions(way: Trajectory, sets: SetBatch, precision: Measure) -> Tensor:
    """Average precision after each step, (T+1, thresholds)."""
    return torch.stack(
        [
            precision(SetPrediction(elements, presence), sets)
            for elements, presence in zip(way.elements, way.presence, strict=True)
        ]
    )


def single_precisions(prediction: SetPrediction, sets: SetBatch, precision: Measure) -> Tensor:
    """Average precision of each set by itself, (B, thresholds)."""
    return torch.stack(
        [
            precision(
                SetPrediction(prediction.elements[one], prediction.presence[one]), sets.select(one)
            )
            for one in torch.split(torch.arange(len(sets.mask)), 1)
        ]
    )


def precision_lines(curves: Mapping[str, Tensor], columns: Mapping[int, str]) -> Lines:
    """Average precision (T+1, thresholds) over the steps of each model, a panel for some columns.

    Models without steps are dashed lines.
    """
    last = max(len(curve) for curve in curves.values()) - 1
    return Lines(
        [
            Panel(
                [
                    Line(
                        list(range(len(curve))) if len(curve) > 1 else [0, last],
                        curve[:, index].tolist() * (1 if len(curve) > 1 else 2),
                        label=label,
                        dashed=len(curve) == 1,
                    )
                    for label, curve in curves.items()
                ],
                title=title,
                x_label="steps of the descent",
                y_label="%",
                y_range=(0, 100),
            )
            for index, title in columns.items()
        ],
        columns=3,
    )
