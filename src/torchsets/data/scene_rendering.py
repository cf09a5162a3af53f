"""Pictures of scenes: what CLEVR's camera would see."""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets.data.scene_light import COLOURS, ground_light, object_light
from torchsets.data.scene_outlines import CUBE, CYLINDER, SPHERE, Solids, scene_solids
from torchsets.data.scene_projection import (
    FOCAL,
    HEIGHT,
    WIDTH,
    camera_axes,
    scene_cameras,
    scene_lamps,
)
from torchsets.data.scene_rays import RayGrid, Rays, ray_grid, scene_rays, trace
from torchsets.data.scene_shadows import Blockers, Numbers, dot
from torchsets.data.scenes import ATTRIBUTES, Scenes

_CHUNK = 64  # scenes that are prepared together; no effect on the pictures
_EDGES = {SPHERE: 1.0, CUBE: 0.176, CYLINDER: 0.09}  # how far edges are rounded, of the radius
_LEVELS = 8192


def render_scenes(scenes: Scenes, *, size: int = 64, samples: int = 2) -> Tensor:
    """Draw scenes as CLEVR's camera sees them.

    The frame of 480 x 320 is squeezed to a square, as in the thesis. Outlines are exact (but edges
    are not rounded); light, shadows and mirrored objects are close to those of the real pictures. A
    scene gives the same bytes whatever is rendered beside it.

    Args:
        scenes: S scenes. Their cameras are those of :func:`scene_cameras`; lamps that are not known
            hang where CLEVR's do on average.
        size: Pixels along each side.
        samples: Rays along each side of a pixel, against jagged outlines.

    Returns:
        Pictures, (S, 3, size, size), uint8.

    Raises:
        ValueError: If size or samples is below 1.

    Example:
        >>> from torchsets.data import sample_scenes
        >>> render_scenes(sample_scenes(2), size=32).shape
        torch.Size([2, 3, 32, 32])
    """
    if size < 1 or samples < 1:
        raise ValueError(f"size and samples must be at least 1, got {size} and {samples}")
    # The system gets back freed arrays of some size and clears them before it gives them out again,
    # which takes longer than the arithmetic. glibc keeps arrays below the largest one that was ever
    # freed; this one is never touched, so it costs nothing.
    np.empty(31 << 20, np.uint8)
    pictures = np.empty((len(scenes), 3, size, size), np.uint8)
    for start in range(0, len(scenes), _CHUNK):
        _render(scenes[start : start + _CHUNK], samples, pictures[start : start + _CHUNK])
    return torch.from_numpy(pictures)


def _render(scenes: Scenes, samples: int, pictures: NDArray[np.uint8]) -> None:
    size = pictures.shape[-1]
    grid = ray_grid(size * samples, size * samples)
    rays = scene_rays(scenes, size * samples, size * samples)
    solids = scene_solids(scenes)
    views = _views(scenes)
    lamps = scene_lamps(scenes).numpy().astype(np.float32)
    objects = _Objects(scenes, solids)
    for scene, picture in enumerate(pictures):
        chosen = slice(rays.starts[scene], rays.starts[scene + 1])
        blockers = objects.blockers(chosen)
        ground = _ground(views[scene], lamps[scene], blockers, size)
        hits, colours = _foreground(rays, scene, grid, views[scene], lamps[scene], objects, chosen)
        if len(hits):
            covered = _shrink(_spread(hits, colours, samples, size), samples, size)
            ground *= 1 - covered[3]
            ground += covered[:3]
        ground += 0.5
        picture[:] = ground  # at most 255, and cut off: rounded


class _Objects:
    """The objects of many scenes as float32 arrays."""

    def __init__(self, scenes: Scenes, solids: Solids) -> None:
        x, y, z = scenes.positions.numpy().T
        flat = np.where(solids.shape == CUBE, 2 / np.sqrt(np.pi), 1) * solids.radius
        edge = np.array([_EDGES[shape] for shape in range(len(_EDGES))])[solids.shape]
        columns = [x, y, z, 1 / solids.radius, solids.cosine, solids.sine, 1 - edge]
        self.columns = np.array(columns, np.float32)
        self.cylinder = solids.shape == CYLINDER
        proxies = [x, y, solids.radius, flat, solids.shape == SPHERE]
        self.proxies = np.array(proxies, np.float32)[..., None]
        paints = np.array(COLOURS, np.float32).T / 255
        self.colours = paints[:, scenes.attributes[:, ATTRIBUTES.index("color")].numpy()]
        self.metal = scenes.attributes[:, ATTRIBUTES.index("material")].numpy() == 1

    def blockers(self, chosen: slice) -> Blockers:
        return Blockers(*self.proxies[:, chosen])

    def surface(
        self, chosen: slice, owner: NDArray[np.intp], points: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Normals, rounded at the edges, and directions around the objects' axes; (3, P) each."""
        x, y, z, inverse, cosine, sine, inner = np.take(self.columns[:, chosen], owner, axis=1)
        east, north, high = points[0] - x, points[1] - y, points[2] - z
        local = np.stack([cosine * east + sine * north, cosine * north - sine * east, high])
        local *= inverse
        edges = local - np.maximum(np.minimum(local, inner), -inner)
        upright = np.flatnonzero(self.cylinder[chosen][owner])
        distance = np.sqrt(local[0, upright] ** 2 + local[1, upright] ** 2)
        beyond = 1 - np.minimum(inner[upright] / np.maximum(distance, 1e-6), 1)
        edges[:2, upright] = local[:2, upright] * beyond
        edges /= np.sqrt(dot(edges, edges))
        normals = np.stack(
            [cosine * edges[0] - sine * edges[1], sine * edges[0] + cosine * edges[1], edges[2]]
        )
        return normals, _around(normals, east, north)


def _around(normals: Numbers, east: Numbers, north: Numbers) -> Numbers:
    """At right angles to the normal, and as far as possible to the object's axis."""
    around = np.stack([-north, east, np.zeros_like(east)])
    around -= normals * dot(around, normals)
    around /= np.sqrt(np.maximum(dot(around, around), 1e-12))
    return around


def _views(scenes: Scenes) -> Numbers:
    """Of each scene the camera's place, right, up and ahead as columns, (S, 3, 4)."""
    cameras = scene_cameras(scenes).numpy().T
    return np.stack([cameras, *camera_axes(cameras)], axis=-1).transpose(1, 0, 2).astype(np.float32)


def _ground(view: Numbers, lamps: Numbers, blockers: Blockers, size: int) -> Numbers:
    """The empty ground with its shadows, (3, size, size), 0 to 255.

    It is smooth: computed for blocks of 2 x 2 pixels and interpolated.
    """
    half = (size + 1) // 2
    middles = (2 * np.arange(-1, half + 1) + 1) / size - 0.5  # a block beyond each edge
    x = (WIDTH / FOCAL * middles).astype(np.float32)
    y = (-HEIGHT / FOCAL * middles).astype(np.float32)[:, None]
    place, right, up, ahead = view.T
    down = (ahead[2] + up[2] * y) + right[2] * x
    far = -place[2] / np.minimum(down, -1e-3)
    east, north = (
        (place[axis] + far * ((ahead[axis] + up[axis] * y) + right[axis] * x)).ravel()
        for axis in (0, 1)
    )
    light = _to_bytes(ground_light(east, north, lamps, blockers))
    tall = _double(light.reshape(3, half + 2, half + 2))
    return _double(tall.swapaxes(1, 2)).swapaxes(1, 2)[:, :size, :size]


def _double(blocks: Numbers) -> Numbers:
    """Interpolate between rows of blocks, but for the first and last: (3, n + 2, m) to 2 n rows."""
    rows = np.empty((3, 2 * (blocks.shape[1] - 2), blocks.shape[2]), np.float32)
    middle = blocks[:, 1:-1] * 0.75
    np.add(middle, blocks[:, :-2] * 0.25, out=rows[:, 0::2])
    np.add(middle, blocks[:, 2:] * 0.25, out=rows[:, 1::2])
    return rows


def _foreground(
    rays: Rays,
    scene: int,
    grid: RayGrid,
    view: Numbers,
    lamps: Numbers,
    objects: _Objects,
    chosen: slice,
) -> tuple[NDArray[np.intp], Numbers]:
    """Which rays hit objects, (P,), and their red, green and blue, (3, P), 0 to 255."""
    depth, owners = trace(rays, scene, grid)
    hits = np.flatnonzero(owners >= 0)
    rows, columns = np.divmod(hits, len(grid.x))
    place, right, up, ahead = (column[:, None] for column in view.T)
    way = (right * grid.x[columns] + ahead) + up * grid.y[rows]
    points = way * np.take(depth, hits) + place
    way /= -np.sqrt(dot(way, way))
    owner = np.take(owners, hits).astype(np.intp)
    normals, around = objects.surface(chosen, owner, points)
    light = object_light(
        points,
        normals,
        way,
        around,
        owner,
        objects.colours[:, chosen],
        objects.metal[chosen],
        lamps,
        objects.blockers(chosen),
    )
    return hits, _to_bytes(light)


def _spread(hits: NDArray[np.intp], colours: Numbers, samples: int, size: int) -> Numbers:
    """Colours where rays hit, and 1 as the fourth, 0 elsewhere and beyond the edges."""
    side, beyond = samples * size, samples // 2
    rows, columns = np.divmod(hits, side)
    places = (rows + beyond) * (side + 2 * beyond) + (columns + beyond)
    canvas = np.zeros((4, (side + 2 * beyond) ** 2), np.float32)
    for channel, values in zip(canvas, (*colours, 1), strict=True):
        channel[places] = values
    return canvas.reshape(4, side + 2 * beyond, side + 2 * beyond)


def _shrink(canvas: Numbers, samples: int, size: int) -> Numbers:
    """Average rays to pixels with the tent that Pillow's bilinear filter has, (4, size, size)."""
    beyond = samples // 2
    distance = np.abs(np.arange(-beyond, samples + beyond) + 0.5 - samples / 2)
    weights = ((1 - distance / samples) / samples).tolist()
    border = 1 / (1 - sum(weights[:beyond]))  # at the edge there are fewer rays
    for axis in (1, 2):
        long = np.moveaxis(canvas, axis, 0)
        short = long[: samples * size : samples] * weights[0]
        for tap in range(1, len(weights)):
            short += long[tap : tap + samples * size : samples] * weights[tap]
        short[[0, -1]] *= border
        canvas = np.moveaxis(short, 0, axis)
    return canvas


def _to_bytes(light: Numbers) -> Numbers:
    """Linear light to 0..255 on the sRGB curve, still as float."""
    scaled = np.maximum(light, 0) * (_LEVELS - 1)
    scaled += 0.5
    index = np.minimum(scaled, _LEVELS - 1, out=scaled).astype(np.intp)
    return np.take(_srgb(), index)


@cache
def _srgb() -> Numbers:
    linear = np.arange(_LEVELS) / (_LEVELS - 1)
    curve = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return (255 * curve).astype(np.float32)
