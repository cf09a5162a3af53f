import math

import pytest
import torch

from torchsets.data import random_polygons, turned_polygons


def test_corners_lie_on_the_unit_circle_at_equal_angles():
    corners = turned_polygons(torch.tensor([0.3], dtype=torch.float64), 5)[0]
    angles = torch.atan2(corners[:, 1], corners[:, 0]) % (2 * math.pi)
    expected = 0.3 + 2 * math.pi * torch.arange(5, dtype=torch.float64) / 5
    torch.testing.assert_close(angles, expected)
    torch.testing.assert_close(corners.norm(dim=-1), torch.ones(5, dtype=torch.float64))


def test_a_square_turned_by_90_degrees_is_the_same_set_in_another_order():
    angles = torch.tensor([0.2, 0.2 + math.pi / 2], dtype=torch.float64)
    before, after = turned_polygons(angles, 4)
    torch.testing.assert_close(after, before.roll(-1, dims=0))


def test_random_polygons_are_turned_and_shuffled(generator):
    polygons = random_polygons(200, 6, generator=generator)
    torch.testing.assert_close(polygons.mean(dim=1), torch.zeros(200, 2), atol=1e-6, rtol=0)
    nearest = torch.cdist(polygons, polygons).add(10 * torch.eye(6)).amin(dim=1)
    torch.testing.assert_close(nearest, torch.ones(200, 6))  # the side of a hexagon is its radius
    follows = (polygons[:, 1] - polygons[:, 0]).norm(dim=-1)
    assert 0.2 < (follows > 1.1).float().mean() < 0.9  # the second corner is not always a neighbour
    assert len(polygons[:, 0, 0].unique()) > 150


def test_the_generator_decides(generator):
    again = torch.Generator().manual_seed(0)
    first = random_polygons(3, 4, generator=generator)
    assert torch.equal(first, random_polygons(3, 4, generator=again))


def test_a_polygon_has_corners():
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        turned_polygons(torch.zeros(1), 0)
