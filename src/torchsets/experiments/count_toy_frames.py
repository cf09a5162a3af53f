"""Two figures to play with: one set of the toy counting task, its noise and its side length.

The squares, and the noise that is mixed into their weights, stay the same while a slider moves.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchsets.boxes import box_iou
from torchsets.counting import CountDetails, Counter
from torchsets.experiments.rounding import rounded
from torchsets.records import Recorder

NOISES = [step / 20 for step in range(21)]
SIDES = [step / 20 for step in range(1, 21)]
_TRUE = 4


class Sample(NamedTuple):
    """Where squares lie and what noise they get, for any side length.

    Attributes:
        places: Share of the room that is left of and above each square, (N, 2).
        noise: Noise of each weight, (N,).
        true: How many of the squares are true objects; they come first.
    """

    places: Tensor
    noise: Tensor
    true: int


def draw_sample(boxes: int, generator: torch.Generator) -> Sample:
    """Draw a sample, the true objects first, then the others by their overlap with these."""
    true = min(_TRUE, boxes)
    places = torch.rand(boxes, 2, generator=generator)
    noise = torch.rand(boxes, generator=generator)
    score = seen(Sample(places, noise, true), side=0.4, share=0.0)[1]
    order = torch.cat([torch.arange(true), true + score[true:].argsort(descending=True)])
    return Sample(places[order], noise[order], true)


def seen(sample: Sample, *, side: float, share: float) -> tuple[Tensor, Tensor]:
    """Boxes (N, 4) and noisy weights (N,), as :func:`toy_counting_sets` makes them."""
    corner = sample.places * (1 - side)
    boxes = torch.cat([corner, corner + side], dim=-1)
    overlap = box_iou(boxes.unsqueeze(0))[0, :, : sample.true].amax(dim=1)
    return boxes, (1 - share) * overlap + share * sample.noise


def similarity_matrices(counter: Counter, details: CountDetails, weights: Tensor) -> Tensor:
    """How similar each pair of proposals is, (B, n, n): what duplicates are divided by."""
    _, _, f3, f4, f5 = counter.activations[:5]
    edges = f4(details.A) * f5(details.D)
    difference = (edges.unsqueeze(1) - edges.unsqueeze(2)).abs()  # (B, n, n, n)
    apart = (weights.unsqueeze(1) - weights.unsqueeze(2)).abs()
    similar: Tensor = f3(1 - difference).prod(dim=-1) * f3(1 - apart)
    return similar


@torch.no_grad()
def draw_counting(recorder: Recorder, counter: Counter, *, side: float, noise: float) -> None:
    """Record the matrices of one sample while q varies, and while l varies."""
    sample = draw_sample(counter.objects, torch.Generator().manual_seed(5))
    about = f"The counting module was trained at l = {side:g}, q = {noise:g}."
    for name, values, places in (
        ("noise q", NOISES, [(side, value) for value in NOISES]),
        ("side length l", SIDES, [(value, noise) for value in SIDES]),
    ):
        letter, held = name[-1], f"l = {side:g}" if name[-1] == "q" else f"q = {noise:g}"
        data = _figure_data(counter, sample, places)
        recorder.add_figure(
            f"sample-{letter}",
            kind="frames",
            title=f"One set of the toy counting task while the {name} varies, {held}",
            caption="Blue boxes have weight 1, red ones 0; the first "
            f"{sample.true} are the true objects. A: products of the weights. D: 0 for the "
            "same box, 1 for disjoint ones. The learned f1 and f2 keep edges between relevant "
            "boxes that are apart. Boxes that see the same edges are similar: duplicates. C "
            f"divides by their number; its sum is the square of the count c. {about}",
            alt="Two images with squares, and the matrices of the counting module: weights, "
            "distances, edges, similarities and counts.",
            data={
                **data,
                "slider": {"label": name.capitalize(), "values": values},
                "start": values.index(min(values, key=lambda value: abs(value - 0.2))),
            },
        )


def _figure_data(
    counter: Counter, sample: Sample, places: Sequence[tuple[float, float]]
) -> dict[str, Any]:
    drawn = [seen(sample, side=side, share=share) for side, share in places]
    boxes = torch.stack([one for one, _ in drawn])
    weights = torch.stack([one for _, one in drawn])
    details = counter.inspect(boxes, weights)
    f1, f2 = counter.activations[:2]
    matrices = {
        "A: relevant": details.A,
        "D: apart": details.D,
        "f1(A) f2(D): edges": f1(details.A) * f2(details.D),
        "Similarity": similarity_matrices(counter, details, weights),
        "C: edges and loops over duplicates": details.C,
    }
    truth = [1.0] * sample.true + [0.0] * (len(sample.noise) - sample.true)
    corners = _shared(boxes)
    panels: list[dict[str, Any]] = [
        {"kind": "boxes", "title": "True objects", "boxes": corners, "weights": [truth]},
        {"kind": "boxes", "title": "Weights", "boxes": corners, "weights": _shared(weights)},
    ]
    panels += [
        {
            "kind": "matrix",
            "title": title,
            "matrices": _shared(matrix),
            "range": [0, 1],
            "rows": [str(box + 1) for box in range(len(truth))],
        }
        for title, matrix in matrices.items()
    ]
    numbers = torch.stack([details.count, weights.sum(dim=1), details.confidence], dim=1)
    texts = [
        f"{sample.true} true objects, count c = {count:.2f} with confidence {sure:.2f}; "
        f"the weights sum to {total:.2f}"
        for count, total, sure in numbers.tolist()
    ]
    return {"panels": panels, "texts": texts}


def _shared(frames: Tensor) -> list[Any]:
    """The frames with two decimals; a single one if all are equal."""
    frames = frames if bool((frames != frames[0]).any()) else frames[:1]
    return rounded(frames, 2)
