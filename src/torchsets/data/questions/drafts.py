"""Draft a question of a family about a scene: what it names, and its answer, by bit masks."""

from collections.abc import Callable
from typing import NamedTuple

from torchsets.data.questions.chains import (
    LENGTHS,
    TRIES,
    begin_set,
    chain_to,
    describe_counted,
    describe_sought,
    draw_set,
)
from torchsets.data.questions.families import Family
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
    sides_of,
)
from torchsets.data.scenes import ATTRIBUTES, VALUES

_BARE = 8  # one in so many counts has no description: "how many things are left of ..."
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "equal_integer": int.__eq__,
    "less_than": int.__lt__,
    "greater_than": int.__gt__,
}


class Draft(NamedTuple):
    """What a question says.

    Attributes:
        answer: By the bit masks.
        chains: The objects or sets that it names, one or two.
        last: What describes the objects that are left at the end; none for some groups.
    """

    answer: str
    chains: tuple[Chain, ...]
    last: Description = ANYTHING


def draft_question(
    family: Family, scene: MaskedScene, random: Random, wanted: bool
) -> Draft | None:
    """Try to make a question; None if the scene, or the choices made at random, allow none.

    ``wanted`` is the answer to look for, in families with the answers yes and no.
    """
    if scene.size == 0:
        return None
    return _GROUPS.get(family.group, _draft_hops)(family, scene, random, wanted)


def _draft_hops(family: Family, scene: MaskedScene, random: Random, wanted: bool) -> Draft | None:
    (hops,) = family.hops
    if family.kind == "query":
        target = pick(random, scene.size)
        chain = chain_to(scene, random, target, hops, _bit(family.attribute))
        if chain is None:
            return None
        return Draft(_value(scene, target, family.attribute), (chain,))
    begin, side, within, others = begin_set(scene, random, hops)
    if begin is None:
        return None
    if family.kind == "exist":
        description = describe_sought(scene, random, within, others, wanted)
    elif hops and pick(random, _BARE) == 0:
        description = ANYTHING
    else:
        description = describe_counted(scene, random, within, others)
    if description is None:
        return None
    answer = _answer(family.kind, scene.filter(description, within))
    return Draft(answer, ((*begin, Link(side, description)),))


def _draft_same(family: Family, scene: MaskedScene, random: Random, wanted: bool) -> Draft | None:
    forbidden = _bit(family.same)
    place = pick(random, scene.size)
    reference = describe(scene, random, place, scene.everything, forbidden=forbidden)
    within = scene.same(place, forbidden.bit_length() - 1)
    if reference is None:
        return None
    chains = ((Link(None, reference),),)
    if family.kind == "query":
        if not within:
            return None
        target = pick_from(random, within)
        forbidden |= _bit(family.attribute)
        last = describe(scene, random, target, within, forbidden=forbidden)
        return last and Draft(_value(scene, target, family.attribute), chains, last)
    others = scene.everything & ~(1 << place)
    if not family.filtered:
        last = ANYTHING
    elif family.kind == "exist":
        last = describe_sought(scene, random, within, others, wanted, forbidden=forbidden)
    else:
        # Few objects share a value: described by more than one attribute, hardly any are left.
        last = describe_counted(scene, random, within, others, lengths=(1,), forbidden=forbidden)
    if last is None:
        return None
    return Draft(_answer(family.kind, scene.filter(last, within)), chains, last)


def _draft_comparison(
    family: Family, scene: MaskedScene, random: Random, wanted: bool
) -> Draft | None:
    attribute = ATTRIBUTES.index(family.attribute or "")
    for _ in range(TRIES):
        one = pick(random, scene.size)
        equal = scene.same(one, attribute)
        others = equal if wanted else scene.everything & ~(1 << one) & ~equal
        if not others:
            continue
        chains = []
        for target, hops in zip((one, pick_from(random, others)), family.hops, strict=True):
            chain = chain_to(scene, random, target, hops, 1 << attribute)
            if chain:
                chains.append(chain)
        if len(chains) == 2:
            return Draft("yes" if wanted else "no", (chains[0], chains[1]))
    return None


def _draft_integers(
    family: Family, scene: MaskedScene, random: Random, wanted: bool
) -> Draft | None:
    for _ in range(2 * TRIES):
        # Both sides name the same attributes: "fewer small red cubes than things" needs no look.
        which = pick_attributes(random, LENGTHS[pick(random, len(LENGTHS))])
        sides = [draw_set(scene, random, hops, which) for hops in family.hops]
        one, other = sides
        if one is None or other is None or one[0] == other[0]:
            continue
        found = _COMPARE[family.kind](one[1].bit_count(), other[1].bit_count())
        if found == wanted:
            return Draft("yes" if found else "no", (one[0], other[0]))
    return None


def _draft_and(family: Family, scene: MaskedScene, random: Random, wanted: bool) -> Draft | None:
    if scene.size < 3:
        return None
    target = pick(random, scene.size)
    chains, masks = [], []
    one = pick_from(random, scene.everything & ~(1 << target))
    other = pick_from(random, scene.everything & ~(1 << target | 1 << one))
    for place in (one, other):
        begin = describe(scene, random, place, scene.everything)
        if begin is None:
            return None
        sides = sides_of(scene, place, target)
        side = sides[pick(random, len(sides))]
        chains.append((Link(None, begin), Link(side, ANYTHING)))
        masks.append(scene.relations[place][side])
    within = masks[0] & masks[1]
    if family.kind == "query":
        last = describe(scene, random, target, within, forbidden=_bit(family.attribute))
    elif pick(random, _BARE) == 0:
        last = ANYTHING
    else:
        last = describe_counted(scene, random, within, scene.everything)
    if last is None:
        return None
    found = scene.filter(last, within)
    if any(scene.filter(last, mask) == found for mask in masks) and random() >= SUPERFLUOUS:
        return None
    query = family.kind == "query"
    answer = _value(scene, target, family.attribute) if query else _answer("count", found)
    return Draft(answer, (chains[0], chains[1]), last)


def _draft_or(family: Family, scene: MaskedScene, random: Random, wanted: bool) -> Draft | None:
    lengths = [LENGTHS[pick(random, len(LENGTHS))] for _ in family.hops]
    named = 0
    if family.filtered:
        named = pick_attributes(random, 1)
    sides = [
        draw_set(scene, random, hops, pick_attributes(random, length, forbidden=named))
        for hops, length in zip(family.hops, lengths, strict=True)
    ]
    one, other = sides
    if one is None or other is None or one[0] == other[0]:
        return None
    within = one[1] | other[1]
    last = scene.named(pick(random, scene.size), named)
    return Draft(_answer("count", scene.filter(last, within)), (one[0], other[0]), last)


_GROUPS = {
    "same-relate": _draft_same,
    "comparison": _draft_comparison,
    "compare-integer": _draft_integers,
    "single-and": _draft_and,
    "single-or": _draft_or,
}


def _bit(attribute: str | None) -> int:
    return 0 if attribute is None else 1 << ATTRIBUTES.index(attribute)


def _value(scene: MaskedScene, place: int, attribute: str | None) -> str:
    at = ATTRIBUTES.index(attribute or "")
    return VALUES[ATTRIBUTES[at]][scene.attributes[place][at]]


def _answer(kind: str, mask: int) -> str:
    if kind == "count":
        return str(mask.bit_count())
    return "yes" if mask else "no"
