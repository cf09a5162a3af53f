"""The figures of ``count-toy``: samples, accuracies, learned functions and count matrices."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchsets.counting import Counter
from torchsets.data import CountingSets, toy_counting_sets
from torchsets.lab.experiments.counting.configs import Setting, Sweep
from torchsets.lab.experiments.counting.models import Learned, Sample, sample_of, similarities
from torchsets.lab.figures import (
    Boxes,
    BoxSet,
    Frames,
    Heatmaps,
    Line,
    Lines,
    Matrix,
    MovingBoxes,
    MovingMatrix,
    Panel,
    Slider,
)
from torchsets.lab.records import Recorder
from torchsets.piecewise import PiecewiseLinear, monotone_values

_SHOWN = ((0.1, 0.0), (0.3, 0.3), (0.5, 0.0), (0.5, 0.5))  # l and q of the samples
_MOST_FRAMES = 21


def draw_samples(recorder: Recorder, *, boxes: int) -> None:
    """Draw, for several l and q, the true boxes and the weights that a model gets to see."""
    panels = []
    generator = torch.Generator().manual_seed(5)
    for side, noise in _SHOWN:
        sets = toy_counting_sets(1, side=side, noise=noise, boxes=boxes, generator=generator)
        squares = sets.boxes[0].tolist()
        title = f"l={side:g}, q={noise:g}: {sets.counts.item()} true"
        panels.append(BoxSet(squares, title=title, weights=sets.true[0].float().tolist()))
        panels.append(BoxSet(squares, title="as seen", weights=sets.weights[0].tolist()))
    recorder.add_figure(
        "samples",
        Boxes(panels, columns=4),
        title="Samples of the toy counting task",
        caption="Left of each pair: true boxes in blue, others in red. Right: what the models "
        "see, from blue (weight 1) over pale (0.5) to red (0). A red box that overlaps a blue one "
        "turns blue: a duplicate proposal.",
        alt="Pairs of images with ten squares each: true objects, and their noisy weights.",
    )


def draw_accuracies(
    recorder: Recorder,
    sweeps: Sequence[Sweep],
    accuracies: Mapping[Setting, Mapping[str, float]],
) -> None:
    """Draw the accuracy of each model along each sweep."""
    panels = [
        Panel(
            [
                Line(sweep.values, [accuracies[one][row] for one in sweep.settings], label=row)
                for row in accuracies[sweep.settings[0]]
            ],
            title=sweep.title,
            x_label=sweep.axis,
            y_label="accuracy in %",
            y_range=(0, 102),
        )
        for sweep in sweeps
    ]
    recorder.add_figure(
        "accuracies",
        Lines(panels),
        title="Accuracy on the toy counting task",
        caption="Accuracy in per cent as the side length l or the noise q varies. The two "
        "thresholds of the suppression are chosen anew at each point, on sets of their own.",
        alt="Accuracy of the counting module, the sum of weights and tuned suppression against "
        "side length and against noise.",
    )


def draw_functions(recorder: Recorder, sweep: Sweep, counters: Sequence[Counter]) -> None:
    """Draw the eight functions of each counter, coloured by l or q, and say what they show."""
    heights = learned_heights(counters)
    points = torch.linspace(0, 1, heights.shape[2]).tolist()
    panels = [
        Panel(
            [
                Line(points, line.tolist(), value=value)
                for value, line in zip(sweep.values, heights[:, number], strict=True)
            ],
            title=f"f{number + 1}",
            x_range=(0, 1),
            y_range=(0, 1),
        )
        for number in range(8)
    ]
    varied = sweep.varied
    recorder.add_figure(
        f"functions-{varied}",
        Lines(panels, columns=4, colour_label=sweep.axis),
        title=f"Functions that the counting module learns as {varied} varies, {sweep.title}",
        caption=" ".join(shape_claims(varied, sweep.values, heights[:, 0], heights[:, 1])),
        alt=f"Eight panels with the learned functions f1 to f8, coloured by the {sweep.axis}.",
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
            Matrix(details.A[index].tolist(), title="A: weights"),
            Matrix(details.D[index].tolist(), title="D: distances"),
            Matrix(details.C[index].tolist(), title=f"C: c = {found:.2f}, true {count}"),
        ]
    recorder.add_figure(
        "matrices",
        Heatmaps(panels, range=(0, 1)),
        title=f"What the counting module sees, {title}",
        caption="One set per row, its boxes ordered by weight; black is 0, white is 1. The sum of "
        "the count matrix C is the square of the count c.",
        alt="Grey matrices: weights, distances and the resulting count matrix of four sets.",
    )


@torch.no_grad()
def draw_sample(recorder: Recorder, sweep: Sweep, learned: Sequence[Learned]) -> None:
    """Record one set of squares at each setting of a sweep, for a slider.

    Where the squares lie, and the noise that is mixed into their weights, stay the same. The
    counting module of each frame is the one that was trained for it.
    """
    stride = -(-len(learned) // _MOST_FRAMES)
    settings, learned = sweep.settings[::stride], learned[::stride]
    if len(settings) < 2:
        return
    values = sweep.values[::stride]
    sample = sample_of(learned[0].counter.objects, torch.Generator().manual_seed(5))
    panels, texts = _sample_panels(sample, settings, learned)
    recorder.add_figure(
        f"sample-{sweep.varied}",
        Frames(
            Slider(sweep.axis.capitalize(), values),
            panels,
            texts=texts,
            start=values.index(min(values, key=lambda value: abs(value - 0.3))),
        ),
        title=f"One set of the toy counting task while the {sweep.axis} varies, {sweep.title}",
        caption=f"Blue boxes have weight 1, red ones 0; the first {sample.true} are the true "
        "objects. A: products of the weights. D: 0 for the same box, 1 for disjoint ones. The "
        "learned f1 and f2 keep the edges between relevant boxes that are apart. Boxes that see "
        "the same edges are similar: duplicates. C divides by their number; its sum is the square "
        "of c, from which a linear layer reads the count. At each value it is the module that was "
        "trained there.",
        alt="Two images with squares, and the matrices of the counting module: weights, "
        "distances, edges, similarities and counts.",
    )


def _sample_panels(
    sample: Sample, settings: Sequence[Setting], learned: Sequence[Learned]
) -> tuple[list[MovingBoxes | MovingMatrix], list[str]]:
    frames: dict[str, list[Tensor]] = {}
    texts = []
    for setting, (counter, project) in zip(settings, learned, strict=True):
        boxes, weights = (entry.unsqueeze(0) for entry in sample.at(*setting))
        details = counter.inspect(boxes, weights)
        f1, f2 = counter.activations[:2]
        for title, matrix in (
            ("boxes", boxes),
            ("weights", weights),
            ("A: relevant", details.A),
            ("D: apart", details.D),
            ("f1(A) f2(D): edges", f1(details.A) * f2(details.D)),
            ("Similarity", similarities(counter, details, weights)),
            ("C: what is counted", details.C),
        ):
            frames.setdefault(title, []).append(matrix[0])
        texts.append(
            f"{sample.true} true objects; the model says "
            f"{project(counter(boxes, weights)).argmax().item()} (c = {details.total.item():.2f}, "
            f"confidence {details.confidence.item():.2f}); the weights sum to "
            f"{weights.sum().item():.2f}."
        )
    corners, weighted = _shared(frames.pop("boxes")), _shared(frames.pop("weights"))
    count = len(sample.noise)
    truth = [[float(box < sample.true) for box in range(count)]]
    rows = [str(1 + box) for box in range(count)]
    return [
        MovingBoxes(corners, truth, title="True objects"),
        MovingBoxes(corners, weighted, title="Weights"),
        *(
            MovingMatrix(_shared(matrices), range=(0, 1), title=title, rows=rows)
            for title, matrices in frames.items()
        ),
    ], texts


def _shared(frames: Sequence[Tensor]) -> list[Any]:
    """The frames as lists; a single one if all are equal."""
    stacked = torch.stack(list(frames))
    return (stacked if bool((stacked != stacked[0]).any()) else stacked[:1]).tolist()


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
    """Compare the learned f1 (S, K) and f2 (S, K) with what the thesis saw."""
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
