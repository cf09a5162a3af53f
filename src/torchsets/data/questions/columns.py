"""Many questions in a few flat arrays."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torchsets._inputs import Array, to_index
from torchsets.data.questions.programs import (
    ANSWERS,
    FUNCTIONS,
    TYPES,
    Program,
    Step,
    question_type,
)
from torchsets.data.scenes import RELATIONS, VALUES
from torchsets.padded import lengths_to_mask
from torchsets.text import Vocabulary, split_words

COLUMNS = {
    "tokens": "int16",
    "lengths": "int16",
    "answers": "uint8",
    "scenes": "int32",
    "families": "int16",
    "types": "uint8",
    "steps": "uint8",
    "step_counts": "int16",
}
"""The arrays and their dtypes. A step is four numbers: function, two inputs, value."""
NOTHING = 255
"""Stands for no answer, no input, no value."""
_CODES = {"uint8": "B", "int16": "h", "int32": "i"}
_FUNCTIONS = {name: place for place, name in enumerate(FUNCTIONS)}
_NAMES = [value for values in (*VALUES.values(), RELATIONS) for value in values]
_VALUES = {name: place for place, name in enumerate(_NAMES)}
_ANSWERS = {answer: place for place, answer in enumerate(ANSWERS)}


class Question(NamedTuple):
    """One question.

    Attributes:
        text: As it is asked.
        answer: One of the 28 answers; None if it is not known.
        scene: The number of the scene that it is about.
        family: Its number among the families of questions.
        program: Its steps; empty if they are not known.
    """

    text: str
    answer: str | None
    scene: int
    family: int
    program: Program = ()


class QuestionBatch(NamedTuple):
    """Some questions, padded.

    Attributes:
        tokens: The numbers of the words, (B, T), long, zeros behind.
        lengths: The number of words, (B,), long.
        answers: Places in ``ANSWERS``, (B,), long.
        scenes: The number of the scene of each, (B,), long.
        families: The family of each, (B,), long.
    """

    tokens: Tensor
    lengths: Tensor
    answers: Tensor
    scenes: Tensor
    families: Tensor


class Questions:
    """Many questions, stored flat; ``questions.batch(index)`` takes some of them.

    Args:
        columns: The arrays of :data:`COLUMNS`, as tensors; ``steps`` is flat.
        vocabulary: The words that ``tokens`` counts from 1.
        family_names: What the families are called; empty where their numbers are CLEVR's or ours.

    Raises:
        ValueError: If the columns do not fit together.
    """

    def __init__(
        self,
        columns: Mapping[str, Tensor],
        vocabulary: Vocabulary,
        family_names: Sequence[str] = (),
    ) -> None:
        count = len(columns["lengths"])
        total, steps = columns["lengths"].sum(), columns["step_counts"].sum()
        expected = {name: count for name in COLUMNS}
        expected |= {"tokens": int(total), "steps": 4 * int(steps)}
        for name, length in expected.items():
            if columns[name].shape != (length,):
                raise ValueError(
                    f"{name} must have shape ({length},), got {tuple(columns[name].shape)}"
                )
        self.columns, self.vocabulary = dict(columns), vocabulary
        self.family_names = tuple(family_names)
        lengths, step_counts = columns["lengths"].long(), columns["step_counts"].long()
        self._starts = lengths.cumsum(0) - lengths
        self._step_starts = step_counts.cumsum(0) - step_counts

    @classmethod
    def from_list(cls, questions: Iterable[Question]) -> "Questions":
        """Store questions that fit into memory."""
        collector = QuestionCollector()
        for question in questions:
            collector.add(question)
        columns = {name: torch.from_numpy(part) for name, part in collector.take().items()}
        return cls(columns, collector.vocabulary)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> Question:
        place = to_index(index, len(self), of="questions")
        if not isinstance(place, int):
            raise TypeError("index must be an integer; batch takes several")
        start, length = int(self._starts[place]), int(self.columns["lengths"][place])
        tokens = self.columns["tokens"][start : start + length].tolist()
        start, count = 4 * int(self._step_starts[place]), int(self.columns["step_counts"][place])
        rows = self.columns["steps"][start : start + 4 * count].view(-1, 4).tolist()
        answer = int(self.columns["answers"][place])
        return Question(
            self.vocabulary.decode(tokens),
            None if answer == NOTHING else ANSWERS[answer],
            int(self.columns["scenes"][place]),
            int(self.columns["families"][place]),
            tuple(_decode_step(row) for row in rows),
        )

    def batch(self, index: int | slice | Tensor | Array | Sequence[int]) -> QuestionBatch:
        """Take some questions: an int, a slice, integers (B,), or one bool for each question."""
        chosen = to_index(index, len(self), of="questions")
        if isinstance(chosen, int):
            chosen = slice(chosen, chosen + 1)
        lengths = self.columns["lengths"][chosen].long()
        mask = lengths_to_mask(lengths)
        tokens = torch.zeros(mask.shape, dtype=torch.long)
        places = self._starts[chosen].unsqueeze(1) + torch.arange(mask.shape[1])
        tokens[mask] = self.columns["tokens"][places[mask]].long()
        answers, scenes, families = (
            self.columns[name][chosen].long() for name in ("answers", "scenes", "families")
        )
        return QuestionBatch(tokens, lengths, answers, scenes, families)

    def with_vocabulary(self, vocabulary: Vocabulary) -> "Questions":
        """Renumber the words by another vocabulary, such as that of the training questions.

        Raises:
            ValueError: If a word is not in it.
        """
        numbers = [0, *(vocabulary.number(word) for word in self.vocabulary.words)]
        moved = torch.tensor(numbers, dtype=torch.int16)[self.columns["tokens"].long()]
        return Questions(self.columns | {"tokens": moved}, vocabulary, self.family_names)

    def __repr__(self) -> str:
        return f"Questions({len(self)} questions, {len(self.vocabulary)} words)"


class QuestionCollector:
    """Turns questions into columns, a part at a time.

    Attributes:
        count: Questions added so far.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}
        self._words: dict[str, int] = {}
        self.count = 0
        self.take()

    @property
    def vocabulary(self) -> Vocabulary:
        """The words so far, in order of appearance."""
        return Vocabulary(self._words)

    def add(self, question: Question) -> None:
        """Append a question; raise ``ValueError`` if its answer is none of the 28."""
        if question.answer is not None and question.answer not in _ANSWERS:
            raise ValueError(f"answers must be one of the 28 of CLEVR, got {question.answer!r}")
        words, arrays = split_words(question.text), self._arrays
        numbers = self._words
        arrays["tokens"].extend([numbers.setdefault(one, len(numbers) + 1) for one in words])
        arrays["lengths"].append(len(words))
        answer = NOTHING if question.answer is None else _ANSWERS[question.answer]
        arrays["answers"].append(answer)
        arrays["scenes"].append(question.scene)
        arrays["families"].append(question.family)
        program = question.program
        arrays["types"].append(TYPES.index(question_type(program)) if program else NOTHING)
        for step in program:
            first, second, *_ = (*step.inputs, NOTHING, NOTHING)
            value = NOTHING if step.value is None else _VALUES[step.value]
            arrays["steps"].extend((_FUNCTIONS[step.function], first, second, value))
        arrays["step_counts"].append(len(program))
        self.count += 1

    def take(self) -> dict[str, NDArray[Any]]:
        """What was added since the last call, as arrays; the words stay."""
        taken = {name: np.array(part, COLUMNS[name]) for name, part in self._arrays.items()}
        self._arrays = {name: array(_CODES[dtype]) for name, dtype in COLUMNS.items()}
        return taken


def _decode_step(row: list[int]) -> Step:
    function, first, second, value = row
    name = list(FUNCTIONS)[function]
    inputs = (first, second)[: FUNCTIONS[name].inputs]
    return Step(name, inputs, None if value == NOTHING else _NAMES[value])
