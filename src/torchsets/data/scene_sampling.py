"""Draw scenes by the rules of CLEVR: where objects may stand, and which they are."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets.data.scene_projection import CAMERA, CAMERA_JITTER, LAMP_JITTER, LAMPS
from torchsets.data.scene_rays import fewest_cells
from torchsets.data.scenes import BEHIND, RADII, REACH, RIGHT, VALUES, Scenes

TRIES = 50
"""Positions that are tried for an object before its scene is drawn anew."""
GAP = 0.25
"""The least distance between the surfaces of two objects, taken as balls."""
MARGIN = 0.4
"""How far two objects are apart at least, both from left to right and from front to behind."""
MOST = 10
VISIBLE_GRID, VISIBLE_CELLS = (120, 80), 9
"""With ``visible``, each object shows in at least so many cells of a grid over the frame."""
_COUNTS = [len(values) for values in VALUES.values()]
_Rows = NDArray[np.float32]


def sample_scenes(
    count: int,
    *,
    objects: tuple[int, int] = (3, MOST),
    seed: int = 0,
    first: int = 0,
    visible: bool = False,
) -> Scenes:
    """Draw scenes by CLEVR's rules; scene i is the same in any order, chunk or process.

    The number of objects, their colour, shape, material, size and rotation are uniform. x and y
    are uniform too, but the surfaces of two objects are at least 0.25 apart, and their centres 0.4
    from left to right and from front to behind. An object that does not fit after 50 tries makes
    the whole scene start anew, with the same number of objects; so large objects are rarer in full
    scenes, as they are in CLEVR.

    Args:
        count: Number of scenes.
        objects: Smallest and largest number of objects, from 0 to 10.
        seed: Of all random numbers: one seed is one split.
        first: The number of the first scene. ``sample_scenes(5, first=10)`` are the last five of
            ``sample_scenes(15)``.
        visible: Draw a scene anew if one of its objects shows in fewer than 9 cells of a grid of
            120 x 80 over the picture (CLEVR's least is 0.09 % of the pixels). Slower, and needed
            only if the scenes are looked at.

    Returns:
        The scenes, whose ``numbers`` are first, first + 1, ... Each has a camera of its own, moved
        by at most 0.5 along each axis, and three lamps, moved by at most 1.

    Raises:
        ValueError: If an argument is out of range.

    Example:
        >>> sample_scenes(3, objects=(5, 5))
        Scenes(3 scenes of 5 objects)
    """
    low, high = objects
    if not 0 <= low <= high <= MOST:
        raise ValueError(f"objects must be two rising numbers from 0 to {MOST}, got {objects}")
    for name, value in (("count", count), ("seed", seed), ("first", first)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0, got {value}")
    numbers = range(first, first + count)
    jitter = np.empty((count, 4, 3))
    layouts, scenes = [], []
    for place, number in enumerate(numbers):
        # Keyed by the scene, not drawn in turn: no scene depends on another. The camera and the
        # lamps have a stream of their own (the counter of the other one never gets that far).
        philox = np.random.Philox(key=[seed, number], counter=[0, 0, 0, 1])
        np.random.Generator(philox).random(out=jitter[place])
        generator = np.random.Generator(np.random.Philox(key=[seed, number]))
        size = low + int(generator.random() * (high - low + 1))
        layouts.append(_layouts(generator, size))
        scenes.append(next(layouts[-1]))
    jitter = 2 * jitter - 1
    cameras = torch.from_numpy(CAMERA + CAMERA_JITTER * jitter[:, 0])
    lamps = torch.from_numpy(LAMPS + LAMP_JITTER * jitter[:, 1:])
    unseen = list(range(count)) if visible else []
    while unseen:
        drawn = _assemble([scenes[place] for place in unseen], cameras[unseen])
        hidden = fewest_cells(drawn, *VISIBLE_GRID) < VISIBLE_CELLS
        unseen = [place for place, bad in zip(unseen, hidden, strict=True) if bad]
        for place in unseen:
            scenes[place] = next(layouts[place])
    return _assemble(scenes, cameras, lamps, torch.tensor(numbers, dtype=torch.long))


def _assemble(
    scenes: list[_Rows],
    cameras: Tensor,
    lamps: Tensor | None = None,
    numbers: Tensor | None = None,
) -> Scenes:
    rows = torch.from_numpy(np.concatenate([np.zeros((0, 8), np.float32), *scenes]))
    return Scenes(
        rows[:, :3].contiguous(),
        rows[:, 4:].long(),
        rows[:, 3].contiguous(),
        [len(one) for one in scenes],
        numbers=numbers,
        cameras=cameras,
        lamps=lamps,
    )


def _layouts(generator: np.random.Generator, size: int) -> Iterator[_Rows]:
    """One scene after the other: position, rotation and attributes of its objects, (size, 8)."""
    while True:
        drawn = generator.random((size, 5))
        rows = np.zeros((size, 8), np.float32)
        rows[:, 4:] = np.floor(drawn[:, :4] * _COUNTS)
        rows[:, 3] = 360 * drawn[:, 4]
        radii = [RADII[int(small)] for small in rows[:, 7]]
        plane = _place(generator, radii)
        if len(plane) == size:
            rows[:, :2] = np.reshape(plane, (size, 2))
            rows[:, 2] = radii
            yield rows


def _place(generator: np.random.Generator, radii: list[float]) -> list[tuple[float, float]]:
    """Put one object after the other where it is free; ends early with one that does not fit."""
    placed: list[tuple[float, float, float, float, float]] = []
    for radius in radii:
        # Rounded before they are tested, so that what is stored keeps the distances.
        drawn = ((2 * generator.random((TRIES, 2)) - 1) * REACH).astype(np.float32)
        x, y = drawn.astype(np.float64).T
        rightward = (x * RIGHT[0] + y * RIGHT[1]).tolist()
        backward = (x * BEHIND[0] + y * BEHIND[1]).tolist()
        for new in zip(x.tolist(), y.tolist(), rightward, backward, strict=True):
            if _is_free(new, radius, placed):
                placed.append((*new, radius))
                break
        else:
            break
    return [(one[0], one[1]) for one in placed]


def _is_free(
    new: tuple[float, float, float, float],
    radius: float,
    placed: list[tuple[float, float, float, float, float]],
) -> bool:
    x, y, rightward, backward = new
    for other_x, other_y, other_rightward, other_backward, other_radius in placed:
        if (
            -MARGIN < rightward - other_rightward < MARGIN
            or -MARGIN < backward - other_backward < MARGIN
            or ((x - other_x) ** 2 + (y - other_y) ** 2) ** 0.5 < radius + other_radius + GAP
        ):
            return False
    return True
