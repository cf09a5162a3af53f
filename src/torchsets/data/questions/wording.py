"""A draft as a program in CLEVR's form, and as a sentence in our own words."""

from torchsets.data.questions.drafts import Draft
from torchsets.data.questions.families import Family
from torchsets.data.questions.masks import Chain, Description, Random, pick
from torchsets.data.questions.programs import Program, Step
from torchsets.data.scenes import ATTRIBUTES, RELATIONS, VALUES

# {S} {T}: sets in the plural; {s}: one of a set; {R} {Q}: single objects; {x} {y}: where;
# {a}: the attribute asked for; {e}: the one that is shared; {L} {l}: what is left at the end.
_COUNT = (
    "how many {S} are there",
    "what is the number of {S}",
    "what number of {S} can be seen",
)
_EXIST = ("is there any {s}", "are there any {S}", "can any {S} be seen")
_QUERY = ("which {a} does {R} have", "what {a} is {R}", "what is the {a} of {R}")
SENTENCES: dict[tuple[str, str], tuple[str, ...]] = {
    **{
        (group, kind): sentences
        for group in ("zero-hop", "one-hop", "two-hop", "three-hop")
        for kind, sentences in (("count", _COUNT), ("exist", _EXIST), ("query", _QUERY))
    },
    ("same-relate", "exist"): (
        "is there any other {l} with the same {e} as {R}",
        "does any other {l} share its {e} with {R}",
    ),
    ("same-relate", "count"): (
        "how many other {L} share their {e} with {R}",
        "how many other {L} have the same {e} as {R}",
        "what is the number of other {L} with the same {e} as {R}",
    ),
    ("same-relate", "query"): (
        "which {a} does the other {l} with the same {e} as {R} have",
        "what is the {a} of the other {l} that shares its {e} with {R}",
    ),
    ("comparison", "equal"): (
        "do {R} and {Q} have the same {a}",
        "does {R} share its {a} with {Q}",
        "is the {a} of {R} the same as that of {Q}",
    ),
    ("compare-integer", "equal_integer"): (
        "are there as many {S} as {T}",
        "is the number of {S} the same as that of {T}",
    ),
    ("compare-integer", "less_than"): (
        "are there fewer {S} than {T}",
        "is the number of {S} below that of {T}",
    ),
    ("compare-integer", "greater_than"): (
        "are there more {S} than {T}",
        "is the number of {S} above that of {T}",
    ),
    ("single-and", "count"): (
        "how many {L} are both {x} and {y}",
        "what is the number of {L} that are {x} and also {y}",
    ),
    ("single-and", "query"): (
        "which {a} does the {l} have that is both {x} and {y}",
        "what is the {a} of the {l} that is {x} and also {y}",
    ),
    ("single-or", "count"): (
        "how many {L} are either {S} or {T}",
        "what is the number of {L} that are {S} or {T}",
    ),
}
"""Sentences for the families, by group and kind."""
_SYNONYMS = {
    "large": ("large", "big"),
    "small": ("small", "little"),
    "metal": ("metal", "shiny"),
    "rubber": ("rubber", "matte"),
}
_NOUNS = {
    "cube": (("cube", "cubes"), ("box", "boxes")),
    "sphere": (("sphere", "spheres"), ("ball", "balls")),
    "cylinder": (("cylinder", "cylinders"),),
    "": (("thing", "things"), ("object", "objects")),
}
_SIDES = {"left": "left of", "right": "right of", "front": "in front of", "behind": "behind"}
_ASKED = {"color": "colour"}
_SPOKEN = ("size", "color", "material")  # the order of adjectives; the shape is the noun


def draft_program(family: Family, draft: Draft) -> Program:
    """The steps of a draft, as CLEVR's programs have them."""
    steps: list[Step] = []
    attribute, single = family.attribute, family.kind == "query"
    ends = []
    for chain in draft.chains:
        end = _add_chain(steps, chain)
        if family.group == "comparison":
            end = _add(steps, Step(f"query_{attribute}", (_add(steps, Step("unique", (end,))),)))
        elif family.group == "compare-integer":
            end = _add(steps, Step("count", (end,)))
        ends.append(end)
    if family.kind == "equal" or family.group == "compare-integer":
        name = f"equal_{attribute}" if family.kind == "equal" else family.kind
        steps.append(Step(name, tuple(ends)))
        return tuple(steps)
    (end, *_) = ends
    if family.same is not None:
        end = _add(steps, Step(f"same_{family.same}", (_add(steps, Step("unique", (end,))),)))
    elif len(ends) == 2:
        joined = "intersect" if family.group == "single-and" else "union"
        end = _add(steps, Step(joined, tuple(ends)))
    end = _add_filters(steps, draft.last, end)
    if single:
        end = _add(steps, Step("unique", (end,)))
    steps.append(Step(f"query_{attribute}" if single else family.kind, (end,)))
    return tuple(steps)


def draft_sentence(family: Family, draft: Draft, random: Random) -> str:
    """A draft in words, chosen at random among sentences and synonyms."""
    sentences = SENTENCES[family.group, family.kind]
    sentence = sentences[pick(random, len(sentences))]
    parts: dict[str, str] = {
        "a": _ASKED.get(family.attribute or "", family.attribute or ""),
        "e": _ASKED.get(family.same or "", family.same or ""),
    }
    for name in _placeholders(sentence):
        if name in "RQ":
            parts[name] = "the " + _phrase(draft.chains[name == "Q"], random)
        elif name in "sST":
            parts[name] = _phrase(draft.chains[name == "T"], random, plural=name != "s")
        elif name in "xy":
            before, last = draft.chains[name == "y"]
            parts[name] = f"{_side(last.side)} the {_noun(before.description, random)}"
        elif name in "lL":
            parts[name] = _noun(draft.last, random, plural=name == "L")
    return sentence.format(**parts) + "?"


def _placeholders(sentence: str) -> list[str]:
    return [sentence[at + 1] for at, letter in enumerate(sentence) if letter == "{"]


def _phrase(chain: Chain, random: Random, *, plural: bool = False) -> str:
    """The last object or set of a chain: "red box left of the ball behind the cylinder"."""
    words = []
    for place, link in enumerate(reversed(chain)):
        words.append(_noun(link.description, random, plural=plural and place == 0))
        if link.side is not None:
            words += [_side(link.side), "the"]
    return " ".join(words)


def _noun(description: Description, random: Random, *, plural: bool = False) -> str:
    values = {
        name: VALUES[name][value]
        for name, value in zip(ATTRIBUTES, description, strict=True)
        if value >= 0
    }
    words = []
    for name in _SPOKEN:
        if name in values:
            choices = _SYNONYMS.get(values[name], (values[name],))
            words.append(choices[pick(random, len(choices))])
    nouns = _NOUNS[values.get("shape", "")]
    words.append(nouns[pick(random, len(nouns))][plural])
    return " ".join(words)


def _side(side: int | None) -> str:
    return _SIDES[RELATIONS[side]] if side is not None else ""


def _add(steps: list[Step], step: Step) -> int:
    steps.append(step)
    return len(steps) - 1


def _add_filters(steps: list[Step], description: Description, end: int) -> int:
    for name in (*_SPOKEN, "shape"):
        value = description[ATTRIBUTES.index(name)]
        if value >= 0:
            end = _add(steps, Step(f"filter_{name}", (end,), VALUES[name][value]))
    return end


def _add_chain(steps: list[Step], chain: Chain) -> int:
    end = _add(steps, Step("scene"))
    for link in chain:
        if link.side is not None:
            end = _add(steps, Step("unique", (end,)))
            end = _add(steps, Step("relate", (end,), RELATIONS[link.side]))
        end = _add_filters(steps, link.description, end)
    return end
