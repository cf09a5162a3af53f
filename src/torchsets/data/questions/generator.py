"""Generate questions about scenes: valid, balanced, and the same on any number of processes."""

import random
from collections.abc import Iterator, Sequence
from itertools import groupby

from torchsets.data.questions.columns import Question
from torchsets.data.questions.drafts import Draft, draft_question
from torchsets.data.questions.families import FAMILIES
from torchsets.data.questions.masks import MaskedScene, Random
from torchsets.data.questions.wording import draft_program, draft_sentence
from torchsets.data.scenes import Scenes, scene_objects

CHUNK = 250
"""Scenes after which the balance of answers and families begins anew, as in CLEVR."""
_TRIES = 8  # drafts of one family for a scene
_CANDIDATES = 3  # counts to choose from
_SECOND, _MEDIAN, _SHARE, _LEAST = 1.1, 5.0, 0.4, 5


def generate_questions(
    scenes: Scenes,
    *,
    per_scene: int = 10,
    families: Sequence[int] | None = None,
    seed: int = 0,
) -> Iterator[Question]:
    """Ask questions about scenes, at most one of a family about each.

    Every object that a question names by "the" is the only one of its description; what is asked
    for is not named; the two sides of a comparison differ; at most one relation in ten could be
    left out. Answers are balanced within each family: one is refused while there are more than 1.1
    times as many of it as of the second most frequent, or 5 times the median, as in CLEVR; and,
    where more than two are possible, while it has 40 % of the family.

    Families take turns, and with the balance they begin anew at each scene whose number is a
    multiple of 250. Random numbers belong to a scene, not to a run. So what is asked about a scene
    depends on the seed and on the scenes before it down to that multiple: pieces that begin there
    give the same questions as the whole, in any order and in any process.

    Args:
        scenes: What the questions are about, in the order of their numbers.
        per_scene: Questions about each; a scene of few objects may get fewer.
        families: Places in ``FAMILIES`` to choose from. None: all 90.
        seed: Of all random numbers.

    Yields:
        Questions, scene by scene.

    Raises:
        ValueError: If there are too few families for ``per_scene``, or one is unknown.

    Example:
        >>> from torchsets.data import sample_scenes
        >>> questions = list(generate_questions(sample_scenes(3), per_scene=2))
        >>> [question.scene for question in questions]
        [0, 0, 1, 1, 2, 2]
    """
    chosen = list(range(len(FAMILIES)) if families is None else families)
    if any(not 0 <= family < len(FAMILIES) for family in chosen):
        raise ValueError(f"families must be below {len(FAMILIES)}, got {chosen}")
    if not 1 <= per_scene <= len(set(chosen)):
        raise ValueError(
            f"per_scene must be from 1 to the number of families, {len(set(chosen))}, "
            f"got {per_scene}"
        )
    return _generate(scenes, per_scene, sorted(set(chosen)), seed)


def _generate(scenes: Scenes, per_scene: int, families: list[int], seed: int) -> Iterator[Question]:
    numbers = scenes.numbers.tolist()
    for _, places in groupby(range(len(scenes)), lambda place: numbers[place] // CHUNK):
        chunk = scenes[list(places)]
        balance = _Balance(families)
        for number, objects in zip(chunk.numbers.tolist(), scene_objects(chunk), strict=True):
            yield from _ask(number, MaskedScene(objects), balance, per_scene, seed)


def _ask(
    number: int, scene: MaskedScene, balance: "_Balance", per_scene: int, seed: int
) -> Iterator[Question]:
    draw = random.Random(f"{seed} {number}").random  # only this method: the same in any Python
    made = 0
    for place in balance.order(draw):
        family = FAMILIES[place]
        draft = _best_draft(place, scene, draw, balance)
        if draft is not None:
            balance.add(place, draft.answer)
            text = draft_sentence(family, draft, draw)
            yield Question(text, draft.answer, number, place, draft_program(family, draft))
            made += 1
        if made == per_scene:
            break


def _best_draft(place: int, scene: MaskedScene, draw: Random, balance: "_Balance") -> Draft | None:
    """A draft that the balance allows; of several counts the one that is rarest so far."""
    family = FAMILIES[place]
    wanted = _CANDIDATES if family.kind == "count" else 1
    best, least, found = None, 0, 0
    for _ in range(_TRIES * wanted):
        draft = draft_question(family, scene, draw, balance.wanted(place, draw))
        if draft is None or not balance.allows(place, draft.answer):
            continue
        count = balance.count(place, draft.answer)
        if best is None or count < least:
            best, least = draft, count
        found += 1
        if found == wanted:
            break
    return best


class _Balance:
    """How often families and their answers were used so far."""

    def __init__(self, families: list[int]) -> None:
        self._answers = {place: dict.fromkeys(FAMILIES[place].answers, 0) for place in families}
        self._used = dict.fromkeys(families, 0)

    def order(self, draw: Random) -> list[int]:
        """Families by use, the least used first."""
        keys = {place: (used, draw()) for place, used in self._used.items()}
        return sorted(keys, key=keys.__getitem__)

    def wanted(self, place: int, draw: Random) -> bool:
        """Whether yes is the answer to look for: the rarer one; a coin decides between equals."""
        counts = self._answers[place]
        difference = counts.get("yes", 0) - counts.get("no", 0)
        return draw() < 0.5 if difference == 0 else difference < 0

    def count(self, place: int, answer: str) -> int:
        """How often a family had an answer."""
        return self._answers[place][answer]

    def allows(self, place: int, answer: str) -> bool:
        """Whether one more of an answer keeps the balance."""
        counts = sorted(self._answers[place].values())
        own = self._answers[place][answer]
        # With few questions the median is 0: it counts as a handful.
        median = max(counts[len(counts) // 2], _LEAST)
        allowed = own <= _SECOND * counts[-2] and own <= _MEDIAN * median
        if len(counts) > 2:
            allowed = allowed and own < max(_LEAST, _SHARE * (self._used[place] + 1))
        return allowed

    def add(self, place: int, answer: str) -> None:
        """Count a question."""
        self._used[place] += 1
        self._answers[place][answer] += 1
