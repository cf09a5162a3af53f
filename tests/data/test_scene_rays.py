import numpy as np
import pytest
import torch

from torchsets.data import Scenes, sample_scenes, visible_share
from torchsets.data.scene_rays import ray_grid, scene_rays, trace
from torchsets.lab.benchmarks.scenes import id_maps, plain_id_maps


def two_objects(second):
    """A small ball, and another object."""
    positions = torch.tensor([[0.0, 0.0, 0.35], second])
    attributes = torch.tensor([[0, 0, 0, 1], [1, 1, 1, 0]])
    return Scenes(positions, attributes, torch.zeros(2), [2])


@pytest.mark.parametrize("shape", [0, 1, 2])
def test_a_lone_object_is_fully_visible(shape):
    scenes = sample_scenes(6, objects=(1, 1), seed=shape)
    scenes.attributes[:, 2] = shape
    assert visible_share(scenes).elements.flatten().tolist() == [1.0] * 6


def test_an_object_hides_what_is_behind_it():
    behind, beside = two_objects([1.4, -1.2, 0.7]), two_objects([-2.0, -2.5, 0.7])
    hidden, front = visible_share(behind).elements[0, :, 0].tolist()
    assert hidden < 0.4
    assert front == 1
    assert visible_share(beside).elements[0, :, 0].tolist() == [1, 1]


def test_what_is_outside_the_picture_is_not_visible():
    scenes = two_objects([40.0, 60.0, 0.7])
    assert visible_share(scenes).elements[0, :, 0].tolist() == [1, 0]


def test_shares_of_a_scene_do_not_depend_on_the_others():
    scenes = sample_scenes(5, seed=4)
    shares = visible_share(scenes)
    alone = visible_share(scenes[3])
    size = int(scenes.sizes[3])
    assert torch.equal(shares.elements[3, :size], alone.elements[0, :size])
    assert (shares.elements[~shares.mask] == 0).all()


def test_rays_find_what_a_plain_loop_finds():
    """In float64 and without windows; a ray along an outline may fall on either side of it."""
    scenes = sample_scenes(8, seed=7)
    assert (id_maps(scenes) != plain_id_maps(scenes)).mean() < 1e-4


def test_depth_is_that_of_the_surface():
    scenes = two_objects([-2.0, -2.5, 0.7])
    rays = scene_rays(scenes, 480, 320)
    depth, owner = trace(rays, 0, ray_grid(480, 320))
    from torchsets.data import scene_pixels

    column, row, centre = scene_pixels(scenes)[0].tolist()
    seen = depth[int(row), int(column)]
    assert owner[int(row), int(column)] == 0
    assert seen == pytest.approx(centre - 0.35, abs=1e-3)
    assert np.isinf(depth[owner < 0]).all()


def test_scenes_without_objects():
    assert visible_share(sample_scenes(2, objects=(0, 0))).elements.shape == (2, 0, 1)
