"""Questions from files in CLEVR's form, read in one pass and stored compactly; and written."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchsets._catalogue import cache_folder
from torchsets.data.clevr import SPLITS, clevr_file, write_records
from torchsets.data.json_stream import read_records
from torchsets.data.questions.columns import Question, QuestionCollector, Questions
from torchsets.data.questions.programs import parse_program, program_records
from torchsets.data.questions.store import StoreWriter, load_store, store_name

OUR_TEMPLATES = "torchsets"
"""What files of our own name as ``template_filename``: their families have our numbers."""
_PART = 10_000  # questions in memory at a time


def clevr_questions(split: str) -> Questions:
    """Load the questions of CLEVR: 699989 in "train" and 149991 in "val".

    The folder ``clevr`` of ``TORCHSETS_DATA`` (by default of the user's cache) holds
    ``CLEVR_v1.0/questions/CLEVR_train_questions.json``, or the same with ``.gz``. The first call
    reads it, in a minute or two; later ones map what :func:`read_questions` stored.

    Args:
        split: "train", "val" or "test"; the last has no answers and programs.

    Raises:
        ValueError: If the file is cut off or has another form.
        FileNotFoundError: If there is no file; it says where to get it.
    """
    if split not in SPLITS:
        raise ValueError(f'split must be "train", "val" or "test", got {split!r}')
    return read_questions(clevr_file("questions", split))


def read_questions(path: str | os.PathLike[str], *, store: Path | None = None) -> Questions:
    """Read questions in CLEVR's form from a ``.json`` or ``.json.gz`` file, or from its store.

    The file may be large: a few questions at a time are in memory. They go into a folder of flat
    arrays, named by the file's sha256, which is mapped into memory now and on later calls.

    Args:
        path: The file.
        store: The folder of such folders. None: ``questions`` in the user's cache.

    Raises:
        ValueError: If the file is cut off or has another form.
        OSError: If there is no such file, or the store cannot be written.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    folder = (cache_folder() / "questions" if store is None else store) / store_name(path)
    if not folder.is_dir():
        _fill_store(path, folder)
    return load_store(folder)


def write_questions(
    path: str | os.PathLike[str], questions: Iterable[Question], split: str = "train"
) -> None:
    """Write questions of ours to a JSON file in CLEVR's form; :func:`read_questions` reads it."""
    write_records(Path(path), "questions", split, _question_records(questions, split))


def _question_records(questions: Iterable[Question], split: str) -> Iterator[dict[str, Any]]:
    for place, question in enumerate(questions):
        record = {
            "question_index": place,
            "question_family_index": question.family,
            "template_filename": OUR_TEMPLATES,
            "image_index": question.scene,
            "image_filename": f"CLEVR_{split}_{question.scene:06}.png",
            "split": split,
            "question": question.text,
        }
        if question.answer is not None:
            record |= {"answer": question.answer, "program": program_records(question.program)}
        yield record


def _fill_store(path: Path, folder: Path) -> None:
    collector, families = QuestionCollector(), _FamilyNumbers()
    with StoreWriter(folder) as writer:
        for record in read_records(path, "questions"):
            try:
                collector.add(_parse(record, families))
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
                raise ValueError(
                    f"{path} must hold questions in CLEVR's form, got another one at question "
                    f"{collector.count}: {type(error).__name__} {error}"
                ) from error
            if collector.count % _PART == 0:
                writer.append(collector)
        writer.append(collector)
        writer.finish(collector.vocabulary, families.names)


def _parse(record: Mapping[str, Any], families: "_FamilyNumbers") -> Question:
    answer = record.get("answer")
    return Question(
        record["question"],
        # Files of CLEVR's generator itself have numbers and truth values, too.
        {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else _text(answer),
        record["image_index"],
        families.number(record),
        parse_program(record["program"]) if "program" in record else (),
    )


def _text(answer: object) -> str | None:
    return None if answer is None else str(answer)


class _FamilyNumbers:
    """One number for each family; files of CLEVR's generator count within each template file."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, record: Mapping[str, Any]) -> int:
        number: int = record.get("question_family_index", -1)
        template = record.get("template_filename", OUR_TEMPLATES)
        if template == OUR_TEMPLATES:
            return number
        name = f"{template}:{number}"
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]
