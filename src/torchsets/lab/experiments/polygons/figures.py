"""The figures of the experiments on polygons."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.data import turned_polygons
from torchsets.lab.experiments.polygons.configs import TASKS
from torchsets.lab.figures import (
    CursorLines,
    Frames,
    Line,
    Lines,
    MovingPoints,
    Panel,
    Points,
    PointSet,
    Slider,
)
from torchsets.lab.records import Recorder
from torchsets.padded import SetPrediction

_MOST_POINTS = 400  # of a line; each shows the worst of the angles it stands for
_SHOWN_STEPS = (0, 1, 2, 4, 10, 20, 40)
_FRAMES = 91  # a degree for each


def draw_reconstructions(
    recorder: Recorder, shown: Mapping[int, Tensor], made: Mapping[tuple[str, int], Tensor]
) -> None:
    """Draw one polygon (N, 2) of each size, and what each model makes of it."""
    panels = [
        PointSet(points.tolist(), title=f"{row}, n={size}", target=shown[size].tolist())
        for (row, size), points in made.items()
    ]
    recorder.add_figure(
        "reconstructions",
        Points(panels, columns=len({row for row, _ in made}), limit=1.25),
        title="Polygons and their reconstructions",
        caption="Rings: the corners of the polygon. Dots: what the model returns for it. Not "
        "chosen: the polygon is turned by 0.4 radians in every panel.",
        alt="Grid of scatter plots, one row for each number of corners and one column for each "
        "model; FSPool's dots lie inside the rings.",
    )


def draw_paths(recorder: Recorder, turning: Mapping[str, Tensor]) -> None:
    """Draw the coordinates of the outputs (A, 4, 2) of each model while the square turns."""
    panels = []
    for row, outputs in turning.items():
        shown = outputs[::3]  # more cannot be seen
        degrees = torch.linspace(0, 90, len(shown)).tolist()
        for index, axis in enumerate("xy"):
            lines = [
                Line(degrees, shown[:, slot, index].tolist(), label=f"output {slot + 1}")
                for slot in range(4)
            ]
            panels.append(
                Panel(
                    lines,
                    title=f"{row}: {axis} of each output",
                    x_label="rotation of the square in degrees",
                    y_range=(-1.3, 1.3),
                )
            )
    recorder.add_figure(
        "responsibility-paths",
        Lines(panels, columns=2),
        title="The responsibility problem: a square turns by 90 degrees",
        caption="After 90 degrees the square is the same set as at 0. An MLP decoder must then "
        "return the same list too, so on the way its outputs have to jump from corner to corner, "
        "all at once. With FSUnpool each output follows its own corner and nothing jumps.",
        alt="Coordinates of the four outputs of each decoder against the angle of the square: "
        "FSPool's follow the corners smoothly, those of the MLPs start and end at equal values.",
    )


def draw_squares(recorder: Recorder, turning: Mapping[str, Tensor]) -> None:
    """Draw the square at seven angles, its corners coloured by the output that makes them."""
    panels = []
    for row, outputs in turning.items():
        for part in range(7):
            degrees = 90 * part / 6
            square = turned_polygons(torch.tensor([degrees]).deg2rad(), 4)[0]
            points = outputs[(len(outputs) - 1) * part // 6]
            panels.append(
                PointSet(
                    points.tolist(),
                    title=f"{row}, {degrees:.0f}°",
                    slots=list(range(4)),
                    target=square.tolist(),
                )
            )
    recorder.add_figure(
        "responsibility-squares",
        Points(panels, columns=7, limit=1.25),
        title="Which output makes which corner",
        caption="One colour for each output of the decoder; rings are the true corners. The last "
        "square is the first one again, so an MLP ends with the colours it began with.",
        alt="Seven squares for each decoder, turned from 0 to 90 degrees, corners coloured by "
        "the output that makes them.",
    )


def draw_turning(recorder: Recorder, turning: Mapping[str, Tensor]) -> None:
    """Record the outputs (A, 4, 2) of each model for a slider that turns the square."""
    degrees = torch.linspace(0, 90, _FRAMES)
    squares = turned_polygons(degrees.deg2rad(), 4).tolist()
    panels = []
    for row, path in turning.items():
        chosen = torch.linspace(0, len(path) - 1, _FRAMES).round().long()
        panels.append(
            MovingPoints(
                path[chosen].tolist(),
                range=(-1.3, 1.3),
                title=row,
                targets=squares,
                slots=[0, 1, 2, 3],
                trail=True,
            )
        )
    recorder.add_figure(
        "responsibility-turning",
        Frames(Slider("Rotation", [round(x) for x in degrees.tolist()], unit="°"), panels),
        title="Turn the square",
        caption="One colour for each output of the decoder, with its path; rings are the true "
        "corners. At 90 degrees the set is the same as at 0. FSPool's outputs follow their "
        "corners; those of an MLP have to be back where they began, and jump on the way.",
        alt="One square for each decoder, whose four coloured outputs move as the square turns.",
    )


class Outcome(NamedTuple):
    """What a trained decoder makes of the turning polygon.

    Attributes:
        angles: The angles of the test, (A,).
        errors: The distance of each predicted corner from the true one, (A, N).
        prediction: The prediction for one angle, with all its steps.
        polygon: The polygon at that angle, (N, 2).
    """

    angles: Tensor
    errors: Tensor
    prediction: SetPrediction
    polygon: Tensor


Outcomes = Mapping[tuple[str, int], Outcome]


def draw_errors(recorder: Recorder, task: str, outcomes: Outcomes) -> None:
    """Draw the error of the worst corner over the angle, one panel for each size."""
    panels = [
        Panel(
            [_envelope(row, outcome) for (row, one), outcome in outcomes.items() if one == size],
            title=f"{size} corners",
            x_label="rotation in degrees",
            y_label="distance of the worst corner",
            log_y=True,
        )
        for size in sorted({size for _, size in outcomes})
    ]
    recorder.add_figure(
        f"{task}-errors",
        Lines(panels, columns=len(panels)),
        title=f"Error over the angle, {TASKS[task]}",
        caption="From left to right the polygon turns until it is the same set again. The decoders "
        "that predict lists must trade the places of their outputs on the way: there they jump, "
        "and the error has a peak.",
        alt="The distance of the worst predicted corner against the angle, one line per model.",
    )


def draw_steps(recorder: Recorder, task: str, outcomes: Outcomes) -> None:
    """Draw the set of each DSPN before, during and after the descent."""
    panels, columns = [], 0
    for (row, size), outcome in outcomes.items():
        trajectory = outcome.prediction.trajectory
        if trajectory is None:
            continue
        steps = [step for step in _SHOWN_STEPS if step < len(trajectory.elements)]
        columns = len(steps)
        panels += [
            PointSet(
                trajectory.elements[step, 0].tolist(),
                title=f"{row}, n={size}, step {step}",
                target=outcome.polygon.tolist(),
            )
            for step in steps
        ]
    if panels:
        recorder.add_figure(
            f"{task}-steps",
            Points(panels, columns=columns, limit=2.0),
            title=f"The set at every step, {TASKS[task]}",
            caption="Rings: the true corners. Dots: the predicted set, from its start to the end "
            "of the descent. The angle is not chosen: a third of the way.",
            alt="Rows of scatter plots, one for each model and size; the dots move into the rings.",
        )


def draw_descent(recorder: Recorder, task: str, outcomes: Outcomes) -> None:
    """Record every step of each DSPN, for a slider, and how its representation loss falls."""
    panels: list[MovingPoints] = []
    lines = []
    for (row, size), outcome in outcomes.items():
        trajectory = outcome.prediction.trajectory
        if trajectory is not None:
            label = f"{row}, n={size}"
            panels.append(_descent_panel(label, trajectory.elements[:, 0], outcome.polygon))
            loss = trajectory.loss[:, 0].clamp(min=1e-12).log10()  # before each step
            lines.append(Line(list(range(len(loss))), loss.tolist(), label=label))
    if not panels:
        return
    curves = CursorLines(lines, title="log10 of the representation loss", x_label="step")
    steps = max(len(panel.points) for panel in panels)
    recorder.add_figure(
        f"{task}-descent",
        Frames(Slider("Step", list(range(steps))), [*panels, curves]),
        title=f"Follow the descent, {TASKS[task]}",
        caption="Rings: the true corners. Dots: the predicted set, one colour for each element, "
        "with its path from the random start. The steps follow the gradient of the "
        "representation loss; they never see the true corners. Not chosen: the angle is a third of "
        "the way, and this is the first start, where the tables let a set start again.",
        alt="Scatter plots, one for each model and size, whose dots move into the rings.",
    )


def _descent_panel(title: str, elements: Tensor, polygon: Tensor) -> MovingPoints:
    """A panel of the steps (T, N, 2) of one set."""
    farthest = elements[elements.isfinite()].abs().max().item()
    limit = min(3.0, math.ceil(2 * farthest) / 2)
    return MovingPoints(
        elements.tolist(),
        range=(-limit, limit),
        title=title,
        targets=[polygon.tolist()],
        slots=list(range(len(polygon))),
        trail=True,
    )


def _envelope(label: str, outcome: Outcome) -> Line:
    """The worst error within each of at most _MOST_POINTS ranges of the angles."""
    worst = outcome.errors.amax(dim=1)
    length = max(1, len(worst) // _MOST_POINTS)
    errors = [chunk.max().item() for chunk in torch.split(worst, length)]
    return Line(outcome.angles.rad2deg()[::length].tolist(), errors, label=label)
