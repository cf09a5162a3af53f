"""The JSON files of VQA v2: questions, annotations, complementary pairs, and results."""

import json
import os
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchsets._catalogue import data_folder
from torchsets.data.json_stream import read_records, read_values

ANSWER_TYPES = ("yes/no", "number", "other")
PEOPLE = 10
"""So many people answered each question."""
VQA_SOURCE = "https://visualqa.org/download.html"
_SUBSETS = {"train": "train2014", "val": "val2014", "test": "test2015", "test-dev": "test-dev2015"}


@dataclass(frozen=True)
class VQAAnswers:
    """What people answered, each string kept once.

    Attributes:
        strings: The different answers as published, in order of appearance.
        given: Which of them the ten people gave, (Q, 10), long.
        chosen: Which of them the annotation names as the answer, (Q,), long.
        types: Places in ``ANSWER_TYPES``, (Q,), long.
    """

    strings: tuple[str, ...]
    given: Tensor
    chosen: Tensor
    types: Tensor

    @property
    def type_names(self) -> list[str]:
        """The type of each question's answer."""
        return [ANSWER_TYPES[place] for place in self.types.tolist()]


@dataclass(frozen=True)
class VQAQuestions:
    """Questions about pictures.

    Attributes:
        texts: As they are asked.
        question_ids: (Q,), long.
        image_ids: (Q,), long.
        answers: None where they are not published.
    """

    texts: tuple[str, ...]
    question_ids: Tensor
    image_ids: Tensor
    answers: VQAAnswers | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        answers = "without answers" if self.answers is None else "with answers"
        pictures = len(set(self.image_ids.tolist()))
        return f"VQAQuestions({len(self)} questions, {pictures} pictures, {answers})"


class PairPlaces(NamedTuple):
    """Balanced pairs by the places of their questions.

    Attributes:
        places: (P, 2), long.
        missing: Pairs left out because a question is not there.
    """

    places: Tensor
    missing: int


def vqa_questions(split: str) -> VQAQuestions:
    """Load the questions of VQA v2, with their answers in "train" and "val".

    The folder ``vqa`` of ``TORCHSETS_DATA`` (by default of the user's cache) holds the files under
    their official names, plain or with ``.gz``. Nothing is downloaded. Files with fewer questions
    are accepted.

    Args:
        split: "train", "val", "test" or "test-dev".

    Raises:
        ValueError: If a file is cut off or has another form.
        FileNotFoundError: If a file is missing; it says where to get it.
    """
    names = file_names(split)
    questions = _find(names["questions"])
    annotations = _find(names["annotations"]) if "annotations" in names else None
    return read_vqa_questions(questions, annotations)


def file_names(split: str) -> dict[str, str]:
    """The official names of the files of a split: of questions, annotations and pairs."""
    name = _subset(split)
    names = {"questions": f"v2_OpenEnded_mscoco_{name}_questions.json"}
    if not split.startswith("test"):
        names["annotations"] = f"v2_mscoco_{name}_annotations.json"
        names["pairs"] = f"v2_mscoco_{name}_complementary_pairs.json"
    return names


def vqa_pairs(split: str) -> Tensor:
    """Load the complementary pairs of "train" or "val", from the same folder; see `read_pairs`."""
    names = file_names(split)
    if "pairs" not in names:
        raise ValueError(f'split must be "train" or "val", got {split!r}')
    return read_pairs(_find(names["pairs"]))


def read_vqa_questions(
    questions: str | os.PathLike[str], annotations: str | os.PathLike[str] | None = None
) -> VQAQuestions:
    """Read questions, and their answers where there is a file of annotations.

    The two are matched by ``question_id``. Annotations of other questions are ignored.

    Raises:
        ValueError: If a file is cut off or has another form, a question is there twice, or one has
            no annotation.
        OSError: If there is no such file.
    """
    path = Path(questions)
    texts: list[str] = []
    ids, images = array("q"), array("q")
    for record in read_records(path, "questions"):
        try:
            ids.append(record["question_id"])
            images.append(record["image_id"])
            texts.append(_string(record["question"]))
        except (KeyError, TypeError, OverflowError) as error:
            raise _wrong_form(path, "questions", len(texts), error) from error
    places = {one: place for place, one in enumerate(ids)}
    if len(places) < len(ids):
        raise ValueError(f"{path} must have each question once, got {len(places)} of {len(ids)}")
    answers = None if annotations is None else _read_answers(Path(annotations), places)
    return VQAQuestions(tuple(texts), _tensor(ids), _tensor(images), answers)


def read_pairs(path: str | os.PathLike[str]) -> Tensor:
    """Read complementary pairs: the ids of two questions each, (P, 2), long.

    The two have the same words and, about different pictures, different answers.

    Raises:
        ValueError: If the file is cut off or has another form.
        OSError: If there is no such file.
    """
    path, ids = Path(path), array("q")
    for pair in read_values(path):
        try:
            first, second = pair
            ids.extend((first, second))
        except (TypeError, ValueError, OverflowError) as error:
            raise _wrong_form(path, "pairs", len(ids) // 2, error) from error
    return _tensor(ids).view(-1, 2)


def pair_places(pairs: Tensor, question_ids: Tensor) -> PairPlaces:
    """Find the questions of pairs; a pair whose questions are not both there is left out.

    Args:
        pairs: The ids of both questions, (P, 2), long.
        question_ids: The ids of the questions that there are, (Q,), long.

    Example:
        >>> pair_places(torch.tensor([[7, 5], [5, 6]]), torch.tensor([5, 7]))
        PairPlaces(places=tensor([[1, 0]]), missing=1)
    """
    ordered, order = question_ids.sort()
    if len(ordered) == 0:
        return PairPlaces(pairs.new_zeros(0, 2), len(pairs))
    found = torch.searchsorted(ordered, pairs).clamp(max=len(ordered) - 1)
    there = (ordered[found] == pairs).all(dim=1)
    return PairPlaces(order[found[there]], int((~there).sum()))


def write_vqa_results(
    path: str | os.PathLike[str], question_ids: Iterable[int] | Tensor, answers: Sequence[str]
) -> None:
    """Write predicted answers as the evaluation server of VQA expects them.

    Raises:
        ValueError: If there is not one answer for each question.
    """
    ids = question_ids.tolist() if isinstance(question_ids, Tensor) else list(question_ids)
    if len(ids) != len(answers):
        raise ValueError(
            f"answers must have one for each of the {len(ids)} questions, got {len(answers)}"
        )
    records = [
        {"question_id": one, "answer": answer} for one, answer in zip(ids, answers, strict=True)
    ]
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(json.dumps(records))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _read_answers(path: Path, places: dict[int, int]) -> VQAAnswers:
    strings: dict[str, int] = {}
    given = np.full((len(places), PEOPLE), -1, np.int64)
    chosen, types = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    for count, record in enumerate(read_records(path, "annotations")):
        try:
            place = places.get(record["question_id"])
            if place is None:
                continue
            answers = [_string(one["answer"]) for one in record["answers"]]
            if len(answers) != PEOPLE:
                raise ValueError(f"{len(answers)} answers in place of {PEOPLE}")
            given[place] = [strings.setdefault(one, len(strings)) for one in answers]
            answer = _string(record["multiple_choice_answer"])
            chosen[place] = strings.setdefault(answer, len(strings))
            types[place] = ANSWER_TYPES.index(record["answer_type"])
        except (KeyError, TypeError, ValueError) as error:
            raise _wrong_form(path, "annotations", count, error) from error
    without = int((given[:, 0] < 0).sum()) if len(places) else 0
    if without:
        raise ValueError(
            f"{path} must have an annotation for each question, got none for {without} of "
            f"{len(places)}"
        )
    return VQAAnswers(tuple(strings), *(torch.from_numpy(part) for part in (given, chosen, types)))


def _subset(split: str) -> str:
    if split not in _SUBSETS:
        raise ValueError(f'split must be "train", "val", "test" or "test-dev", got {split!r}')
    return _SUBSETS[split]


def _find(name: str) -> Path:
    path = data_folder() / "vqa" / name
    for found in (path, path.with_name(f"{name}.gz")):
        if found.is_file():
            return found
    raise FileNotFoundError(
        f"{path} is missing: download it from {VQA_SOURCE} and unpack it there, or set "
        "TORCHSETS_DATA to the folder that holds vqa"
    )


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _wrong_form(path: Path, what: str, place: int, error: Exception) -> ValueError:
    return ValueError(
        f"{path} must hold {what} in the form of VQA v2, got another one at place {place}: "
        f"{type(error).__name__} {error}"
    )


def _tensor(numbers: "array[int]") -> Tensor:
    return torch.from_numpy(np.array(numbers, np.int64))
