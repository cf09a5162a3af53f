"""Draw what the networks look at, what they count, and in which order they read."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from torchsets.counting import CountDetails, Counter
from torchsets.lab.experiments.vqa.data import Asked
from torchsets.lab.experiments.vqa.models import BANNet, SoftAttentionNet
from torchsets.lab.experiments.vqa.selection import chosen_questions
from torchsets.lab.figures import (
    Frames,
    Line,
    Lines,
    MovingBoxes,
    MovingMatrix,
    Panel,
    Points,
    PointSet,
    Slider,
)
from torchsets.lab.records import Recorder
from torchsets.lab.training import move
from torchsets.permutations import PermutationOptimiser
from torchsets.piecewise import PiecewiseLinear, monotone_values

_SCENES = 12
_ORDERED = 256  # questions whose orders are averaged
_BINS = 10
_PATHS = 8  # pictures whose order is drawn as a path


def draw_by_count(recorder: Recorder, by_row: Mapping[str, Mapping[int, float]]) -> None:
    """Draw the accuracy of each row by the true count."""
    lines = [
        Line(list(values), list(values.values()), label=row)
        for row, values in by_row.items()
        if values
    ]
    if not lines:
        return
    panel = Panel(
        lines, x_label="true count", y_label="VQA accuracy of counts in %", y_range=(0, 102)
    )
    recorder.add_figure(
        "by-count",
        Lines([panel], columns=1),
        title="Accuracy of counts by the true count",
        caption="VQA accuracy of the questions that start with how many, by what most people "
        "answered.",
        alt="Accuracy of each model against the true count.",
    )


@torch.no_grad()
def draw_scenes(
    recorder: Recorder, name: str, model: SoftAttentionNet, asked: Asked, classes: Sequence[str]
) -> None:
    """Draw the attention on the boxes of validation pictures and what the counter makes of it."""
    if asked.pictures is None or model.pool is None:
        return
    chosen = chosen_questions(asked, _SCENES)
    seen: list[Tensor] = []
    hook = model.pool.logit.register_forward_hook(lambda module, inputs, out: seen.append(out))
    batch = move(asked.batch(chosen).asked, next(model.parameters()).device)
    predicted = model(batch).argmax(dim=1)
    hook.remove()
    logits = seen[0][..., 0]
    pictures = asked.pictures.batch(asked.questions.image_ids[chosen])
    weights = logits.sigmoid().cpu()
    boxes = pictures.scaled_boxes
    panels: list[MovingBoxes | MovingMatrix] = [
        MovingBoxes(
            [one[real].tolist() for one, real in zip(boxes, pictures.mask, strict=True)],
            [one[real].tolist() for one, real in zip(weights, pictures.mask, strict=True)],
            title="Attention",
        )
    ]
    counter = getattr(model.count, "counter", None)
    details = None
    if isinstance(counter, Counter):
        details = counter.inspect(batch.boxes, logits, batch.mask)
        panels += _matrices(details)
    texts = [
        _text(asked, place, classes[guess], None if details is None else details.total[row].item())
        for row, (place, guess) in enumerate(zip(chosen.tolist(), predicted.tolist(), strict=True))
    ]
    recorder.add_figure(
        f"scenes-{name}",
        Frames(Slider("Question", [1.0 + place for place in range(len(chosen))]), panels, texts),
        title=f"What the model looks at: {name}",
        caption="Proposals in blue have an attention of 1, in red of 0, after the logistic "
        "function, which the counting module applies; the softmax compares them. "
        "A: products of the attention of the ten strongest proposals, in the order of the file. "
        "D: 0 for the same box, 1 for disjoint ones. C: what is counted; its sum is the square of "
        "c.",
        alt="Boxes of validation pictures coloured by attention, with the matrices A, D and C.",
    )


def _matrices(details: CountDetails) -> list[MovingMatrix]:
    rows = [str(1 + box) for box in range(details.A.shape[1])]
    return [
        MovingMatrix(matrix.cpu().tolist(), range=(0, 1), title=title, rows=rows)
        for title, matrix in (
            ("A: relevant", details.A),
            ("D: apart", details.D),
            ("C: what is counted", details.C),
        )
    ]


def _text(asked: Asked, place: int, guess: str, count: float | None) -> str:
    answers = asked.questions.answers
    people = "" if answers is None else answers.strings[int(answers.chosen[place])]
    counted = "" if count is None else f" c = {count:.2f};"
    return f"{asked.questions.texts[place]}{counted} the model says {guess}, people say {people}."


def draw_functions(recorder: Recorder, counter: Counter, toys: Mapping[float, Counter]) -> None:
    """Draw the learned f1 to f8 over those of counters that the toy task trained."""
    own = _heights(counter)
    others = {noise: _heights(toy) for noise, toy in toys.items()}
    points = torch.linspace(0, 1, own.shape[1]).tolist()
    panels = [
        Panel(
            [
                *(
                    Line(points, heights[number].tolist(), label=f"toy task, q = {noise:g}")
                    for noise, heights in others.items()
                ),
                Line(points, own[number].tolist(), label="these questions", black=True),
            ],
            title=f"f{number + 1}",
            x_range=(0, 1),
            y_range=(0, 1),
        )
        for number in range(8)
    ]
    recorder.add_figure(
        "functions",
        Lines(panels, columns=4),
        title="Functions of the counting module, learned from questions and from the toy task",
        caption="Black: trained with the whole network on questions. In colour: trained on the "
        "toy task with squares of side 0.2 and a share q of noise in their weights.",
        alt="Eight panels with the learned functions f1 to f8 of four counting modules.",
    )


def _heights(counter: Counter) -> Tensor:
    """The eight functions at their points, (8, pieces + 1)."""
    functions = [one for one in counter.activations if isinstance(one, PiecewiseLinear)]
    return torch.stack([monotone_values(one.weight) for one in functions]).detach().cpu()


@torch.no_grad()
def draw_order(recorder: Recorder, model: BANNet, asked: Asked) -> None:
    """Draw the order in which PO-U puts proposals: against attention, position, file order."""
    order = None if model.encoder.reader is None else model.encoder.reader.encoder.order
    if not isinstance(order, PermutationOptimiser):
        return
    chosen = chosen_questions(asked, _ORDERED)
    elements, permutation, mask = _orders(model, order, asked, chosen)
    size = mask.sum(dim=1, keepdim=True)
    places = torch.arange(mask.shape[1], dtype=permutation.dtype)
    ranks = (permutation * places).sum(dim=2) / (size - 1).clamp(min=1)  # expected, 0 to 1
    slots = mask.cumsum(dim=1) / size
    centres = (elements[..., :2] + elements[..., 2:4]) / 2
    area = (elements[..., 2:4] - elements[..., :2]).prod(dim=2)
    values = {
        "attention": elements[..., 4],
        "centre, from left to right": centres[..., 0],
        "centre, from top to bottom": centres[..., 1],
        "area": area,
        "place in the file": slots.to(area.dtype),
    }
    panels = [
        Panel(
            [Line(*_binned(value[mask], ranks[mask]), black=True)],
            title=title,
            x_label="share of proposals below",
            y_label="place in the order",
            x_range=(0, 1),
            y_range=(0, 1),
        )
        for title, value in values.items()
    ]
    recorder.add_figure(
        "order",
        Lines(panels, columns=3),
        title="The order in which PO-U reads proposals",
        caption=f"First glimpse, {len(chosen)} counting questions of the validation split. Mean "
        "place in the learned order, 0 is read first, of proposals sorted by one quantity; a flat "
        "line means that the order does not depend on it.",
        alt="Mean place in the learned order against attention, position, area and file order.",
    )
    shown = []
    for row in range(min(_PATHS, len(chosen))):
        listed = ranks[row].masked_fill(~mask[row], torch.inf).argsort()[: int(size[row])]
        points = centres[row, listed]
        points[:, 1] = 1 - points[:, 1]  # downwards, as in pictures
        weights = elements[row, listed, 4].sigmoid().tolist()
        title = asked.questions.texts[int(chosen[row])]
        shown.append(PointSet(points.tolist(), title=title, values=weights, path=True))
    recorder.add_figure(
        "order-scenes",
        Points(shown, range=(0, 1)),
        title="Centres of proposals, connected in the order that PO-U chose",
        caption="Opacity is the attention of the first glimpse after the logistic function.",
        alt="Points of proposals in the unit square, connected by a line.",
    )


def _orders(
    model: BANNet, order: nn.Module, asked: Asked, chosen: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Elements (B, N, D), soft permutations (B, N, N) and mask of the first glimpse."""
    seen: list[tuple[Tensor, Tensor]] = []
    hook = order.register_forward_hook(
        lambda module, inputs, out: seen.append((inputs[0], out.permutation))
    )
    batch = move(asked.batch(chosen).asked, next(model.parameters()).device)
    model(batch)
    hook.remove()
    glimpses = len(model.encoder.pools)
    elements, permutation = (one.cpu()[::glimpses] for one in seen[0])
    return elements, permutation, batch.mask.cpu()


def _binned(values: Tensor, ranks: Tensor) -> tuple[list[float], list[float]]:
    """Mean ranks of equal shares of the proposals, sorted by a value."""
    parts = torch.tensor_split(ranks[values.argsort()], _BINS)
    middles = [(0.5 + part) / _BINS for part in range(_BINS)]
    return middles, [part.mean().item() if len(part) else 0.0 for part in parts]
