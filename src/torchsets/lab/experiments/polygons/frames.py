"""A figure to play with: turn the square and follow every output of every decoder."""

from collections.abc import Mapping

import torch
from torch import Tensor

from torchsets.data import turned_polygons
from torchsets.lab.experiments.rounding import rounded
from torchsets.lab.records import Recorder

FRAMES = 91  # a degree for each


def draw_turning(recorder: Recorder, outputs: Mapping[str, Tensor]) -> None:
    """Record the outputs (A, 4, 2) of each model while the square turns by 90 degrees."""
    degrees = torch.linspace(0, 90, FRAMES)
    squares = turned_polygons(degrees.deg2rad(), 4)
    panels = [
        {
            "kind": "points",
            "title": row,
            "points": rounded(path[_evenly(len(path))]),
            "targets": rounded(squares),
            "slots": [0, 1, 2, 3],
            "range": [-1.3, 1.3],
            "trail": True,
        }
        for row, path in outputs.items()
    ]
    recorder.add_figure(
        "responsibility-turning",
        kind="frames",
        title="Turn the square",
        caption="One colour for each output of the decoder, with the way it came; rings are the "
        "true corners. At 90 degrees the set is the same as at 0. FSPool's outputs follow their "
        "corners; those of an MLP have to be back where they began, and jump on the way.",
        alt="One square for each decoder, whose four coloured outputs move as the square turns.",
        data={
            "slider": {
                "label": "Rotation",
                "unit": "°",
                "values": [round(x) for x in degrees.tolist()],
            },
            "panels": panels,
        },
    )


def _evenly(count: int) -> Tensor:
    """Numbers of FRAMES of the recorded angles, the first and the last included."""
    return torch.linspace(0, count - 1, FRAMES).round().long()
