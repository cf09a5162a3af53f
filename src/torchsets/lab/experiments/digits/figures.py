"""The figure of the experiments on predicted digits."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from torchsets.lab.figures import CursorLines, Frames, Line, MovingPoints, Slider
from torchsets.lab.records import Recorder

_RANGE = (-0.15, 1.15)


class Way(NamedTuple):
    """How sets were predicted, for a model without steps in one entry.

    Attributes:
        steps: The numbers of steps, K of them.
        elements: The first sets after these, (K, B, N, 2).
        presence: Their presences, (K, B, N).
        chamfer: The mean Chamfer loss of more sets by then.
        size: The mean size error by then.
    """

    steps: list[int]
    elements: Tensor
    presence: Tensor
    chamfer: list[float]
    size: list[float]


def draw_digits(recorder: Recorder, inputs: Sequence[Tensor], ways: Mapping[str, Way]) -> None:
    """Record the sets (n, 2) and what each model predicts for them after every step."""
    longest = max(ways.values(), key=lambda way: len(way.steps))
    panels: list[MovingPoints | CursorLines] = []
    for index, points in enumerate(inputs):
        panels.append(MovingPoints([points.tolist()], _RANGE, f"input {index + 1}"))
        panels += [
            MovingPoints(
                way.elements[:, index].tolist(),
                _RANGE,
                label,
                values=way.presence[:, index].clamp(0, 1).tolist(),
            )
            for label, way in ways.items()
            if len(way.steps) in (1, len(longest.steps))
        ]
    if len(longest.steps) > 1:
        moving = {label: way for label, way in ways.items() if len(way.steps) > 1}
        for title, name in (("Chamfer loss x 1000", "chamfer"), ("size error", "size")):
            lines = [
                Line(way.steps, getattr(way, name), label=label) for label, way in moving.items()
            ]
            panels.append(CursorLines(lines, title=title, x_label="step"))
    recorder.add_figure(
        "digits",
        Frames(Slider("step", longest.steps), panels, start=len(longest.steps) - 1),
        title="Digits as sets, and what is predicted step by step",
        caption="Each dot is a slot, as opaque as it is present. A model without steps does not "
        "move. Not chosen: the first test sets; the curves are means over more of them.",
        alt="Scatter plots: a digit, and beside it the dots of each model, which move into its "
        "shape while the slider moves over the steps.",
    )
