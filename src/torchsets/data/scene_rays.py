"""Which object each ray of a picture hits first, and so how much of each object is seen."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from torchsets.data.scene_outlines import CUBE, SPHERE, Solids, outlines, scene_solids
from torchsets.data.scene_projection import FOCAL, HEIGHT, WIDTH, Floats, dot
from torchsets.data.scene_shadows import Numbers
from torchsets.data.scenes import Scenes
from torchsets.padded import SetBatch

_SHARE_GRID = (240, 160)
_CHUNK = 256  # scenes that are prepared together; no effect on the results


class RayGrid(NamedTuple):
    """The rays through the middles of a grid's cells; at depth 1 they are at (x, y).

    Attributes:
        x: Of each column, to the right, (columns,).
        y: Of each row, upwards, (rows,).
    """

    x: Numbers
    y: Numbers


class Rays(NamedTuple):
    """What the rays of many scenes need to know about the objects; all are lists over objects.

    A ray is o + t d in the coordinates of an object that is turned back and scaled to radius 1, so
    t is the depth. d changes evenly from column to column and from row to row.

    Attributes:
        starts: Where the objects of each scene begin, and where the last ends.
        shape: The place in ``VALUES["shape"]``.
        scale: 1 / radius^2.
        origin: o: three numbers.
        forms: Up to three functions of (x, y), each as the value at 0 and the two slopes: o . d
            for a ball; o . d in the plane and d_z for a cylinder; d for a cube.
        windows: The first and last cell that may show the object: left, right, top, bottom.
    """

    starts: list[int]
    shape: list[int]
    scale: list[float]
    origin: list[list[float]]
    forms: list[list[list[float]]]
    windows: list[list[int]]


def visible_share(scenes: Scenes) -> SetBatch:
    """Say how much of each object is seen.

    Args:
        scenes: S scenes.

    Returns:
        S sets of one feature, float32: of the part of its outline that lies in the picture, the
        share that no other object hides, counted on a grid of 240 x 160; 0 for an object outside
        the picture.

    Example:
        >>> from torchsets.data import sample_scenes
        >>> visible_share(sample_scenes(2, objects=(1, 1))).elements.flatten()
        tensor([1., 1.])
    """
    grid = ray_grid(*_SHARE_GRID)
    rays = scene_rays(scenes, *_SHARE_GRID)
    shares = np.zeros((len(rays.shape), 1), np.float32)
    for scene in range(len(scenes)):
        start, stop = rays.starts[scene : scene + 2]
        _, owner = trace(rays, scene, grid)
        seen = np.bincount(owner[owner >= 0], minlength=stop - start)
        for place in range(start, stop):
            alone = count_hits(rays, place, grid)
            shares[place] = seen[place - start] / max(alone, 1)
    return SetBatch.from_flat(shares, scenes.sizes)


def fewest_cells(scenes: Scenes, columns: int, rows: int) -> NDArray[np.int64]:
    """In how many cells of a grid the least visible object of each scene shows, (S,).

    Without objects, as many as there are cells.
    """
    fewest = np.full(len(scenes), columns * rows)
    grid = ray_grid(columns, rows)
    for start in range(0, len(scenes), _CHUNK):
        rays = scene_rays(scenes[start : start + _CHUNK], columns, rows)
        for scene, size in enumerate(scenes.sizes[start : start + _CHUNK].tolist()):
            if size:
                _, owner = trace(rays, scene, grid)
                fewest[start + scene] = np.bincount(owner[owner >= 0], minlength=size).min()
    return fewest


def ray_grid(columns: int, rows: int) -> RayGrid:
    """The rays of a grid over the frame."""
    x = ((np.arange(columns) + 0.5) / columns - 0.5) * (WIDTH / FOCAL)
    y = (0.5 - (np.arange(rows) + 0.5) / rows) * (HEIGHT / FOCAL)
    return RayGrid(x.astype(np.float32), y.astype(np.float32))


def scene_rays(scenes: Scenes, columns: int, rows: int) -> Rays:
    """Prepare to trace scenes on a grid."""
    solids = scene_solids(scenes)
    origin = _local(solids, -solids.offset)
    slopes = [_local(solids, axis) for axis in (solids.ahead, solids.right, solids.up)]
    flat = (solids.shape != SPHERE).astype(float)

    def in_plane(vectors: Floats) -> Floats:
        full = dot(origin, vectors)
        return full - flat * origin[2] * vectors[2]

    round_forms = [[in_plane(slope) for slope in slopes], [slope[2] for slope in slopes]]
    round_forms.append(round_forms[1])
    forms = np.where(solids.shape == CUBE, np.stack(slopes, 1), np.array(round_forms))
    left, top, right, bottom = outlines(solids)
    windows = [
        np.clip(np.ceil(left * columns - 0.5), 0, columns),
        np.clip(np.floor(right * columns - 0.5) + 1, 0, columns),
        np.clip(np.ceil(top * rows - 0.5), 0, rows),
        np.clip(np.floor(bottom * rows - 0.5) + 1, 0, rows),
    ]
    return Rays(
        [0, *np.cumsum(scenes.sizes.numpy()).tolist()],
        solids.shape.tolist(),
        (1 / solids.radius**2).tolist(),
        origin.T.tolist(),
        forms.transpose(2, 0, 1).tolist(),
        np.array(windows).astype(int).T.tolist(),
    )


def trace(rays: Rays, scene: int, grid: RayGrid) -> tuple[Numbers, NDArray[np.int8]]:
    """Follow the rays of one scene.

    Returns:
        The depth of the nearest surface, infinite where there is none, and which object of the
        scene it belongs to, -1 where there is none; both (rows, columns).
    """
    shape = (len(grid.y), len(grid.x))
    depth = np.full(shape, np.inf, np.float32)
    owner = np.full(shape, -1, np.int8)
    start, stop = rays.starts[scene : scene + 2]
    for place in range(start, stop):
        left, right, top, bottom = rays.windows[place]
        if left < right and top < bottom:
            window = (slice(top, bottom), slice(left, right))
            near, hit = _hits(rays, place, grid)
            hit &= near < depth[window]
            np.copyto(depth[window], near, where=hit)
            np.copyto(owner[window], np.int8(place - start), where=hit)
    return depth, owner


def count_hits(rays: Rays, place: int, grid: RayGrid) -> int:
    """How many rays hit an object that nothing hides."""
    left, right, top, bottom = rays.windows[place]
    return int(_hits(rays, place, grid)[1].sum()) if left < right and top < bottom else 0


def _local(solids: Solids, vectors: Floats) -> Floats:
    """Turn vectors (3, K) back by the objects' rotations and divide them by their radii."""
    x = solids.cosine * vectors[0] + solids.sine * vectors[1]
    y = solids.cosine * vectors[1] - solids.sine * vectors[0]
    return np.stack([x, y, vectors[2]]) / solids.radius


def _hits(rays: Rays, place: int, grid: RayGrid) -> tuple[Numbers, NDArray[np.bool_]]:
    """Depth of the surface, and whether the ray meets it, in the window of an object."""
    left, right, top, bottom = rays.windows[place]
    x, y = grid.x[left:right], grid.y[top:bottom, None]
    forms, origin = rays.forms[place], rays.origin[place]

    def form(number: int) -> Numbers:
        value, across, upward = forms[number]
        return (across * x + value) + upward * y

    if rays.shape[place] == CUBE:
        near, far = _slab(form(0), origin[0])
        for axis in (1, 2):
            enter, leave = _slab(form(axis), origin[axis])
            np.maximum(near, enter, out=near)
            np.minimum(far, leave, out=far)
        return near, near < far
    scale = rays.scale[place]
    square = (scale * (x * x) + scale) + scale * (
        y * y
    )  # d . d, since the axes are at right angles
    middle = form(0)
    if rays.shape[place] == SPHERE:
        rest = origin[0] ** 2 + origin[1] ** 2 + origin[2] ** 2 - 1
        root = middle * middle
        root -= square * rest
        hit = root > 0
        np.sqrt(np.maximum(root, 0, out=root), out=root)
        root += middle
        return np.negative(root, out=root) / square, hit
    down = form(1)
    square -= down * down
    root = middle * middle
    root -= square * (origin[0] ** 2 + origin[1] ** 2 - 1)
    hit = root > 0
    np.sqrt(np.maximum(root, 0, out=root), out=root)
    near, far = _slab(down, origin[2])
    np.maximum(near, (-middle - root) / square, out=near)
    np.minimum(far, (root - middle) / square, out=far)
    hit &= near < far
    return near, hit


def _slab(direction: Numbers, origin: float) -> tuple[Numbers, Numbers]:
    """Where a ray enters and leaves the space between -1 and 1 along one axis."""
    inverse = 1 / direction
    middle = inverse * -origin
    half = np.abs(inverse, out=inverse)
    return middle - half, middle + half
