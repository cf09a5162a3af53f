"""Name objects and sets of a scene at random, by chains of relations."""

from collections.abc import Sequence

from torchsets.data.questions.masks import (
    SUPERFLUOUS,
    Chain,
    Description,
    Link,
    MaskedScene,
    Random,
    describe,
    pick,
    pick_attributes,
    pick_from,
    random_description,
    sides_of,
)
from torchsets.data.scenes import RELATIONS

TRIES = 6
"""Candidates for what is wanted."""
LENGTHS = (1, 1, 1, 2, 2, 3)
"""How many attributes describe what is counted or looked for: one of these."""


def chain_to(
    scene: MaskedScene, random: Random, target: int, hops: int, forbidden: int = 0
) -> Chain | None:
    """A chain of relations that leads to an object, built from its end; never twice to one."""
    links: list[Link] = []
    free = scene.everything & ~(1 << target)
    for _ in range(hops):
        found = _link_to(scene, random, target, free, forbidden)
        if found is None:
            return None
        target, link = found
        links.append(link)
        free &= ~(1 << target)
        forbidden = 0
    description = describe(scene, random, target, scene.everything, forbidden=forbidden)
    return None if description is None else (Link(None, description), *reversed(links))


def _link_to(
    scene: MaskedScene, random: Random, target: int, free: int, forbidden: int
) -> tuple[int, Link] | None:
    """One of the free objects, and what leads from it to the target."""
    for _ in range(TRIES if free else 0):
        place = pick_from(random, free)
        sides = sides_of(scene, place, target)
        if sides:
            side = sides[pick(random, len(sides))]
            within = scene.relations[place][side]
            description = describe(scene, random, target, within, forbidden=forbidden)
            if description is not None:
                return place, Link(side, description)
    return None


def begin_set(
    scene: MaskedScene, random: Random, hops: int
) -> tuple[Chain | None, int | None, int, int]:
    """What leads to a set: the chain before it, the last side, the set, and what it is taken of."""
    if hops == 0:
        return (), None, scene.everything, scene.everything
    place, side = pick(random, scene.size), pick(random, len(RELATIONS))
    chain = chain_to(scene, random, place, hops - 1)
    return chain, side, scene.relations[place][side], scene.everything & ~(1 << place)


def draw_set(scene: MaskedScene, random: Random, hops: int, which: int) -> tuple[Chain, int] | None:
    """A set by some relations and then the given attributes, of an object's values."""
    begin, side, within, _ = begin_set(scene, random, hops)
    if begin is None:
        return None
    description = scene.named(pick(random, scene.size), which)
    if is_superfluous(scene, random, description, within):
        return None
    return (*begin, Link(side, description)), scene.filter(description, within)


def describe_sought(
    scene: MaskedScene,
    random: Random,
    within: int,
    others: int,
    wanted: bool,
    *,
    forbidden: int = 0,
) -> Description | None:
    """Describe what is looked for in a set of some objects, where it is or is not.

    With the same attributes both must be possible, or the question alone would tell the answer.
    """
    which = pick_attributes(random, LENGTHS[pick(random, len(LENGTHS))], forbidden=forbidden)
    found = [_find(scene, random, within, others, which, fits) for fits in (False, True)]
    return None if None in found else found[wanted]


def describe_counted(
    scene: MaskedScene,
    random: Random,
    within: int,
    others: int,
    *,
    lengths: Sequence[int] = LENGTHS,
    forbidden: int = 0,
) -> Description | None:
    """Describe what is counted in a set of some objects; one in four times nothing is found."""
    which = pick_attributes(random, lengths[pick(random, len(lengths))], forbidden=forbidden)
    fits = within != 0 and pick(random, 4) > 0
    return _find(scene, random, within, others, which, fits)


def _find(
    scene: MaskedScene, random: Random, within: int, others: int, which: int, fits: bool
) -> Description | None:
    """A description that fits some, or none, of a set, and most often others outside of it."""
    pool = within if fits else others & ~within
    for _ in range(TRIES):
        if pool:
            description = scene.named(pick_from(random, pool), which)
        else:
            description = random_description(random, which)
        if bool(scene.filter(description, within)) == fits and not is_superfluous(
            scene, random, description, within
        ):
            return description
    return None


def is_superfluous(
    scene: MaskedScene, random: Random, description: Description, within: int
) -> bool:
    """Whether the objects are the same without the relation; now and then that is let pass."""
    if within == scene.everything:
        return False
    same = scene.filter(description, scene.everything) == scene.filter(description, within)
    return same and random() >= SUPERFLUOUS
