"""Name objects and sets of a scene at random, by chains of relations."""

from collections.abc import Sequence

from torchsets.data.questions.masks import (
    ANYTHING,
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
) -> tuple[Chain | None, int, int | None]:
    """What leads to a set by some relations: the chain before it, the set, the last side."""
    if hops == 0:
        return (), scene.everything, None
    place, side = pick(random, scene.size), pick(random, len(RELATIONS))
    chain = chain_to(scene, random, place, hops - 1)
    return chain, scene.relations[place][side], side


def draw_set(scene: MaskedScene, random: Random, hops: int, which: int) -> tuple[Chain, int] | None:
    """A set by some relations and then the given attributes, of an object's values."""
    begin, within, side = begin_set(scene, random, hops)
    if begin is None:
        return None
    description = scene.named(pick(random, scene.size), which)
    if is_superfluous(scene, random, description, within):
        return None
    return (*begin, Link(side, description)), scene.filter(description, within)


def describe_set(
    scene: MaskedScene,
    random: Random,
    within: int,
    kind: str,
    wanted: bool,
    *,
    others: int | None = None,
    forbidden: int = 0,
    bare: bool = False,
    lengths: Sequence[int] = LENGTHS,
) -> Description | None:
    """Describe what is counted, or looked for.

    Of as many attributes whatever the answer, or the question alone would tell it: for "exist"
    both a description that fits and one that does not must be possible with the same attributes.
    """
    if bare and kind == "count" and pick(random, 8) == 0:
        return ANYTHING
    which = pick_attributes(random, lengths[pick(random, len(lengths))], forbidden=forbidden)
    outside = (scene.everything if others is None else others) & ~within
    missing = None
    for _ in range(TRIES):  # most often of an object that is there, but elsewhere
        candidate = (
            scene.named(pick_from(random, outside), which)
            if outside
            else random_description(random, which)
        )
        if not scene.filter(candidate, within):
            missing = candidate
            break
    fitting = scene.named(pick_from(random, within), which) if within else None
    if kind == "exist":
        return None if missing is None or fitting is None else (fitting if wanted else missing)
    return missing if fitting is None or pick(random, 4) == 0 else fitting


def is_superfluous(
    scene: MaskedScene, random: Random, description: Description, within: int
) -> bool:
    """Whether the objects are the same without the relation; now and then that is let pass."""
    if within == scene.everything:
        return False
    same = scene.filter(description, scene.everything) == scene.filter(description, within)
    return same and random() >= SUPERFLUOUS
