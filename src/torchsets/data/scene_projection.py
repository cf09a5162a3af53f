"""Cameras of scenes: where points appear in the picture, and cameras recovered from files."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets.data.scenes import Scenes

WIDTH, HEIGHT = 480, 320
"""Pixels of CLEVR's frame. It is squeezed to a square later, so lengths differ by direction."""
FOCAL = 525.0
"""The focal length in pixels of the frame; the axis goes through its middle."""
CAMERA = (7.4811, -6.5076, 5.3437)
"""Where CLEVR's camera stands before each coordinate is moved by at most :data:`CAMERA_JITTER`."""
CAMERA_JITTER = 0.5
LAMPS = ((6.447, -2.905, 4.258), (-4.671, -4.014, 3.011), (-1.169, 2.646, 5.816))
"""The key, fill and back lamp before each coordinate is moved by at most :data:`LAMP_JITTER`."""
LAMP_JITTER = 1.0
_STEPS = 6
_DEPTH_WEIGHT = 1e4  # files round columns and rows to whole pixels, but not the depth

Floats = NDArray[np.float64]


def scene_cameras(scenes: Scenes) -> Tensor:
    """Say where the camera of each scene stands.

    Every camera looks at the origin. Files do not tell where it stands, but they tell the column,
    row and depth of each object, from which it is recovered by least squares: with three objects
    to about 0.001.

    Args:
        scenes: S scenes.

    Returns:
        Positions, (S, 3), float64: those of the scenes if they are known, else recovered from the
        recorded pixels, else CLEVR's camera without jitter. The last also where a scene is empty.

    Example:
        >>> from torchsets.data import sample_scenes
        >>> scene_cameras(sample_scenes(2)).shape
        torch.Size([2, 3])
    """
    if scenes.cameras is not None:
        return scenes.cameras.double()
    if scenes.pixels is None:
        return torch.tensor(CAMERA, dtype=torch.float64).repeat(len(scenes), 1)
    return torch.from_numpy(
        _recover(
            scenes.positions.double().numpy(),
            scenes.pixels.double().numpy(),
            scenes.sizes.numpy(),
        )
    )


def scene_lamps(scenes: Scenes) -> Tensor:
    """Say where the lamps of each scene hang, (S, 3, 3), float64; :data:`LAMPS` if unknown."""
    if scenes.lamps is not None:
        return scenes.lamps.double()
    return torch.tensor(LAMPS, dtype=torch.float64).repeat(len(scenes), 1, 1)


def scene_pixels(scenes: Scenes) -> Tensor:
    """Say where the centre of each object appears.

    Args:
        scenes: Scenes with ``total`` objects.

    Returns:
        Column and row in CLEVR's frame of 480 x 320 pixels, and depth along the view axis,
        (total, 3), float64, as ``pixel_coords`` of CLEVR's files, but not rounded.
    """
    points = scenes.positions.double().numpy()
    cameras = np.repeat(scene_cameras(scenes).numpy(), scenes.sizes.numpy(), axis=0)
    return torch.from_numpy(np.stack(project(points.T, cameras.T), axis=1))


def camera_axes(cameras: Floats) -> tuple[Floats, Floats, Floats]:
    """Give right, up and ahead of cameras that look at the origin; all are (3, K)."""
    ahead = -cameras / np.sqrt(dot(cameras, cameras))
    right = np.stack([ahead[1], -ahead[0], np.zeros_like(ahead[0])])
    right = right / np.sqrt(dot(right, right))
    up = np.stack(
        [
            right[1] * ahead[2] - right[2] * ahead[1],
            right[2] * ahead[0] - right[0] * ahead[2],
            right[0] * ahead[1] - right[1] * ahead[0],
        ]
    )
    return right, up, ahead


def project(points: Floats, cameras: Floats) -> tuple[Floats, Floats, Floats]:
    """Give column, row and depth of points (3, K), each seen by its own camera (3, K)."""
    right, up, ahead = camera_axes(cameras)
    offset = points - cameras
    depth = dot(offset, ahead)
    column = WIDTH / 2 + FOCAL * dot(offset, right) / depth
    row = HEIGHT / 2 - FOCAL * dot(offset, up) / depth
    return column, row, depth


def dot(one: Floats, other: Floats) -> Floats:
    """The inner products of vectors (3, K), always summed in the same order."""
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


def _recover(points: Floats, pixels: Floats, sizes: NDArray[np.int64]) -> Floats:
    """Gauss-Newton from the camera without jitter, all scenes at once."""
    count = len(sizes)
    scene = np.repeat(np.arange(count), sizes)
    weights = np.array([[1.0], [1.0], [_DEPTH_WEIGHT]])
    cameras = np.tile(np.array(CAMERA), (count, 1))
    step = 1e-5

    def residuals(cameras: Floats) -> Floats:
        return weights * (pixels.T - np.stack(project(points.T, cameras[scene].T)))  # (3, total)

    for _ in range(_STEPS):
        at = residuals(cameras)
        slopes = np.stack([(residuals(cameras + step * axis) - at) / step for axis in np.eye(3)])
        normal, right = np.zeros((count, 3, 3)), np.zeros((count, 3))
        for row in range(3):
            np.add.at(right[:, row], scene, -(slopes[row] * at).sum(0))
            for column in range(3):
                np.add.at(normal[:, row, column], scene, (slopes[row] * slopes[column]).sum(0))
        normal[sizes == 0] = np.eye(3)
        cameras = cameras + np.linalg.solve(normal, right[..., None])[..., 0]
    return cameras
