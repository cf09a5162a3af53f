"""A figure to play with: one set of the toy counting task while its noise or side length varies.

Where the squares lie, and the noise that is mixed into their weights, stay the same. The counting
module of each frame is the one that was trained for it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchsets.boxes import box_iou
from torchsets.counting import CountDetails, Counter
from torchsets.lab.experiments.rounding import rounded
from torchsets.lab.records import Recorder

_TRUE = 4  # objects
_MOST_FRAMES = 21


class Sample(NamedTuple):
    """A set of the toy counting task for any side length and noise.

    Attributes:
        places: Share of the room that is left of and above each square, (N, 2).
        noise: Noise of each weight, (N,).
        true: How many of the squares are true objects; they come first.
    """

    places: Tensor
    noise: Tensor
    true: int

    def at(self, side: float, share: float) -> tuple[Tensor, Tensor]:
        """Boxes (N, 4) and weights (N,), as ``toy_counting_sets`` makes them for l and q."""
        corner = self.places * (1 - side)
        boxes = torch.cat([corner, corner + side], dim=-1)
        overlap = box_iou(boxes.unsqueeze(0))[0, :, : self.true].amax(dim=1)
        return boxes, (1 - share) * overlap + share * self.noise


def sample_of(boxes: int, generator: torch.Generator) -> Sample:
    """Draw a sample: the true objects, then the others by their overlap with these."""
    true = min(_TRUE, boxes)
    drawn = torch.rand(boxes, 3, generator=generator)
    sample = Sample(drawn[:, :2], drawn[:, 2], true)
    order = sample.at(0.4, 0.0)[1].argsort(descending=True, stable=True)  # true ones weigh 1
    return Sample(sample.places[order], sample.noise[order], true)


def similarities(counter: Counter, details: CountDetails, weights: Tensor) -> Tensor:
    """How similar each pair of proposals is, (B, n, n): what the module divides by."""
    _, _, f3, f4, f5 = counter.activations[:5]
    edges = f4(details.A) * f5(details.D)
    difference = (edges.unsqueeze(1) - edges.unsqueeze(2)).abs()  # (B, n, n, n)
    apart = (weights.unsqueeze(1) - weights.unsqueeze(2)).abs()
    similar: Tensor = f3(1 - difference).prod(dim=-1) * f3(1 - apart)
    return similar


@torch.no_grad()
def draw_sample(
    recorder: Recorder,
    varied: str,
    fixed: str,
    places: Sequence[tuple[float, float]],
    counters: Sequence[tuple[Counter, nn.Module]],
) -> None:
    """Record the matrices of one sample at each l and q of a sweep.

    ``counters`` has for each of them the counting module, and the layer that turns its features
    into scores of the counts.
    """
    stride = -(-len(places) // _MOST_FRAMES)
    places, counters = places[::stride], counters[::stride]
    if len(places) < 2:
        return
    sample = sample_of(counters[0][0].objects, torch.Generator().manual_seed(5))
    name = "side length l" if varied == "l" else "noise q"
    values = [side if varied == "l" else share for side, share in places]
    recorder.add_figure(
        f"sample-{varied}",
        kind="frames",
        title=f"One set of the toy counting task while the {name} varies, {fixed}",
        caption=f"Blue boxes have weight 1, red ones 0; the first {sample.true} are the true "
        "objects. A: products of the weights. D: 0 for the same box, 1 for disjoint ones. The "
        "learned f1 and f2 keep the edges between relevant boxes that are apart. Boxes that see "
        "the same edges are similar: duplicates. C divides by their number; its sum is the square "
        "of c, from which a linear layer reads the count. At each value it is the module that was "
        "trained there.",
        alt="Two images with squares, and the matrices of the counting module: weights, "
        "distances, edges, similarities and counts.",
        data={
            "slider": {"label": name.capitalize(), "values": values},
            "start": values.index(min(values, key=lambda value: abs(value - 0.3))),
            **_panels(sample, places, counters),
        },
    )


def _panels(
    sample: Sample,
    places: Sequence[tuple[float, float]],
    counters: Sequence[tuple[Counter, nn.Module]],
) -> dict[str, Any]:
    frames: dict[str, list[Tensor]] = {}
    texts = []
    for place, (counter, project) in zip(places, counters, strict=True):
        counter, project = counter.cpu(), project.cpu()
        boxes, weights = (entry.unsqueeze(0) for entry in sample.at(*place))
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
    panels: list[dict[str, Any]] = [
        {"kind": "boxes", "title": "True objects", "boxes": corners, "weights": truth},
        {"kind": "boxes", "title": "Weights", "boxes": corners, "weights": weighted},
    ]
    about = {"kind": "matrix", "range": [0, 1], "rows": [str(1 + box) for box in range(count)]}
    for title, matrices in frames.items():
        panels.append({**about, "title": title, "matrices": _shared(matrices)})
    return {"panels": panels, "texts": texts}


def _shared(frames: Sequence[Tensor]) -> list[Any]:
    """The frames with two decimals; a single one if all are equal."""
    stacked = torch.stack(list(frames))
    return rounded(stacked if bool((stacked != stacked[0]).any()) else stacked[:1], 2)
