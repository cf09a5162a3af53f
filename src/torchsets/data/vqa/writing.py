"""Write questions, annotations, pairs and proposals in the four formats of VQA v2."""

import json
import os
from pathlib import Path

from torch import Tensor

from torchsets.data.vqa.features import FeatureStore
from torchsets.data.vqa.files import VQAQuestions, file_names
from torchsets.data.vqa.pictures import FOLDERS
from torchsets.data.vqa.tsv import write_tsv

_TYPE_WORDS = 2  # of a question, which name its type


def write_vqa(
    folder: str | os.PathLike[str],
    split: str,
    questions: VQAQuestions,
    *,
    pairs: Tensor | None = None,
    pictures: FeatureStore | None = None,
) -> None:
    """Write a split under its official names, so that ``TORCHSETS_DATA=folder`` finds it.

    Args:
        folder: A folder ``vqa`` in it takes the files.
        split: "train", "val", "test" or "test-dev"; the last two have neither answers nor pairs.
        questions: With answers, except for a test split.
        pairs: Complementary pairs, (P, 2), long. None: no such file.
        pictures: The proposals. None: no such file.

    Raises:
        ValueError: If the answers of "train" or "val" are missing.

    Example:
        >>> import tempfile
        >>> from torchsets.data.vqa import synthetic_vqa
        >>> data = synthetic_vqa(20)
        >>> write_vqa(
        ...     tempfile.mkdtemp(),
        ...     "train",
        ...     data.questions,
        ...     pairs=data.pairs,
        ...     pictures=data.pictures,
        ... )
    """
    names = file_names(split)
    place = Path(folder) / "vqa"
    place.mkdir(parents=True, exist_ok=True)
    rows = zip(
        questions.question_ids.tolist(), questions.image_ids.tolist(), questions.texts, strict=True
    )
    asked = [{"question_id": one, "image_id": image, "question": text} for one, image, text in rows]
    head = {"info": {}, "license": {}, "data_type": "mscoco", "data_subtype": split}
    content = {**head, "task_type": "Open-Ended", "questions": asked}
    (place / names["questions"]).write_text(json.dumps(content))
    if "annotations" in names:
        annotations = {**head, "annotations": _annotations(questions)}
        (place / names["annotations"]).write_text(json.dumps(annotations))
    if "pairs" in names and pairs is not None:
        (place / names["pairs"]).write_text(json.dumps(pairs.tolist()))
    if pictures is not None:
        (place / FOLDERS[split]).mkdir(exist_ok=True)
        write_tsv(
            place / FOLDERS[split] / f"{split}.tsv", map(pictures.picture, range(len(pictures)))
        )


def _annotations(questions: VQAQuestions) -> list[dict[str, object]]:
    answers = questions.answers
    if answers is None:
        raise ValueError("questions must have answers, got none")
    return [
        {
            "question_id": number,
            "image_id": image,
            "question_type": " ".join(text.lower().split()[:_TYPE_WORDS]),
            "answer_type": kind,
            "multiple_choice_answer": answers.strings[chosen],
            "answers": [
                {"answer_id": 1 + place, "answer": answers.strings[one], "answer_confidence": "yes"}
                for place, one in enumerate(given)
            ],
        }
        for number, image, text, kind, chosen, given in zip(
            questions.question_ids.tolist(),
            questions.image_ids.tolist(),
            questions.texts,
            answers.type_names,
            answers.chosen.tolist(),
            answers.given.tolist(),
            strict=True,
        )
    ]
