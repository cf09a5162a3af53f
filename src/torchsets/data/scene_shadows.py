"""What stands between points and lamps or mirrored things: soft shadows without sampling."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
"""Of float32, which the types of numpy lose on the way."""
_SOFTNESS = 0.15  # how fast shadows get blurred with the distance from what throws them


class Blockers(NamedTuple):
    """The objects of a scene as balls and upright cylinders, which throw shadows; all (n, 1).

    Attributes:
        x, y: The centre.
        height: Half the height, which is also how high the centre is.
        radius: Of the ball or cylinder; that of a cube has the same footprint.
        ball: 1 for balls, 0 for the others.
    """

    x: Numbers
    y: Numbers
    height: Numbers
    radius: Numbers
    ball: Numbers


class Sight:
    """From points, what objects are in the way; ``own`` is the object of each, which is not.

    Numbers of pairs of an object and a point are (n, P).
    """

    def __init__(
        self, points: Numbers, blockers: Blockers, own: NDArray[np.intp] | None = None
    ) -> None:
        self.blockers, self.height = blockers, points[2]
        self.east, self.north = points[0] - blockers.x, points[1] - blockers.y
        self.square = self.east * self.east
        self.square += self.north * self.north
        up = points[2] - blockers.height
        self.tall = blockers.ball * up
        self.outside = self.tall * up  # by how much the squared distance exceeds the radius'
        self.outside += self.square
        self.outside -= blockers.radius * blockers.radius
        if own is not None:
            self.outside[own, np.arange(len(own))] = 1e30  # so far away that it is never hit

    def passed(self, to: Numbers) -> Numbers:
        """The share of a lamp's light that arrives, (P,).

        What is blocked is the length of the way inside an object over the distance to it: soft
        without sampling, and softer with the distance.
        """
        pairs, enter, leave = self._hits(to)
        blocked = leave - enter
        leave += enter
        leave *= _SOFTNESS
        blocked /= np.maximum(leave, 5e-4, out=leave)  # a point on the surface has distance 0
        share = np.ones(self.outside.shape, np.float32)
        np.put(share, pairs, 1 - np.minimum(np.maximum(blocked, 0), 1))
        passed = np.ones_like(self.height)
        for row in share:
            passed *= row
        return passed

    def first(self, way: Numbers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The nearest object along ``way``, and at which points there is one."""
        pairs, enter, leave = self._hits(way)
        reached = np.full(self.outside.shape, np.inf, np.float32)
        np.put(reached, pairs, np.where(leave > enter, enter, np.inf))
        nearest = reached.argmin(axis=0)
        hit = np.flatnonzero(np.isfinite(reached[nearest, np.arange(len(nearest))]))
        return nearest[hit], hit

    def _hits(self, way: Numbers) -> tuple[NDArray[np.intp], Numbers, Numbers]:
        """Which pairs may meet, and where rays by ``way`` enter and leave the objects.

        A ray that misses an object after all does not leave it after it enters. Few pairs meet, so
        only these are followed to the end. The slab between the bottom and the top cuts the
        cylinders; for balls it changes nothing.
        """
        rise = way[2]
        a = self.blockers.ball * (rise * rise) + (way[0] * way[0] + way[1] * way[1])
        b = self.east * way[0]
        b += self.north * way[1]
        b += self.tall * rise
        root = b * b
        root -= a * self.outside
        pairs = np.flatnonzero(root > 0)
        objects, points = np.divmod(pairs, len(rise))
        a, b = np.take(a, pairs), np.take(b, pairs)
        root = np.sqrt(np.take(root, pairs))
        inverse = 1 / np.where(np.abs(rise) < 1e-6, np.float32(1e-6), rise)
        inverse = np.take(inverse, points)
        height = np.take(self.blockers.height, objects)
        middle = (height - np.take(self.height, points)) * inverse
        half = height * np.abs(inverse)
        a = 1 / np.maximum(a, 1e-12)  # a way straight up has no length in the plane
        enter = np.maximum(np.maximum((-b - root) * a, middle - half), 0)
        return pairs, enter, np.minimum((root - b) * a, middle + half)


def dot(one: Numbers, other: Numbers) -> Numbers:
    """The inner products of vectors (3, P)."""
    product = one * other
    return product[0] + product[1] + product[2]
