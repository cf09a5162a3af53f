"""How bright surfaces of CLEVR's world are: lamps, soft shadows, rubber, metal and the ground.

Everything is linear light, in three colours. The numbers were fitted by least squares to 277 real
pictures of CLEVR, together with the places of the lamps, which each picture reveals by its ground.
All is computed point by point, with sums in a fixed order, so that a picture does not depend on
what is rendered beside it. Points and directions are (3, P), float32.
"""

import numpy as np
from numpy.typing import NDArray

from torchsets.data.scene_shadows import Blockers, Numbers, Sight, dot

COLOURS = (
    (41, 208, 208),
    (42, 75, 215),
    (255, 238, 51),
    (129, 38, 192),
    (173, 35, 35),
    (29, 105, 20),
    (87, 87, 87),
    (129, 74, 25),
)
"""Red, green and blue of 255 for each of ``VALUES["color"]``; as linear light."""
_LAMPS = np.array(
    [[5.595, 5.197, 4.494], [1.198, 1.304, 1.636], [2.53, 2.53, 2.53]], np.float32
)  # red, green and blue of the key lamp (warm), the fill lamp (cool) and the back lamp
_RUBBER = (1.34, 1.12, 1.03)  # what rubber returns of each lamp, beside the ground
_AMBIENT, _RUBBER_AMBIENT, _RUBBER_GLOSS = 0.133, 0.1437, 0.004
_SIDES, _DOWN = (-0.014, 0.040), (0.060, -0.110)  # ambient light of sides and of what faces down,
_LOW = 0.4  # and what is added to it near the ground, below about this height
_CONTACT = (0.5, 0.85)  # how near a ball must be to darken the ground, and to darken it fully


_MIRROR = 0.87  # what metal returns of the ground that it mirrors
_MIRRORED = (0.1, 0.06)  # how bright mirrored objects are: of their colour, and white
_LOBES = (0.96, 0.76, 1.19)  # highlights of the lamps
_LOBE_WIDTH = (0.0076, 0.0033)  # along and across the object's height: the metal is brushed
_WINDOW, _WINDOW_WIDTH, _WINDOW_TOP = 1.75, (0.0041, 0.0016), 1.15
_WINDOW_WAY = (0.4230, -0.1880, 0.8860)  # a bright spot at infinity that only metal shows
_SKY = (-0.015, 0.1)  # above the horizon: seen from the front, and at grazing angles
_HAZE = 0.05  # of the highlights below the horizon
_HORIZON = (0.05, 0.12)  # where the mirrored ground begins, as a slope, and how soon it is full
_FOOT = 0.6  # how much darker the ground is below a ball that mirrors it


def ground_light(x: Numbers, y: Numbers, lamps: Numbers, blockers: Blockers) -> Numbers:
    """The light of points of the ground, (3, P): red, green, blue."""
    points = np.stack([x, y, np.zeros_like(x)])
    sight = Sight(points, blockers)
    near = 1 / (1 + sight.square / (blockers.height * blockers.height))
    near = np.minimum(np.maximum(near - _CONTACT[0], 0) * (1 / (_CONTACT[1] - _CONTACT[0])), 1)
    light = np.empty_like(points)
    light[:] = np.maximum(1 - _add_rows(near * np.sqrt(near)), 0) * _AMBIENT
    for lamp, colour in zip(lamps, _LAMPS, strict=True):
        to = lamp[:, None] - points
        light += colour[:, None] * (_strength(to, to[2], lamp) * sight.passed(to))
    return light


def bare_ground_light(points: Numbers, lamps: Numbers) -> Numbers:
    """The same without any object, as metal mirrors it, (3, P)."""
    light = np.full_like(points, _AMBIENT)
    for lamp, colour in zip(lamps, _LAMPS, strict=True):
        to = lamp[:, None] - points
        light += colour[:, None] * _strength(to, to[2], lamp)
    return light


def object_light(
    points: Numbers,
    normals: Numbers,
    to_camera: Numbers,
    around: Numbers,
    owner: NDArray[np.intp],
    colours: Numbers,
    metal: NDArray[np.bool_],
    lamps: Numbers,
    blockers: Blockers,
) -> Numbers:
    """The light that points of objects send to the camera.

    Args:
        points: Where they are, (3, P).
        normals: Outward, of length 1, (3, P).
        to_camera: Of length 1, (3, P).
        around: Along the surface, at a right angle to the object's axis, of length 1, (3, P).
        owner: The object of each point, (P,).
        colours: Of each object, (3, n).
        metal: Whether each object is of metal, (n,).
        lamps: Places, (3, 3).
        blockers: The n objects.

    Returns:
        Red, green and blue, (3, P).
    """
    sight = Sight(points, blockers, owner)
    shiny = np.flatnonzero(metal[owner])
    metallic = _Metal(points, normals, to_camera, around, shiny) if len(shiny) else None
    light = np.empty_like(points)
    light[:] = _ambient(points[2], normals[2])
    for number, lamp in enumerate(lamps):
        to = lamp[:, None] - points
        strength = _strength(to, dot(normals, to), lamp)
        strength *= sight.passed(to)
        light += _LAMPS[number][:, None] * (_RUBBER[number] * strength)
        if metallic is not None:
            metallic.add_lamp(number, to)
    tint = np.take(colours, owner, axis=1)
    light *= tint
    light += _RUBBER_GLOSS
    if metallic is not None:
        metallic.add_mirrored(owner[shiny], lamps, colours, blockers)
        light[:, shiny] = metallic.light * np.take(tint, shiny, axis=1)
    return light


class _Metal:
    """Light of the points of metal, before it is tinted: highlights and what is mirrored."""

    def __init__(
        self,
        points: Numbers,
        normals: Numbers,
        to_camera: Numbers,
        around: Numbers,
        chosen: NDArray[np.intp],
    ) -> None:
        self.chosen = chosen
        self.points, self.normals, self.to_camera, self.around = (
            np.take(part, chosen, axis=1) for part in (points, normals, to_camera, around)
        )
        self.facing = np.maximum(dot(self.normals, self.to_camera), 0)
        self.light = np.zeros_like(self.points)
        way = np.array(_WINDOW_WAY, np.float32)[:, None]
        window = _WINDOW * self._lobe(np.broadcast_to(way, self.points.shape), _WINDOW_WIDTH)
        self.light += np.minimum(window, _WINDOW_TOP)

    def add_lamp(self, number: int, to: Numbers) -> None:
        to = np.take(to, self.chosen, axis=1)
        lobe = _LOBES[number] * self._lobe(to / np.sqrt(dot(to, to)), _LOBE_WIDTH)
        colour = _LAMPS[number][:, None]
        self.light += (colour / colour.mean()) * lobe

    def add_mirrored(
        self,
        owner: NDArray[np.intp],
        lamps: Numbers,
        colours: Numbers,
        blockers: Blockers,
    ) -> None:
        away = (2 * self.facing) * self.normals - self.to_camera
        slope = -away[2]
        ground = self.points + away * (self.points[2] / np.maximum(slope, 1e-3))
        ground[2] = 0
        below = bare_ground_light(ground, lamps) * _MIRROR
        east, north = ground[0] - blockers.x[owner, 0], ground[1] - blockers.y[owner, 0]
        foot = 1 / (1 + (east * east + north * north) / blockers.height[owner, 0] ** 2)
        below *= 1 - (_FOOT * blockers.ball[owner, 0]) * (foot * foot * foot)
        below += _HAZE * self.light
        graze = 1 - self.facing
        self.light += _SKY[0] + _SKY[1] * np.minimum(4 * graze * graze, 1)
        np.maximum(self.light, 0, out=self.light)
        below -= self.light
        below *= np.clip((slope + _HORIZON[0]) * (1 / _HORIZON[1]), 0, 1)
        self.light += below
        which, hit = Sight(self.points, blockers, owner).first(away)
        self.light[:, hit] = _MIRRORED[0] * colours[:, which] + _MIRRORED[1]

    def _lobe(self, to: Numbers, width: tuple[float, float]) -> Numbers:
        """A highlight by how far the bisector of lamp and camera is from the normal."""
        half = self.to_camera + to
        scale = 1 / np.maximum(dot(half, half), 1e-6)
        across = dot(half, self.around)
        straight = dot(half, self.normals)
        across *= across * scale
        along = np.maximum(1 - straight * straight * scale - across, 0)
        return 1 / (1 + along / width[0] + across / width[1])


def _ambient(height: Numbers, upward: Numbers) -> Numbers:
    """The light on rubber that comes from everywhere, by height and by the normal's z."""
    low = height * (1 / _LOW)
    low = 1 / (1 + low * low)
    down = np.maximum(-upward, 0)
    sides = 1 - np.abs(upward)
    return (sides * (_SIDES[0] + _SIDES[1] * low) + _RUBBER_AMBIENT) + down * (
        _DOWN[0] + _DOWN[1] * low
    )


def _strength(to: Numbers, facing: Numbers, lamp: Numbers) -> Numbers:
    """Of a lamp that is aimed at the origin: both cosines, over the squared distance."""
    square = dot(to, to)
    length = float(np.sqrt(lamp[0] * lamp[0] + lamp[1] * lamp[1] + lamp[2] * lamp[2]))
    leaving = dot(lamp[:, None], to) / length
    return np.maximum(facing, 0) * np.maximum(leaving, 0) / (square * square)


def _add_rows(values: Numbers) -> Numbers:
    total = np.zeros(values.shape[1:], np.float32)
    for row in values:
        total += row
    return total
