"""Bounding boxes of objects: exact ones from projected outlines, and the thesis' estimate."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets.data.scene_projection import (
    FOCAL,
    HEIGHT,
    WIDTH,
    Floats,
    camera_axes,
    dot,
    scene_cameras,
    scene_pixels,
)
from torchsets.data.scenes import ATTRIBUTES, RADII, RIGHT, VALUES, Scenes
from torchsets.padded import SetBatch

SPHERE, CUBE, CYLINDER = (VALUES["shape"].index(name) for name in ("sphere", "cube", "cylinder"))
_CORNERS = [(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]


class Solids(NamedTuple):
    """The objects of all scenes as bodies, each with its camera; K objects.

    Attributes:
        scene: The scene of each, (K,).
        shape: Its place in ``VALUES["shape"]``, (K,).
        radius: Half its height and width, (K,).
        offset: From the camera to its centre, (3, K).
        cosine, sine: Of how far it is turned, (K,); 1 and 0 for round shapes.
        right, up, ahead: The axes of its camera, (3, K).
    """

    scene: NDArray[np.int64]
    shape: NDArray[np.int64]
    radius: Floats
    offset: Floats
    cosine: Floats
    sine: Floats
    right: Floats
    up: Floats
    ahead: Floats

    def seen(self, vectors: Floats) -> Floats:
        """Turn vectors (3, K) of the world into those of the camera: right, up, ahead."""
        return np.stack([dot(vectors, axis) for axis in (self.right, self.up, self.ahead)])


def scene_solids(scenes: Scenes) -> Solids:
    """Collect what projection and rendering need to know about each object."""
    sizes = scenes.sizes.numpy()
    cameras = scene_cameras(scenes).numpy()
    scene = np.repeat(np.arange(len(sizes)), sizes)
    shape = scenes.attributes[:, ATTRIBUTES.index("shape")].numpy()
    radius = np.array(RADII)[scenes.attributes[:, ATTRIBUTES.index("size")].numpy()]
    # The files hold 0 to 360, which CLEVR's renderer took for radians.
    angle = np.where(shape == CUBE, scenes.rotations.double().numpy(), 0.0)
    return Solids(
        scene,
        shape,
        radius,
        (scenes.positions.double().numpy() - cameras[scene]).T,
        # One by one: a vectorised cosine may differ in its last bit with the place in the array.
        np.array([math.cos(one) for one in angle.tolist()]),
        np.array([math.sin(one) for one in angle.tolist()]),
        *(axis[:, scene] for axis in camera_axes(cameras.T)),
    )


def scene_boxes(scenes: Scenes, *, clip: bool = True, boxes: str = "exact") -> SetBatch:
    """Give the bounding box of each object in the picture.

    Args:
        scenes: S scenes.
        clip: Cut boxes off at the edges of the picture. False: they may go beyond 0 and 1.
        boxes: "exact": the least boxes around the outlines, hidden parts included. "thesis": the
            estimate that the thesis trained with, from the recorded (else computed) place of the
            centre; its overlap with the exact boxes (IoU) is 0.79 on average. The thesis did not
            clip.

    Returns:
        S sets of boxes x1 y1 x2 y2 in [0, 1] of the picture's width and height, y pointing down,
        float32.

    Raises:
        ValueError: If boxes is another word.

    Example:
        >>> from torchsets.data import sample_scenes
        >>> scene_boxes(sample_scenes(2, objects=(4, 4)))
        SetBatch(2 sets of 4 elements, 4 features, float32, cpu)
    """
    if boxes == "exact":
        found = torch.from_numpy(outlines(scene_solids(scenes)).T)
    elif boxes == "thesis":
        found = _estimate(scenes)
    else:
        raise ValueError(f'boxes must be "exact" or "thesis", got {boxes!r}')
    if clip:
        found = found.clamp(0, 1)
    return SetBatch.from_flat(found.float(), scenes.sizes)


def outlines(solids: Solids) -> Floats:
    """The least box around each object's outline, (4, K): x1 y1 x2 y2, y down, not clipped."""
    radius, zero = solids.radius, np.zeros_like(solids.radius)
    centre = solids.seen(solids.offset)
    along = [solids.seen(np.stack(axis)) for axis in _axes(radius, zero)]
    ball = _around(centre, along)
    rims = [_around(centre + side * along[2], along[:2]) for side in (-1, 1)]
    turned = solids.seen(np.stack([solids.cosine, solids.sine, zero]) * radius)
    across = solids.seen(np.stack([-solids.sine, solids.cosine, zero]) * radius)
    corners = [centre + x * turned + y * across + z * along[2] for x, y, z in _CORNERS]
    flat = np.stack([corner[:2] / corner[2] for corner in corners])  # (8, 2, K)
    plane = np.select(
        [solids.shape == SPHERE, solids.shape == CUBE],
        [ball, np.concatenate([flat.min(0), flat.max(0)])],
        np.concatenate([np.minimum(*rims)[:2], np.maximum(*rims)[2:]]),
    )
    left, low, right, high = plane * FOCAL
    return np.stack(
        [
            0.5 + left / WIDTH,
            0.5 - high / HEIGHT,
            0.5 + right / WIDTH,
            0.5 - low / HEIGHT,
        ]
    )


def _axes(radius: Floats, zero: Floats) -> list[list[Floats]]:
    return [[radius, zero, zero], [zero, radius, zero], [zero, zero, radius]]


def _around(centre: Floats, axes: list[Floats]) -> Floats:
    """The box around a projected ellipsoid or disc: left, low, right, high at depth 1, (4, K).

    A line (in homogeneous coordinates) touches the outline if l' D l = 0, where D is the dual
    quadric c c' - sum of a a' over the axes. For upright and level lines that is a quadratic.
    """

    def dual(row: int, column: int) -> Floats:
        return centre[row] * centre[column] - sum(axis[row] * axis[column] for axis in axes)

    last = dual(2, 2)
    ends = []
    for row in (0, 1):
        middle = dual(row, 2)
        # Rounding may leave a disc that is seen edge-on with a root just below 0.
        root = np.sqrt(np.maximum(middle * middle - dual(row, row) * last, 0))
        ends.append(((middle - root) / last, (middle + root) / last))
    return np.stack([ends[0][0], ends[1][0], ends[0][1], ends[1][1]])


def _estimate(scenes: Scenes) -> Tensor:
    """As the released code of the thesis computes boxes, with its constants and its slip."""
    pixels = scene_pixels(scenes) if scenes.pixels is None else scenes.pixels.double()
    x, y, z = scenes.positions.double().T
    shape = scenes.attributes[:, ATTRIBUTES.index("shape")]
    cosine, sine = RIGHT
    x = x * cosine + y * sine
    y = y * cosine - x * sine  # of the x that is turned already: the constants below expect it
    height = 6.9 * z * (15 - y) / 2
    cube = height * 13 / (10 + y)
    far = 9.4 + y
    up = height * (6.4 + far) / (far + z)
    down = up * (6.4 - z + far) / (6.4 + z + far)

    def choose(cylinder: Tensor) -> Tensor:
        return torch.where(shape == SPHERE, height, torch.where(shape == CUBE, cube, cylinder))

    up, down, width = choose(up), choose(down), choose(height * 11 / (10 + y))
    column, row = pixels[:, 0], pixels[:, 1]
    corners = torch.stack([column - width, row - down, column + width, row + up], dim=1)
    return corners / torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT])
