"""The figures of the experiments on MNIST."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchsets.data import PointSets, add_noise
from torchsets.lab.experiments.mnist.sets import TEST_SEED
from torchsets.lab.records import Recorder
from torchsets.padded import SetBatch

_EXAMPLES = 2  # of each noise
_FUNCTIONS = 6  # of each FSPool


def draw_reconstructions(
    recorder: Recorder,
    models: Mapping[tuple[str, float], Callable[[SetBatch], list[Tensor]]],
    test: PointSets,
) -> None:
    """Show noisy test sets and what each model makes of them, a row for each set.

    Args:
        recorder: Of the run.
        models: By name and noise: noisy sets to the predicted points of each.
        test: The first of these are shown.
    """
    names = list(dict.fromkeys(name for name, _ in models))
    panels: list[dict[str, Any]] = []
    for sigma in dict.fromkeys(sigma for _, sigma in models):
        clean = test.batch(torch.arange(min(_EXAMPLES, len(test))))
        generator = torch.Generator().manual_seed(TEST_SEED)
        noisy = add_noise(clean, sigma, generator=generator)
        made = {name: models[name, sigma](noisy) for name in names if (name, sigma) in models}
        for index, (dirty, target) in enumerate(zip(noisy.to_list(), clean.to_list(), strict=True)):
            panels.append(_panel(f"input, sigma={sigma:.2f}", dirty))
            panels.append(_panel("target", target))
            panels.extend(_panel(name, made[name][index]) for name in made)
    recorder.add_figure(
        "reconstructions",
        kind="points",
        title="Digits as point sets, and their reconstructions",
        caption="A row for each set: the noisy input, the clean target, and what each model "
        "returns for the input. Not chosen: the first test sets.",
        alt="Rows of scatter plots in which handwritten digits can be recognised: input, target "
        "and reconstructions.",
        data={"panels": panels, "columns": 2 + len(names), "range": [-0.15, 1.15]},
    )


def draw_weight_functions(recorder: Recorder, pools: Mapping[str, Tensor]) -> None:
    """Show some learned weight functions of FSPools, each (features, points), by title."""
    panels = []
    for title, weight in pools.items():
        values = weight.detach().cpu()[:_FUNCTIONS]
        positions = torch.linspace(0, 1, values.shape[1]).tolist()
        lines = [
            {"label": f"feature {index + 1}", "x": positions, "y": _rounded(function)}
            for index, function in enumerate(values)
        ]
        panels.append({"title": title, "x_label": "rank, largest first", "lines": lines})
    recorder.add_figure(
        "weight-functions",
        kind="lines",
        title="What FSPool has learned to do with the sorted values",
        caption=f"The piecewise linear weights of the first {_FUNCTIONS} features. A constant is "
        "a sum, a peak at 0 the maximum.",
        alt="Curves of the weights over the relative rank, from the largest to the smallest value.",
        data={"panels": panels, "columns": min(2, len(panels))},
    )


def draw_accuracy(
    recorder: Recorder, curves: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]
) -> None:
    """Show test accuracy over the epochs: panel, then label, to pairs (epoch, accuracy)."""
    panels = [
        {
            "title": panel,
            "x_label": "epoch",
            "y_label": "test accuracy in %",
            "lines": [
                {"label": label, "x": [x for x, _ in curve], "y": [y for _, y in curve]}
                for label, curve in lines.items()
            ],
        }
        for panel, lines in curves.items()
    ]
    recorder.add_figure(
        "accuracy",
        kind="lines",
        title="Accuracy after each epoch",
        caption="Share of the test digits that are classified rightly, after each epoch.",
        alt="Curves of the test accuracy over the epochs, one for each pooling and start.",
        data={"panels": panels, "columns": min(2, len(panels))},
    )


def _panel(title: str, points: Tensor) -> dict[str, Any]:
    rounded = [[round(number, 3) for number in point] for point in points.tolist()]
    return {"title": title, "points": rounded}


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]
