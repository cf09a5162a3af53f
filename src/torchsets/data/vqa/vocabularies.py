"""Words and answers of VQA as numbers."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from torchsets.data.vqa.files import VQAAnswers
from torchsets.data.vqa.rules import ban_normalise_answer, normalise_answer
from torchsets.text import Vocabulary


def frequent_words(questions: Iterable[Sequence[str]]) -> Vocabulary:
    """All words of questions, the most frequent first; of equally frequent ones the last in order.

    Example:
        >>> frequent_words([["is", "it", "red"], ["is", "it"], ["is"]]).words
        ('is', 'it', 'red')
    """
    return Vocabulary(_descending(Counter(word for words in questions for word in words)))


def encode_questions(
    questions: Sequence[Sequence[str]],
    vocabulary: Vocabulary,
    *,
    unknown: int = 0,
    longest: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The words of questions as numbers from 1.

    Args:
        questions: The words of each.
        vocabulary: Numbers them.
        unknown: The number of words that are not in the vocabulary: 0 for the soft attention
            model, that of the last word for BAN.
        longest: Keep so many words of each question. None: all.

    Returns:
        Tokens (Q, T), long, zeros behind, and lengths (Q,), long.

    Example:
        >>> encode_questions([["is", "it"], ["what"]], Vocabulary(["it", "is"]))
        (tensor([[2, 1],
                [0, 0]]), tensor([2, 1]))
    """
    numbers = vocabulary.numbers
    rows = [[numbers.get(word, unknown) for word in words[:longest]] for words in questions]
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    size = max(map(len, rows), default=0)
    padded = [row + [0] * (size - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.long).view(len(rows), size), lengths


def frequent_answers(answers: VQAAnswers, *, size: int = 3000) -> tuple[str, ...]:
    """The most frequent answers, normalised, of all that people gave: soft attention's classes.

    Of equally frequent answers at the end those that occur first are kept. The result is sorted by
    frequency and string, both descending.
    """
    counts: Counter[str] = Counter()
    # Strings are numbered in order of appearance among given and chosen answers, so the order of
    # first occurrence among the given ones has to be found again.
    numbers, first = _first_places(answers.given)
    frequency = torch.bincount(answers.given.flatten(), minlength=len(answers.strings)).tolist()
    for number in numbers[first.argsort()].tolist():
        counts[normalise_answer(answers.strings[number])] += frequency[number]
    return _descending(dict(counts.most_common(size)))


def ban_answers(parts: Iterable[VQAAnswers], *, at_least: int = 9) -> tuple[str, ...]:
    """The normalised answers chosen for ``at_least`` questions, as they first occur: BAN's classes.

    Args:
        parts: The answers of the training and of the validation questions.
        at_least: Number of questions.
    """
    counts: Counter[str] = Counter()
    for answers in parts:
        numbers, first = _first_places(answers.chosen)
        frequency = torch.bincount(answers.chosen, minlength=len(answers.strings)).tolist()
        for number in numbers[first.argsort()].tolist():
            counts[ban_normalise_answer(answers.strings[number])] += frequency[number]
    return tuple(answer for answer, count in counts.items() if count >= at_least)


def answer_classes(
    answers: VQAAnswers,
    classes: Sequence[str],
    *,
    normalise: Callable[[str], str] | None = normalise_answer,
) -> Tensor:
    """The class of each of the ten answers, (Q, 10), long; -1 for one outside the classes.

    Args:
        answers: What people gave.
        classes: Such as from :func:`frequent_answers`.
        normalise: Applied to the answers first. None: compare them as published, as BAN does.
    """
    numbers = {answer: number for number, answer in enumerate(classes)}
    strings = answers.strings if normalise is None else map(normalise, answers.strings)
    table = torch.tensor([numbers.get(one, -1) for one in strings], dtype=torch.long)
    return table[answers.given]


def answer_counts(given: Tensor, size: int) -> Tensor:
    """How many people gave each answer: (B, 10) of :func:`answer_classes` -> (B, size), float.

    Example:
        >>> answer_counts(torch.tensor([[0, 2, 2, -1]]), 3)
        tensor([[1., 0., 2.]])
    """
    counts = torch.zeros(*given.shape[:-1], size + 1, device=given.device)
    inside = given.where(given >= 0, size)
    return counts.scatter_add_(-1, inside, torch.ones_like(inside, dtype=counts.dtype))[..., :size]


def _descending(counts: dict[str, int]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda one: (counts[one], one), reverse=True))


def _first_places(values: Tensor) -> tuple[Tensor, Tensor]:
    """The different values, and where each of them occurs first."""
    flat = values.flatten()
    numbers, inverse = torch.unique(flat, return_inverse=True)
    first = torch.full_like(numbers, len(flat))
    places = torch.arange(len(flat), device=flat.device)
    return numbers, first.scatter_reduce_(0, inverse, places, "amin")
