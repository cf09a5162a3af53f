"""The figures of the small benchmarks of set prediction."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from torchsets.lab.figures import CursorLines, Frames, Line, MovingPoints, Slider
from torchsets.lab.records import Recorder
from torchsets.losses import hungarian_loss
from torchsets.padded import Trajectory

score = partial(hungarian_loss, element="huber", reduction="mean")
"""(prediction (*S, B, N, D), target (B, N, D)) to (*S, B): Huber of the best matching, mean."""


def draw_steps(
    recorder: Recorder, label: str, shown: Mapping[str, Trajectory], sets: Tensor
) -> None:
    """Record the prediction of each model for the first set, and the mean error, at every step."""
    frames = max(len(trajectory.elements) for trajectory in shown.values())
    limit = 1.1 * sets[0, :, :2].abs().max().item()
    panels, lines = [], []
    for row, trajectory in shown.items():
        way = trajectory.elements
        way = torch.cat([way, way[-1:].expand(frames - len(way), -1, -1, -1)])
        panels.append(
            MovingPoints(
                way[:, 0, :, :2].tolist(),
                range=(-limit, limit),
                title=row,
                targets=[sets[0, :, :2].tolist()],
                slots=list(range(sets.shape[1])),
                trail=True,
            )
        )
        errors = score(trajectory.elements, sets).mean(dim=1).log10()
        errors = torch.cat([errors, errors[-1:].expand(frames - len(errors))])
        lines.append(Line(list(range(frames)), errors.tolist(), label=row))
    curves = CursorLines(
        lines, title=f"log10 of the mean error of {len(sets)} sets", x_label="step"
    )
    recorder.add_figure(
        f"steps {label.replace(',', '')}",
        Frames(Slider("Step", list(range(frames))), [*panels, curves]),
        title=f"The prediction at every step, {label}",
        caption="Rings: the set, its first two features. Dots: the prediction, one colour for each "
        "slot, after each inner step (DSPN), layer (queries) or round (slot attention); a model "
        "with fewer steps stays where it ends, and one without steps does not move. The steps "
        "never see the set. Not chosen: the first set of the validation.",
        alt="Scatter plots, one for each model, whose dots move into the rings.",
    )
