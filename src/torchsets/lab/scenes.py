"""Sheets of rendered scenes, and how close they come to the real pictures of CLEVR."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from torchsets.data import (
    Scenes,
    clevr_pictures,
    contact_sheet,
    draw_boxes,
    render_scenes,
    rendered_scenes,
    resize_bilinear,
    sample_scenes,
    scene_boxes,
    write_png,
)
from torchsets.lab.records.files import explained

_SIZE = 128  # of the real pictures
_BESIDE = (8, 1, 7, 13, 30, 47, 77, 93)  # pictures with all shapes and materials
_EDGES = (0.03, 0.08, 0.15)


class Comparison(NamedTuple):
    """How rendered pictures differ from the real ones of the same scenes; of 255.

    Attributes:
        pictures: Their number.
        colours: The mean difference in red, green and blue.
        inside: The mean difference inside the boxes of the objects.
        bare: The same for pictures of the ground without objects.
        errors: Of the number of objects, by a linear probe that was trained on rendered pictures:
            on others of these, and on the real ones.
        constant: The same errors of the best constant answer.
    """

    pictures: int
    colours: tuple[float, float, float]
    inside: float
    bare: float
    errors: tuple[float, float]
    constant: tuple[float, float]

    def __str__(self) -> str:
        red, green, blue = self.colours
        return (
            f"{self.pictures} real pictures and the same scenes rendered, {_SIZE} pixels\n"
            f"mean difference of 255: red {red:.1f}, green {green:.1f}, blue {blue:.1f}\n"
            f"inside the boxes: {self.inside:.1f}; of ground without objects: {self.bare:.1f}\n"
            "mean error of the number of objects, linear probe trained on rendered pictures: "
            f"{self.errors[0]:.2f} on rendered, {self.errors[1]:.2f} on real ones "
            f"(constant answer: {self.constant[0]:.2f}, {self.constant[1]:.2f})"
        )


def draw_scenes(path: Path, *, count: int, size: int, seed: int, boxes: bool) -> None:
    """Write a sheet of rendered scenes as PNG."""
    scenes = sample_scenes(count, seed=seed, visible=True)
    pictures = render_scenes(scenes, size=size)
    if boxes:
        pictures = draw_boxes(pictures, scene_boxes(scenes))
    with explained(path):
        write_png(path, contact_sheet(pictures))


def compare_scenes(path: Path, *, training: int = 2500) -> Comparison:
    """Write eight real pictures above the same scenes rendered, and measure the differences.

    Args:
        path: The PNG file.
        training: Rendered pictures that the probe is trained on; a fifth of it to test it.

    Raises:
        FileNotFoundError: If there are no real pictures; it says where to get them.
    """
    splits = [clevr_pictures(split, size=_SIZE) for split in ("train", "val")]
    real = torch.cat([split.images for split in splits])
    rendered = torch.cat([render_scenes(split.scenes, size=_SIZE) for split in splits])
    bare = torch.cat(
        [render_scenes(_without_objects(split.scenes), size=_SIZE) for split in splits]
    )
    inside = torch.cat([_inside_boxes(split.scenes) for split in splits])
    beside = [place for place in _BESIDE if place < len(real)]
    with explained(path):
        write_png(path, contact_sheet(torch.cat([real[beside], rendered[beside]]), columns=8))
    away, bare_away = ((one.float() - real.float()).abs() for one in (rendered, bare))
    red, green, blue = away.mean(dim=(0, 2, 3)).tolist()
    sizes = torch.cat([split.scenes.sizes for split in splits])
    errors, constant = _probe(real, sizes, training)
    return Comparison(
        len(real),
        (red, green, blue),
        away.mean(dim=1)[inside].mean().item(),
        bare_away.mean(dim=1)[inside].mean().item(),
        errors,
        constant,
    )


def edge_shares(images: Tensor) -> Tensor:
    """Describe pictures by how many edges of three strengths are where.

    Args:
        images: (S, 3, 128, 128), uint8.

    Returns:
        Of the neighbours in 9 x 9 blocks, side by side and one above the other, the share that
        differ by more than 0.03, 0.08 and 0.15 of the range, (S, 486).
    """
    small = resize_bilinear(images, (64, 64)).float() / 255
    shares = []
    for axis in (2, 3):
        steps = small.diff(dim=axis).abs().amax(dim=1)[:, :63, :63]
        for least in _EDGES:
            shares.append(functional.avg_pool2d((steps > least).float(), 7).flatten(1))
    return torch.cat(shares, dim=1)


def _probe(
    real: Tensor, sizes: Tensor, training: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ridge regression of the number of objects; errors, and those of the best constant."""
    known = rendered_scenes(training, seed=1, size=_SIZE)
    features, counts = edge_shares(known.images), known.scenes.sizes.double()
    mean, spread = features.mean(0), features.std(0) + 1e-3
    scaled = ((features - mean) / spread).double()
    ridge = scaled.mT @ scaled + 0.04 * training * torch.eye(scaled.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(ridge, scaled.mT @ (counts - counts.mean()))
    other = rendered_scenes(max(1, training // 5), seed=2, size=_SIZE)
    errors, constant = [], []
    for images, truth in ((other.images, other.scenes.sizes), (real, sizes)):
        guess = ((edge_shares(images) - mean) / spread).double() @ weights + counts.mean()
        errors.append((guess - truth).abs().mean().item())
        constant.append((counts.median() - truth).abs().mean().item())
    return (errors[0], errors[1]), (constant[0], constant[1])


def _without_objects(scenes: Scenes) -> Scenes:
    nothing = torch.zeros(0, 3), torch.zeros(0, 4, dtype=torch.long), torch.zeros(0)
    sizes = torch.zeros(len(scenes), dtype=torch.long)
    return Scenes(*nothing, sizes, cameras=scenes.cameras, lamps=scenes.lamps)


def _inside_boxes(scenes: Scenes) -> Tensor:
    """Which pixels are inside a box, (S, size, size)."""
    inside = torch.zeros(len(scenes), _SIZE, _SIZE, dtype=torch.bool)
    for place, boxes in enumerate(scene_boxes(scenes).to_list()):
        for left, top, right, bottom in (boxes * _SIZE).tolist():
            inside[place, int(top) : int(bottom) + 1, int(left) : int(right) + 1] = True
    return inside
