"""Light behaves as light does, whatever its fitted constants are."""

import numpy as np

from torchsets.data.scene_light import COLOURS, bare_ground_light, ground_light, object_light
from torchsets.data.scene_projection import LAMPS
from torchsets.data.scene_shadows import Blockers
from torchsets.data.scenes import VALUES

KEY = np.array(LAMPS, np.float32)
RED = VALUES["color"].index("red")


def blockers(*places):
    """Large balls at places (x, y)."""
    x, y = np.array(places, np.float32).reshape(-1, 2).T[..., None]
    return Blockers(x, y, np.full_like(x, 0.7), np.full_like(x, 0.7), np.ones_like(x))


def on_top(*, metal, lamps=KEY):
    """What the top of a red ball at the origin sends straight up."""
    upward = np.array([[0], [0], [1]], np.float32)
    return object_light(
        np.array([[0], [0], [1.4]], np.float32),
        upward,
        upward,
        np.array([[1], [0], [0]], np.float32),
        np.zeros(1, np.intp),
        np.array(COLOURS[RED], np.float32)[:, None] / 255,
        np.array([metal]),
        lamps,
        blockers((0, 0)),
    )[:, 0]


def test_the_ground_is_brighter_near_the_key_lamp():
    points = np.array([[5, -5], [-2, 5], [0, 0]], np.float32)
    near, far = bare_ground_light(points, KEY).T
    assert (near > 1.5 * far).all()


def test_without_objects_the_ground_is_bare():
    x, y = np.array([0.5, -2], np.float32), np.array([1, 0.3], np.float32)
    nothing = blockers()
    bare = bare_ground_light(np.stack([x, y, np.zeros_like(x)]), KEY)
    np.testing.assert_allclose(ground_light(x, y, KEY, nothing), bare, rtol=1e-5)


def test_objects_throw_shadows_away_from_the_lamp_only():
    away = -KEY[0, :2] / np.linalg.norm(KEY[0, :2])
    x, y = np.stack([1.2 * away, -3 * away], axis=1).astype(np.float32)
    lit = ground_light(x, y, KEY, blockers())
    shaded = ground_light(x, y, KEY, blockers((0, 0)))
    assert (shaded[:, 0] < 0.95 * lit[:, 0]).all()  # they are faint: there are three lamps
    np.testing.assert_allclose(shaded[:, 1], lit[:, 1], rtol=0.02)


def test_rubber_has_its_colour_and_metal_another_light():
    rubber, metal = on_top(metal=False), on_top(metal=True)
    assert rubber[0] > 2 * rubber[1]
    assert not np.allclose(rubber, metal, rtol=0.1)


def test_a_lamp_below_gives_the_top_nothing():
    below = KEY * np.array([1, 1, -1], np.float32)
    assert (on_top(metal=False, lamps=below) < 0.7 * on_top(metal=False)).all()
