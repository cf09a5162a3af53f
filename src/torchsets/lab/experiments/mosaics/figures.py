"""The figures of the experiments on image mosaics."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.data import ColourScale, tiles_to_image
from torchsets.lab.experiments.mosaics.models import Mosaic, pair_gradients, sensitivity
from torchsets.lab.figures import (
    FramePanel,
    Frames,
    Heatmaps,
    Line,
    Lines,
    Matrix,
    MovingMatrix,
    Panel,
    Slider,
)
from torchsets.lab.records import Recorder

_LARGEST_GRID = 3  # whose costs are drawn


class Trained(NamedTuple):
    """A model, and pairs (training step, inner step size) if it has one."""

    model: Mosaic
    step_sizes: Sequence[tuple[int, float]]


class Examples(NamedTuple):
    """Shuffled tiles (B, N, C, h, w) of a few pictures to draw, and of many to average over."""

    shown: Tensor
    many: Tensor


def draw_explicit(
    recorder: Recorder,
    column: str,
    trained: Mapping[str, Trained],
    examples: Examples,
    colours: ColourScale,
) -> None:
    """Draw what the models that compare tiles have learned."""
    comparing = {row: one for row, one in trained.items() if one.model.compares}
    if comparing:
        draw_step_sizes(recorder, column, comparing)
    for row, one in comparing.items():
        label = f"{column} {row}"
        draw_reconstructions(recorder, label, one.model, examples.shown, colours)
        if one.model.grid[0] <= _LARGEST_GRID:
            draw_costs(recorder, label, one.model, examples.shown[:1], colours)
        draw_sensitivity(recorder, label, one.model, examples.many)
        if one.model.grid == (2, 2):  # more tiles make too many pairs
            draw_pair_gradients(recorder, label, one.model, examples.shown[:1], colours)


def draw_implicit(
    recorder: Recorder, label: str, model: Mosaic, tiles: Tensor, colours: ColourScale
) -> None:
    """Draw what a model that learned from a classifier does with shuffled tiles."""
    if model.compares:
        draw_reconstructions(recorder, label, model, tiles, colours)


def draw_step_sizes(recorder: Recorder, column: str, trained: Mapping[str, Trained]) -> None:
    """Draw the inner step size during training."""
    lines = []
    for row, one in trained.items():
        steps, values = zip((0, 1.0), *one.step_sizes, strict=True)
        lines.append(Line(steps, values, label=row))
    recorder.add_figure(
        f"step-size {column}",
        Lines([Panel(lines, x_label="training step", y_label="inner step size")]),
        title=f"The inner step size during training, {column}",
        caption="It starts at 1 and is learned with everything else.",
        alt="Curves of the learned step size against the training step, one for each model.",
    )


@torch.no_grad()
def draw_reconstructions(
    recorder: Recorder, label: str, model: Mosaic, tiles: Tensor, colours: ColourScale
) -> None:
    """Record pictures at every inner step, for a slider."""
    device = next(model.parameters()).device
    softs = model.permutations_by_step(tiles.to(device))
    panels = []
    for index, one in enumerate(tiles):
        frames = []
        for soft in softs:
            mixed = (soft[index].cpu().mT @ one.flatten(1)).view_as(one).unsqueeze(0)
            picture = tiles_to_image(colours.undo(mixed), model.grid)[0]
            frames.append(picture.mean(dim=0).tolist())
        panels.append(MovingMatrix(frames, range=(0, 1), title=f"picture {index + 1}"))
    recorder.add_figure(
        f"reconstructions {_plain(label)}",
        Frames(Slider("Inner step", list(range(len(softs)))), panels, start=len(softs) - 1),
        title=f"Pictures put together step by step, {label}",
        caption="The soft permutation after each inner step, applied to the tiles: where it is "
        "undecided a position shows a mixture. Not chosen: the first pictures of the test set. "
        "Colours are shown as grey.",
        alt="Pictures whose tiles are mixed at step 0 and become clear.",
    )


@torch.no_grad()
def draw_costs(
    recorder: Recorder, label: str, model: Mosaic, tiles: Tensor, colours: ColourScale
) -> None:
    """Draw both costs between the tiles (1, N, C, h, w) of one picture, sorted by each."""
    both = model.costs(tiles.to(next(model.parameters()).device))[0].cpu()
    pixels = colours.undo(tiles)[0].mean(dim=1)  # (N, h, w)
    diagonals, costs = [], []
    for channel in (1, 0):
        order = both[channel].sum(dim=1).argsort()
        diagonal = torch.block_diag(*pixels[order])  # type: ignore[no-untyped-call]  # torch's is
        diagonals.append(diagonal.tolist())
        costs.append(both[channel][order][:, order].tolist())
    limit = both.abs().max().item()
    panels: list[FramePanel] = [
        MovingMatrix(diagonals, range=(0, 1), title="Tiles, the first on top"),
        MovingMatrix(costs, range=(-limit, limit), title="Costs between them", colours="diverging"),
    ]
    texts = ["F1: from left to right", "F2: from top to bottom"]
    recorder.add_figure(
        f"costs {_plain(label)}",
        Frames(Slider("Cost", [1, 2]), panels, texts=texts),
        title=f"The learned costs between the tiles of a picture, {label}",
        caption="Blue: the tile of the row belongs before the tile of the column, red: after it. "
        "The tiles are sorted by the sum of their row, and shown on the diagonal. Not chosen: the "
        "first picture of the test set.",
        alt="Tiles along a diagonal and the matrix of costs between them, blue above the diagonal.",
    )


def draw_sensitivity(recorder: Recorder, label: str, model: Mosaic, tiles: Tensor) -> None:
    """Draw which pixels of the tiles (B, N, C, h, w) the costs look at."""
    maps = sensitivity(model, tiles.to(next(model.parameters()).device)).cpu()
    names = ("F1: from left to right", "F2: from top to bottom")
    panels = [Matrix(one.tolist(), title=name) for one, name in zip(maps, names, strict=True)]
    recorder.add_figure(
        f"sensitivity {_plain(label)}",
        Heatmaps(panels, columns=2),
        title=f"Where in a tile the comparison looks, {label}",
        caption="Mean size of the gradient of the costs in each pixel of a tile, over "
        f"{len(tiles)} test pictures; white is most, black is least.",
        alt="Two maps of the pixels of a tile, one for each cost.",
    )


def draw_pair_gradients(
    recorder: Recorder, label: str, model: Mosaic, tiles: Tensor, colours: ColourScale
) -> None:
    """Record how the costs of each pair of the tiles (1, N, C, h, w) react to their pixels."""
    gradients = pair_gradients(model, tiles.to(next(model.parameters()).device))
    pixels = colours.undo(tiles)[0].mean(dim=1)  # (N, h, w)
    first, second = gradients.first.cpu(), gradients.second.cpu()
    limit = max(first.abs().max().item(), second.abs().max().item(), 1e-12)
    panels: list[FramePanel] = []
    for which, maps, name in ((0, first, "first tile"), (1, second, "second tile")):
        shown = [pixels[pair[which]].tolist() for pair in gradients.pairs]
        panels.append(MovingMatrix(shown, range=(0, 1), title=f"The {name}"))
        for channel, cost in enumerate(("F1", "F2")):
            panels.append(
                MovingMatrix(
                    maps[:, channel].tolist(),
                    range=(-limit, limit),
                    title=f"{cost}, gradient in the {name}",
                    colours="diverging",
                )
            )
    recorder.add_figure(
        f"pair-gradients {_plain(label)}",
        Frames(Slider("Pair", list(range(1, 1 + len(gradients.pairs)))), panels),
        title=f"What in two tiles decides their order, {label}",
        caption="Gradient of the cost of putting a tile before the other one in each of its "
        "pixels. Red: a brighter pixel makes the tile belong further to the right (F1) or to the "
        "bottom (F2); blue: to the left or to the top. Not chosen: all pairs of the first picture "
        "of the test set.",
        alt="Two tiles, and for each of them a map of red and blue pixels for both costs.",
    )


def _plain(label: str) -> str:
    """A label as the name of a figure."""
    return label.replace(",", "")
