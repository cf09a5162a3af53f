"""A scene as bit masks: a set of objects is an integer, and each step of a question one operation.

Filters are ands, relations look-ups, counts the number of ones; so that thousands of questions a
second can be tried out in plain Python.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torchsets.data.scenes import ATTRIBUTES, VALUES, SceneObjects

Random = Callable[[], float]
"""Gives the next number from 0 to 1."""
Description = tuple[int, int, int, int]
"""The colour, material, shape and size that are named, as places; -1 where nothing is."""
ANYTHING: Description = (-1, -1, -1, -1)
SUPERFLUOUS = 0.05
"""How often a relation is kept that changes nothing, where no other was found."""
_TRIES = 6  # descriptions of one object
_COUNTS = [len(values) for values in VALUES.values()]
_NAMED = len(ATTRIBUTES)


class Link(NamedTuple):
    """An object or set in relation to the one before: "the red cubes (description) left of ..".

    Attributes:
        side: Place in ``RELATIONS``; None at the begin of a chain.
        description: What is said about the objects.
    """

    side: int | None
    description: Description


Chain = tuple[Link, ...]
"""Objects from the first that is found to the last; all but the last are single objects."""


class MaskedScene:
    """The masks of one scene.

    Attributes:
        size: Number of objects.
        everything: The set of all objects.
        attributes: Colour, material, shape and size of each.
        relations: For each object the sets left, right, in front and behind of it.
        having: For each attribute and value the set of objects that have it.
    """

    def __init__(self, objects: SceneObjects) -> None:
        self.attributes, self.relations = objects
        self.size = len(self.attributes)
        self.everything = (1 << self.size) - 1
        self.having = [[0] * count for count in _COUNTS]
        for place, values in enumerate(self.attributes):
            for masks, value in zip(self.having, values, strict=True):
                masks[value] |= 1 << place

    def filter(self, description: Description, within: int) -> int:
        """The objects of a set that a description fits."""
        for masks, value in zip(self.having, description, strict=True):
            if value >= 0:
                within &= masks[value]
        return within

    def same(self, place: int, attribute: int) -> int:
        """The other objects with the same value of an attribute."""
        return self.having[attribute][self.attributes[place][attribute]] & ~(1 << place)

    def named(self, place: int, which: int) -> Description:
        """An object by some of its attributes, given as bits."""
        return tuple(  # type: ignore[return-value]  # four of them
            value if which >> at & 1 else -1 for at, value in enumerate(self.attributes[place])
        )


def pick(random: Random, count: int) -> int:
    """A number below ``count``."""
    return int(random() * count)


def pick_from(random: Random, mask: int) -> int:
    """An object of a set that is not empty."""
    chosen = pick(random, mask.bit_count())
    while chosen:
        mask &= mask - 1
        chosen -= 1
    return (mask & -mask).bit_length() - 1


def pick_attributes(random: Random, count: int, *, forbidden: int = 0) -> int:
    """Some attributes as bits, at most ``count``, none of the forbidden ones."""
    free = [at for at in range(_NAMED) if not forbidden >> at & 1]
    chosen = 0
    for _ in range(min(count, len(free))):
        chosen |= 1 << free.pop(pick(random, len(free)))
    return chosen


def describe(
    scene: MaskedScene, random: Random, place: int, within: int, *, forbidden: int = 0
) -> Description | None:
    """A random description that fits one object only, among those of a set; None: none found.

    It should need the set: one that fits no other object of the scene either, which makes what
    led to the set superfluous, is seldom taken.
    """
    wanted, spare = 1 << place, None
    for _ in range(_TRIES):
        description = scene.named(place, pick(random, 1 << _NAMED) & ~forbidden)
        if scene.filter(description, within) == wanted:
            if within == scene.everything or (
                scene.filter(description, scene.everything) != wanted
            ):
                return description
            spare = description
    return spare if random() < SUPERFLUOUS else None


def random_description(random: Random, which: int) -> Description:
    """Random values of the attributes given as bits."""
    return tuple(  # type: ignore[return-value]  # four of them
        pick(random, count) if which >> at & 1 else -1 for at, count in enumerate(_COUNTS)
    )


def sides_of(scene: MaskedScene, place: int, target: int) -> Sequence[int]:
    """On which sides of an object another one lies."""
    return [side for side, mask in enumerate(scene.relations[place]) if mask >> target & 1]
