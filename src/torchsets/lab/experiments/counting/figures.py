"""The figures of ``count-toy``: samples, accuracies, learned functions and count matrices."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchsets.counting import Counter
from torchsets.data import CountingSets, toy_counting_sets
from torchsets.lab.records import Recorder
from torchsets.piecewise import PiecewiseLinear, monotone_values

_SHOWN = ((0.1, 0.0), (0.3, 0.3), (0.5, 0.0), (0.5, 0.5))  # l and q of the samples


def draw_samples(recorder: Recorder, *, boxes: int) -> None:
    """Draw, for several l and q, the true boxes and the weights that a model gets to see."""
    panels = []
    generator = torch.Generator().manual_seed(5)
    for side, noise in _SHOWN:
        sets = toy_counting_sets(1, side=side, noise=noise, boxes=boxes, generator=generator)
        squares = sets.boxes[0].tolist()
        truth = sets.true[0].float().tolist()
        name, count = f"l={side:g}, q={noise:g}", sets.counts.item()
        panels.append({"title": f"{name}: {count} true", "boxes": squares, "weights": truth})
        panels.append({"title": "as seen", "boxes": squares, "weights": sets.weights[0].tolist()})
    recorder.add_figure(
        "samples",
        kind="boxes",
        title="Samples of the toy counting task",
        caption="Left of each pair: true boxes in blue, others in red. Right: what the models "
        "see, from blue (weight 1) over pale (0.5) to red (0). A red box that overlaps a blue one "
        "turns blue: a duplicate proposal.",
        alt="Pairs of images with ten squares each: true objects, and their noisy weights.",
        data={"panels": panels, "columns": 4},
    )


def draw_accuracies(recorder: Recorder, panels: Sequence[Mapping[str, Any]]) -> None:
    """Draw accuracy curves; a panel has ``title``, ``varied``, ``values`` and ``accuracies``."""
    recorder.add_figure(
        "accuracies",
        kind="lines",
        title="Accuracy on the toy counting task",
        caption="Accuracy in per cent as the side length l or the noise q varies. The two "
        "thresholds of the suppression are chosen anew at each point, on sets of their own.",
        alt="Accuracy of the counting module, the sum of weights and tuned suppression against "
        "side length and against noise.",
        data={
            "panels": [
                {
                    "title": panel["title"],
                    "x_label": "side length l" if panel["varied"] == "l" else "noise q",
                    "y_label": "accuracy in %",
                    "y_range": [0, 102],
                    "lines": [
                        {"label": label, "x": panel["values"], "y": accuracies}
                        for label, accuracies in panel["accuracies"].items()
                    ],
                }
                for panel in panels
            ],
            "columns": 2,
        },
    )


def draw_functions(
    recorder: Recorder,
    varied: str,
    fixed: str,
    values: Sequence[float],
    counters: Sequence[Counter],
) -> None:
    """Draw the eight functions of each counter, coloured by l or q, and say what they show."""
    heights = learned_heights(counters)
    points = torch.linspace(0, 1, heights.shape[2]).tolist()
    panels = [
        {
            "title": f"f{number + 1}",
            "x_range": [0, 1],
            "y_range": [0, 1],
            "lines": [
                {"x": points, "y": line.tolist(), "value": value}
                for value, line in zip(values, heights[:, number], strict=True)
            ],
        }
        for number in range(8)
    ]
    name = "side length l" if varied == "l" else "noise q"
    recorder.add_figure(
        f"functions-{varied}",
        kind="lines",
        title=f"Functions that the counting module learns as {varied} varies, {fixed}",
        caption=" ".join(shape_claims(varied, values, heights[:, 0], heights[:, 1])),
        alt=f"Eight panels with the learned functions f1 to f8, coloured by the {name}.",
        data={"panels": panels, "columns": 4, "colour_label": name},
    )


def draw_matrices(recorder: Recorder, counter: Counter, sets: CountingSets, *, title: str) -> None:
    """Draw A, D and C of some sets, their boxes in the order of falling weight."""
    order = sets.weights.argsort(dim=1, descending=True)
    boxes = sets.boxes.take_along_dim(order.unsqueeze(-1), dim=1)
    with torch.no_grad():
        details = counter.inspect(boxes, sets.weights.gather(1, order))
    panels = []
    for index, count in enumerate(sets.counts.tolist()):
        found = details.total[index].item()
        panels += [
            {"title": "A: weights", "matrix": details.A[index].tolist()},
            {"title": "D: distances", "matrix": details.D[index].tolist()},
            {"title": f"C: c = {found:.2f}, true {count}", "matrix": details.C[index].tolist()},
        ]
    recorder.add_figure(
        "matrices",
        kind="heatmaps",
        title=f"What the counting module sees, {title}",
        caption="One set per row, its boxes ordered by weight; black is 0, white is 1. The sum of "
        "the count matrix C is the square of the count c.",
        alt="Grey matrices: weights, distances and the resulting count matrix of four sets.",
        data={"panels": panels, "columns": 3, "colours": "grey", "range": [0, 1]},
    )


def learned_heights(counters: Sequence[Counter]) -> Tensor:
    """The eight functions of each counter at their points, (counters, 8, pieces + 1)."""
    rows = [
        torch.stack(
            [monotone_values(f.weight) for f in c.activations if isinstance(f, PiecewiseLinear)]
        )
        for c in counters
    ]
    return torch.stack(rows).detach().cpu()


def shape_claims(
    varied: str, values: Sequence[float], weights: Tensor, distances: Tensor
) -> list[str]:
    """Compare the learned f1 (S, K) and f2 (S, K) with what the thesis saw (lines 2520-2528)."""
    first, last = f"{varied} = {values[0]:g}", f"{varied} = {values[-1]:g}"
    if varied == "l":
        steps = [_step(f) for f in weights]
        middles = [_crossing(f) for f in distances]
        bends = [_bend(f) for f in distances]
        return [
            f"The step in f1 gets lower as l grows: {_seen(_falls(steps))} "
            f"({steps[0]:.2f} at {first}, {steps[-1]:.2f} at {last}).",
            "f2 asks for a large distance at low l and for a small one at high l: "
            f"{_seen(_falls(middles[:-1]))} (it reaches 1/2 at {middles[0]:.2f} for {first}, at "
            f"{min(middles):.2f} for {varied} = {values[middles.index(min(middles))]:g}).",
            f"f2 is a straight line again at the highest l: {_seen(bends[-1] < max(bends) / 2)} "
            f"(it leaves the line by {bends[-1]:.2f}, elsewhere by up to {max(bends):.2f}).",
        ]
    rises = [_crossing(f) for f in weights]
    middles = [_crossing(f) for f in distances]
    return [
        f"Without noise f1 is a step close to 1: {_seen(rises[0] > 0.85)} "
        f"(it reaches 1/2 at {rises[0]:.2f}).",
        f"With more noise the step moves away from 1: {_seen(_falls(rises[:-1]))} "
        f"(it reaches 1/2 at {min(rises):.2f} for q = {values[rises.index(min(rises))]:g}).",
        "With less noise f2 takes boxes for different at smaller distances: "
        f"{_seen(_falls([-x for x in middles[:-1]]))} (it reaches 1/2 at {middles[0]:.2f} for "
        f"{first}, at {max(middles):.2f} for q = {values[middles.index(max(middles))]:g}).",
    ]


def _seen(claim: bool) -> str:
    return "seen" if claim else "not seen"


def _falls(numbers: Sequence[float]) -> bool:
    """Whether the second half of the numbers is smaller than the first, on average."""
    half = max(1, len(numbers) // 2)
    return sum(numbers[-half:]) < sum(numbers[:half])


def _step(function: Tensor) -> float:
    """The largest rise over two neighbouring pieces."""
    return (function[2:] - function[:-2]).max().item()


def _crossing(function: Tensor) -> float:
    """Where a rising function reaches 1/2."""
    above = int((function >= 0.5).nonzero()[0])
    low, high = function[above - 1].item(), function[above].item()
    return (above - 1 + (0.5 - low) / (high - low)) / (len(function) - 1)


def _bend(function: Tensor) -> float:
    """How far a function is from the straight line that it started as."""
    return (function - torch.linspace(0, 1, len(function))).abs().max().item()
