"""The figures of the experiment dspn-polygons: error over the angle, and the set at every step."""

import math
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from torchsets.lab.experiments.rounding import rounded
from torchsets.padded import SetPrediction
from torchsets.lab.records import Recorder

POINTS = 400  # of a line; each shows the worst of the angles it stands for
SHOWN_STEPS = (0, 1, 2, 4, 10, 20, 40)


class Outcome(Protocol):
    """What a trained model makes of the turning polygon; see ``dspn_polygons.Outcome``."""

    @property
    def angles(self) -> Tensor: ...
    @property
    def errors(self) -> Tensor: ...
    @property
    def prediction(self) -> SetPrediction: ...
    @property
    def polygon(self) -> Tensor: ...


Outcomes = Mapping[tuple[str, int], Outcome]


def draw_errors(recorder: Recorder, task: str, what: str, outcomes: Outcomes) -> None:
    """Draw the error of the worst corner over the angle, one panel for each size."""
    panels = []
    for size in sorted({size for _, size in outcomes}):
        lines = []
        for (row, one_size), outcome in outcomes.items():
            if one_size == size:
                angles, errors = _envelope(outcome)
                lines.append({"label": row, "x": angles, "y": errors})
        panels.append(
            {
                "title": f"{size} corners",
                "x_label": "rotation in degrees",
                "y_label": "distance of the worst corner",
                "log_y": True,
                "lines": lines,
            }
        )
    recorder.add_figure(
        f"{task}-errors",
        kind="lines",
        title=f"Error over the angle, {what}",
        caption="From left to right the polygon turns until it is the same set again. The decoders "
        "that predict lists must trade the places of their outputs on the way: there they jump, "
        "and the error has a peak.",
        alt="The distance of the worst predicted corner against the angle, one line per model.",
        data={"panels": panels, "columns": len(panels)},
    )


def draw_steps(recorder: Recorder, task: str, what: str, outcomes: Outcomes) -> None:
    """Draw the set of each DSPN before, during and after the descent."""
    panels, columns = [], 0
    for (row, size), outcome in outcomes.items():
        trajectory = outcome.prediction.trajectory
        if trajectory is None:
            continue
        steps = [step for step in SHOWN_STEPS if step < len(trajectory.elements)]
        columns = len(steps)
        panels += [
            {
                "title": f"{row}, n={size}, step {step}",
                "points": trajectory.elements[step, 0].tolist(),
                "target": outcome.polygon.tolist(),
            }
            for step in steps
        ]
    if panels:
        recorder.add_figure(
            f"{task}-steps",
            kind="points",
            title=f"The set at every step, {what}",
            caption="Rings: the true corners. Dots: the predicted set, from its start to the end "
            "of the descent. The angle is not chosen: a third of the way.",
            alt="Rows of scatter plots, one for each model and size; the dots move into the rings.",
            data={"panels": panels, "columns": columns, "limit": 2.0},
        )


def draw_descent(recorder: Recorder, task: str, what: str, outcomes: Outcomes) -> None:
    """Record every step of each DSPN, for a slider, and how its representation loss falls."""
    panels: list[dict[str, Any]] = []
    lines = []
    for (row, size), outcome in outcomes.items():
        trajectory = outcome.prediction.trajectory
        if trajectory is not None:
            label = f"{row}, n={size}"
            panels.append(_descent_panel(label, trajectory.elements[:, 0], outcome.polygon))
            loss = trajectory.loss[:, 0].clamp(min=1e-12).log10()  # before each step
            lines.append({"label": label, "x": list(range(len(loss))), "y": rounded(loss)})
    if not panels:
        return
    title = "log10 of the representation loss"
    curves = {"kind": "lines", "title": title, "lines": lines, "x_label": "step"}
    steps = max(len(panel["points"]) for panel in panels)
    recorder.add_figure(
        f"{task}-descent",
        kind="frames",
        title=f"Follow the descent, {what}",
        caption="Rings: the true corners. Dots: the predicted set, one colour for each element, "
        "with the way it came from its random start. The steps follow the gradient of the "
        "representation loss; they never see the true corners. Not chosen: the angle is a third of "
        "the way, and this is the first start, where the tables let a set start again.",
        alt="Scatter plots, one for each model and size, whose dots move into the rings.",
        data={
            "slider": {"label": "Step", "values": list(range(steps))},
            "panels": [*panels, curves],
        },
    )


def _descent_panel(title: str, elements: Tensor, polygon: Tensor) -> dict[str, Any]:
    """A panel of the steps (T, N, 2) of one set."""
    farthest = elements[elements.isfinite()].abs().max().item()
    limit = min(3.0, math.ceil(2 * farthest) / 2)
    return {
        "kind": "points",
        "title": title,
        "points": rounded(elements),
        "targets": rounded(polygon.unsqueeze(0)),
        "slots": list(range(len(polygon))),
        "range": [-limit, limit],
        "trail": True,
    }


def _envelope(outcome: Outcome) -> tuple[list[float], list[float]]:
    """The worst error within each of at most POINTS pieces of the angles."""
    worst = outcome.errors.amax(dim=1)
    length = max(1, len(worst) // POINTS)
    pieces = torch.split(worst, length)
    degrees = outcome.angles.rad2deg()[::length]
    return (
        [round(angle, 3) for angle in degrees.tolist()],
        [float(f"{piece.max().item():.4g}") for piece in pieces],
    )
