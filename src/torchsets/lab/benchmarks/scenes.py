"""Scenes of 3 to 10 objects: drawing them, finding what is seen, and rendering, 16 at a time.

The straightforward id maps follow every ray to every object instead of only those in its box, in
float64. Rendering has no such rival; it stands beside fewer and more rays for each pixel.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from torchsets.data import Scenes, render_scenes, sample_scenes
from torchsets.data.scene_outlines import CUBE, SPHERE, scene_solids
from torchsets.data.scene_rays import ray_grid, scene_rays, trace
from torchsets.lab.benchmarks.harness import Case

_COUNT, _SIDE = 16, 128


def cases() -> list[Case]:
    """Pictures of 64 and of 128 pixels, ids of objects, and scenes."""
    rendering = [
        Case(
            f"{_COUNT} pictures of {size} pixels, 2 x 2 rays each",
            {
                "torchsets": partial(_render, size, 2),
                "1 ray": partial(_render, size, 1),
                "3 x 3 rays": partial(_render, size, 3),
            },
        )
        for size in (64, 128)
    ]
    return [
        *rendering,
        Case(
            f"{_COUNT} id maps of {_SIDE} x {_SIDE}",
            {"torchsets": _trace, "plain": _trace_plainly},
        ),
        Case(
            f"{_COUNT} scenes, all objects visible",
            {
                "torchsets": lambda: partial(sample_scenes, _COUNT, visible=True),
                "hidden ones allowed": lambda: partial(sample_scenes, _COUNT),
            },
        ),
    ]


def id_maps(scenes: Scenes) -> NDArray[np.int8]:
    """The object that each ray hits first, or -1, (S, side, side)."""
    rays, grid = scene_rays(scenes, _SIDE, _SIDE), ray_grid(_SIDE, _SIDE)
    return np.stack([trace(rays, scene, grid)[1] for scene in range(len(scenes))])


def plain_id_maps(scenes: Scenes) -> NDArray[np.int8]:
    """The same, ray by ray and object by object."""
    solids, grid = scene_solids(scenes), ray_grid(_SIDE, _SIDE)
    maps = np.full((len(scenes), _SIDE, _SIDE), -1, np.int8)
    depth = np.full(maps.shape, np.inf)
    number = 0
    for place, scene in enumerate(solids.scene.tolist()):
        number = number + 1 if place and scene == solids.scene[place - 1] else 0
        x, y = grid.x[None, :, None].astype(float), grid.y[:, None, None].astype(float)
        way = solids.ahead[:, place] + x * solids.right[:, place] + y * solids.up[:, place]
        cosine, sine = solids.cosine[place], solids.sine[place]
        turn = np.array([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]]) / solids.radius[place]
        enter, leave = _meet(int(solids.shape[place]), way @ turn, -solids.offset[:, place] @ turn)
        first = (enter < leave) & (enter < depth[scene])
        depth[scene][first], maps[scene][first] = enter[first], number
    return maps


def _meet(
    shape: int, way: NDArray[np.float64], start: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where rays enter and leave a body of radius 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.sort(np.stack([(side - start) / way for side in (-1, 1)]), axis=0)
        if shape == CUBE:
            return ends[0].max(-1), ends[1].min(-1)
        axes = slice(None) if shape == SPHERE else slice(0, 2)
        a = (way[..., axes] ** 2).sum(-1)
        b = (way[..., axes] * start[axes]).sum(-1)
        root = np.sqrt(b**2 - a * ((start[axes] ** 2).sum() - 1))
        enter, leave = (-b - root) / a, (-b + root) / a
        if shape != SPHERE:
            enter, leave = np.maximum(enter, ends[0, ..., 2]), np.minimum(leave, ends[1, ..., 2])
        return enter, leave


def _render(size: int, samples: int) -> Callable[[], object]:
    return partial(render_scenes, sample_scenes(_COUNT), size=size, samples=samples)


def _trace() -> Callable[[], object]:
    return partial(id_maps, sample_scenes(_COUNT))


def _trace_plainly() -> Callable[[], object]:
    return partial(plain_id_maps, sample_scenes(_COUNT))
