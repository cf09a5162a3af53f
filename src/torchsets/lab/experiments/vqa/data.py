"""Questions with the proposals of their pictures, ready for training."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from torchsets.data.vqa import (
    FeatureStore,
    SyntheticVQA,
    VQAAnswers,
    VQAQuestions,
    answer_classes,
    answer_counts,
    ban_answers,
    ban_question_words,
    encode_questions,
    frequent_answers,
    frequent_words,
    normalise_answer,
    pair_places,
    question_words,
    synthetic_vqa,
    vqa_pairs,
    vqa_pictures,
    vqa_questions,
)
from torchsets.lab.experiments.vqa.configs import QUESTION_ONLY, CountVQA, OrderVQA
from torchsets.lab.experiments.vqa.models import VQABatch
from torchsets.sets import Sets
from torchsets.text import Vocabulary

_PUBLISHED = 443_757  # training questions of VQA v2
_WITH_VALIDATION = _PUBLISHED + 214_354
SEEDS = {"train": 0, "val": 1, "test": 2}
"""Of synthetic questions."""
_BAN_WORDS = 14


class Target(NamedTuple):
    """Questions, and how many people gave each answer, (B, A)."""

    asked: VQABatch
    counts: Tensor


@dataclass(frozen=True)
class Asked:
    """Questions, and the pictures that they are about.

    Attributes:
        questions: All of them.
        tokens: Their words, (Q, T), long.
        lengths: (Q,), long.
        given: The classes of the ten answers, -1 for others, (Q, 10), long.
        size: Number of classes.
        pairs: The places of balanced pairs, (P, 2), long. None: their file is not there.
        pictures: Their proposals. None: the question alone is asked.
        scaled: Whether boxes run from 0 to 1 instead of in pixels.
    """

    questions: VQAQuestions
    tokens: Tensor
    lengths: Tensor
    given: Tensor
    size: int
    pairs: Tensor | None
    pictures: FeatureStore | None
    scaled: bool

    def batch(self, index: Tensor) -> Target:
        """Some questions, their proposals and their answers."""
        lengths, count = self.lengths[index], len(index)
        tokens = self.tokens[index, : max(1, int(lengths.max()))]
        if self.pictures is None:
            nothing = (torch.zeros(count, 0, 1), torch.zeros(count, 0, 4))
            asked = VQABatch(tokens, lengths, *nothing, torch.zeros(count, 0, dtype=torch.bool))
        else:
            seen = self.pictures.batch(self.questions.image_ids[index])
            boxes = seen.scaled_boxes if self.scaled else seen.boxes
            asked = VQABatch(tokens, lengths, seen.features.float(), boxes, seen.mask)
        return Target(asked, answer_counts(self.given[index], self.size))

    def answerable(self) -> Tensor:
        """The places of questions with at least one answer among the classes."""
        return (self.given >= 0).any(dim=1).nonzero().squeeze(1)

    def digest(self) -> str:
        """A short fingerprint of questions, answers and the number of proposals."""
        digest = hashlib.sha256("\n".join(self.questions.texts).encode())
        sizes = () if self.pictures is None else (self.pictures.features.sizes,)
        for part in (self.questions.image_ids, self.given, *sizes):
            digest.update(part.contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


class Data(NamedTuple):
    """What to train on and to measure on.

    Attributes:
        training: The questions to train on.
        validation: Questions to measure on. None: they are trained on.
        test: Other ones; the answers to those of VQA are not public. None: not loaded.
        words: All words.
        classes: All answers.
        scenes: What is behind the validation questions, if they are synthetic.
    """

    training: Asked
    validation: Asked | None
    test: Asked | None
    words: Vocabulary
    classes: tuple[str, ...]
    scenes: SyntheticVQA | None

    @property
    def part(self) -> str:
        """What a row adds to its name if the files hold a part of VQA v2."""
        count, measured = len(self.training.questions), self.measured
        if self.scenes is not None or count in (_PUBLISHED, _WITH_VALIDATION):
            return ""
        others = "" if measured is None else f" and {len(measured.questions)}"
        return f", part of VQA v2: {count}{others} questions"

    @property
    def measured(self) -> Asked | None:
        """Questions whose answers are known and that were not trained on."""
        return self.test if self.validation is None and self.scenes is not None else self.validation


class _Part(NamedTuple):
    questions: VQAQuestions
    pairs: Tensor | None
    pictures: FeatureStore | None


def load_data(config: CountVQA | OrderVQA) -> Data:
    """Load VQA's questions and proposals, or generate some."""
    count = isinstance(config, CountVQA)
    needed = not (count and set(config.models) <= {QUESTION_ONLY})
    both = isinstance(config, CountVQA) and config.parts == "train+val"
    scenes = None
    if config.dataset == "synthetic":
        drawn = {name: _draw(config, name) for name in SEEDS}
        parts = {name: _Part(one.questions, one.pairs, one.pictures) for name, one in drawn.items()}
        scenes = drawn["test" if both else "val"]
    else:
        names = ("train", "val", "test") if both else ("train", "val")
        parts = {name: _load(name, pictures=needed) for name in names}
    if both:
        parts["train"] = _join(parts["train"], parts.pop("val"))
    if isinstance(config, CountVQA):
        return _count_data(config, parts, scenes)
    return _order_data(parts, scenes)


def _count_data(config: CountVQA, parts: dict[str, _Part], scenes: SyntheticVQA | None) -> Data:
    training = parts["train"].questions
    words = frequent_words(map(question_words, training.texts))
    classes = frequent_answers(known_answers(training), size=config.answers)
    asked = {
        name: _encode(
            part,
            [question_words(text) for text in part.questions.texts],
            words,
            classes,
            normalise=normalise_answer,
        )
        for name, part in parts.items()
    }
    return Data(asked["train"], asked.get("val"), asked.get("test"), words, classes, scenes)


def _order_data(parts: dict[str, _Part], scenes: SyntheticVQA | None) -> Data:
    split = {
        name: [ban_question_words(text) for text in part.questions.texts]
        for name, part in parts.items()
    }
    words = Vocabulary(dict.fromkeys(word for part in split.values() for q in part for word in q))
    classes = ban_answers(known_answers(parts[name].questions) for name in ("train", "val"))
    encode = partial(_encode, words=words, classes=classes, longest=_BAN_WORDS, scaled=True)
    asked = {name: encode(part, split[name]) for name, part in parts.items()}
    return Data(asked["train"], asked["val"], asked.get("test"), words, classes, scenes)


def _encode(
    part: _Part,
    split: Sequence[Sequence[str]],
    words: Vocabulary,
    classes: tuple[str, ...],
    *,
    normalise: Callable[[str], str] | None = None,
    longest: int | None = None,
    scaled: bool = False,
) -> Asked:
    tokens, lengths = encode_questions(split, words, longest=longest)
    given = torch.full((len(tokens), 1), -1)
    if part.questions.answers is not None:
        given = answer_classes(part.questions.answers, classes, normalise=normalise)
    pairs = part.pairs
    if pairs is not None:
        pairs = pair_places(pairs, part.questions.question_ids).places
    return Asked(part.questions, tokens, lengths, given, len(classes), pairs, part.pictures, scaled)


def _draw(config: CountVQA | OrderVQA, name: str) -> SyntheticVQA:
    pairs = config.pairs if name == "train" else config.test_pairs
    return synthetic_vqa(pairs, seed=SEEDS[name], noise=config.noise)


def _load(name: str, *, pictures: bool) -> _Part:
    questions = vqa_questions(name)
    pairs = None
    if name != "test":
        try:
            pairs = vqa_pairs(name)
        except FileNotFoundError:
            pairs = None  # balanced pairs are not measured then
    return _Part(questions, pairs, vqa_pictures(name) if pictures else None)


def _join(first: _Part, second: _Part) -> _Part:
    one, two = first.questions, second.questions
    given, more = known_answers(one), known_answers(two)
    numbers = {string: number for number, string in enumerate(given.strings)}
    for string in more.strings:
        numbers.setdefault(string, len(numbers))
    table = torch.tensor([numbers[string] for string in more.strings])
    answers = VQAAnswers(
        tuple(numbers),
        torch.cat([given.given, table[more.given]]),
        torch.cat([given.chosen, table[more.chosen]]),
        torch.cat([given.types, more.types]),
    )
    questions = VQAQuestions(
        one.texts + two.texts,
        torch.cat([one.question_ids, two.question_ids]),
        torch.cat([one.image_ids, two.image_ids]),
        answers,
    )
    return _add_pictures(_Part(questions, None, first.pictures), second.pictures)


def _add_pictures(part: _Part, more: FeatureStore | None) -> _Part:
    """Add pictures to a part, if they are not there already: VQA's are in one store."""
    known = part.pictures
    if known is None or more is None or torch.equal(known.ids, more.ids):
        return part
    features, boxes = (
        Sets(torch.cat([one.values, two.values]), torch.cat([one.sizes, two.sizes]))
        for one, two in ((known.features, more.features), (known.boxes, more.boxes))
    )
    ids, shapes = torch.cat([known.ids, more.ids]), torch.cat([known.shapes, more.shapes])
    return part._replace(pictures=FeatureStore(ids, shapes, features, boxes))


def known_answers(questions: VQAQuestions) -> VQAAnswers:
    """The answers of questions that have some."""
    if questions.answers is None:
        raise ValueError("questions must have answers, got none")
    return questions.answers
