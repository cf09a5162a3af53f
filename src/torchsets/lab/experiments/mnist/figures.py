"""The figures of the experiments on MNIST."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from torchsets.data import LabelledSets
from torchsets.lab.figures import Line, Lines, Panel, Points, PointSet
from torchsets.lab.records import Recorder

_DIGITS = 10
_FUNCTIONS = 6  # of each FSPool


def draw_digits(recorder: Recorder, test: LabelledSets) -> None:
    """Show the first test sets with their labels."""
    shown = test.sets[:_DIGITS].to_list()
    panels = [
        PointSet(points.tolist(), title=str(label))
        for points, label in zip(shown, test.labels.tolist(), strict=False)
    ]
    recorder.add_figure(
        "digits",
        Points(panels, columns=5, range=(-0.1, 1.1)),
        title="Digits as sets of points",
        caption="Each bright pixel is a point. Not chosen: the first test sets, without noise.",
        alt="Scatter plots in which handwritten digits can be recognised.",
    )


def draw_reconstructions(recorder: Recorder, rows: Sequence[Mapping[str, Tensor]]) -> None:
    """Show sets of points (N, 2) by title, a row for each mapping."""
    panels = [
        PointSet(points.tolist(), title=title) for row in rows for title, points in row.items()
    ]
    recorder.add_figure(
        "reconstructions",
        Points(panels, columns=max(map(len, rows)), range=(-0.15, 1.15)),
        title="Digits as point sets, and their reconstructions",
        caption="A row for each set: the noisy input, the clean target, and what each model "
        "returns for the input. Not chosen: the first test sets.",
        alt="Rows of scatter plots in which handwritten digits can be recognised: input, target "
        "and reconstructions.",
    )


def draw_weight_functions(recorder: Recorder, weights: Mapping[str, Tensor]) -> None:
    """Show some learned weight functions of FSPools, each (features, points), by title."""
    panels = []
    for title, weight in weights.items():
        values = weight.detach().cpu()[:_FUNCTIONS]
        positions = torch.linspace(0, 1, values.shape[1]).tolist()
        lines = [
            Line(positions, function.tolist(), label=f"feature {index + 1}")
            for index, function in enumerate(values)
        ]
        panels.append(Panel(lines, title=title, x_label="rank, largest first"))
    if panels:
        recorder.add_figure(
            "weight-functions",
            Lines(panels, columns=min(2, len(panels))),
            title="What FSPool has learned to do with the sorted values",
            caption=f"The piecewise linear weights of the first {_FUNCTIONS} features. A constant "
            "is a sum, a peak at 0 the maximum.",
            alt="Curves of the weights over the relative rank, from the largest to the smallest "
            "value.",
        )


def draw_accuracy(
    recorder: Recorder, curves: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]
) -> None:
    """Show test accuracy over the epochs: panel, then label, to pairs (epoch, accuracy)."""
    panels = [
        Panel(
            [
                Line([x for x, _ in curve], [y for _, y in curve], label=label)
                for label, curve in lines.items()
            ],
            title=panel,
            x_label="epoch",
            y_label="test accuracy in %",
        )
        for panel, lines in curves.items()
    ]
    recorder.add_figure(
        "accuracy",
        Lines(panels, columns=min(2, len(panels))),
        title="Accuracy after each epoch",
        caption="Share of the test digits that are classified correctly, after each epoch.",
        alt="Curves of the test accuracy over the epochs, one for each pooling and start.",
    )
