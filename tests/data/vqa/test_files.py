import gzip
import json
from collections import Counter

import pytest
import torch

from torchsets.data import data_folder
from torchsets.data.vqa import (
    answer_classes,
    encode_questions,
    frequent_answers,
    frequent_words,
    pair_places,
    question_words,
    read_pairs,
    read_vqa_questions,
    vqa_pairs,
    vqa_questions,
    write_vqa_results,
)
from torchsets.metrics import question_kinds

QUESTIONS = [
    {"question_id": 9001, "image_id": 9, "question": "How many cats?"},
    {"question_id": 7002, "image_id": 7, "question": "Is it late?"},
]


def annotation(question_id, answers, kind):
    people = [{"answer_id": i + 1, "answer": one} for i, one in enumerate(answers)]
    return {
        "question_id": question_id,
        "answer_type": kind,
        "multiple_choice_answer": answers[0],
        "answers": people,
    }


ANNOTATIONS = [  # in another order than the questions
    annotation(7002, ["yes"] * 7 + ["no"] * 3, "yes/no"),
    annotation(9001, ["2"] * 10, "number"),
]


def write(path, key, records):
    text = json.dumps({"info": {}, key: records} if key else records)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def both(folder, questions=QUESTIONS, annotations=ANNOTATIONS):
    return (
        write(folder / "questions.json", "questions", questions),
        write(folder / "annotations.json", "annotations", annotations),
    )


def test_questions_and_answers_are_matched_by_number(tmp_path):
    found = read_vqa_questions(*both(tmp_path))
    assert found.texts == ("How many cats?", "Is it late?")
    assert found.question_ids.tolist() == [9001, 7002]
    assert found.image_ids.tolist() == [9, 7]
    given = [[found.answers.strings[one] for one in row] for row in found.answers.given.tolist()]
    assert given == [["2"] * 10, ["yes"] * 7 + ["no"] * 3]
    assert [found.answers.strings[one] for one in found.answers.chosen.tolist()] == ["2", "yes"]
    assert found.answers.type_names == ["number", "yes/no"]
    assert repr(found) == "VQAQuestions(2 questions, 2 pictures, with answers)"


def test_finds_the_official_names_plain_and_packed(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    name = "v2_OpenEnded_mscoco_test-dev2015_questions.json.gz"
    write(tmp_path / "vqa" / name, "questions", QUESTIONS)
    assert vqa_questions("test-dev").answers is None
    pairs = "v2_mscoco_val2014_complementary_pairs.json"
    write(tmp_path / "vqa" / pairs, None, [[9001, 7002]])
    assert vqa_pairs("val").tolist() == [[9001, 7002]]
    with pytest.raises(FileNotFoundError, match=r"train2014_questions\.json is missing: download"):
        vqa_questions("train")
    with pytest.raises(ValueError, match='split must be "train", "val"'):
        vqa_questions("dev")


def test_pairs_with_missing_questions_are_counted(tmp_path):
    pairs = read_pairs(write(tmp_path / "pairs.json", None, [[1, 2], [2, 3], [9, 1], [3, 1]]))
    places, missing = pair_places(pairs, torch.tensor([3, 1, 2]))
    assert places.tolist() == [[1, 2], [2, 0], [0, 1]]
    assert missing == 1
    none = pair_places(pairs, torch.zeros(0).long())
    assert (none.places.shape, none.missing) == ((0, 2), 4)


def test_results_are_a_list_of_numbers_and_answers(tmp_path):
    write_vqa_results(tmp_path / "results.json", torch.tensor([9001, 7002]), ["2", "yes"])
    assert json.loads((tmp_path / "results.json").read_text()) == [
        {"question_id": 9001, "answer": "2"},
        {"question_id": 7002, "answer": "yes"},
    ]
    with pytest.raises(ValueError, match="answers must have one for each of the 2 questions"):
        write_vqa_results(tmp_path / "results.json", [1, 2], ["2"])
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("questions", "annotations", "message"),
    [
        ([{"question_id": 1, "image_id": 2}], [], "at place 0: KeyError 'question'"),
        ([QUESTIONS[0] | {"question": 3}], [], "at place 0: TypeError 3 is no text"),
        (QUESTIONS + QUESTIONS[:1], ANNOTATIONS, "must have each question once, got 2 of 3"),
        (QUESTIONS, ANNOTATIONS[:1], "an annotation for each question, got none for 1 of 2"),
        (QUESTIONS, [annotation(9001, ["2"] * 9, "number")], "ValueError 9 answers in place of 10"),
        (QUESTIONS, [annotation(9001, ["2"] * 10, "colour")], "at place 0: ValueError"),
    ],
)
def test_other_forms_are_refused(tmp_path, questions, annotations, message):
    with pytest.raises(ValueError, match=message):
        read_vqa_questions(*both(tmp_path, questions, annotations))


def test_annotations_of_other_questions_are_ignored(tmp_path):
    found = read_vqa_questions(*both(tmp_path, QUESTIONS[1:]))
    assert found.answers.strings == ("yes", "no")


def real(split):
    try:
        return vqa_questions(split)
    except FileNotFoundError:
        pytest.skip(f"the questions of VQA v2 are not in {data_folder() / 'vqa'}")


def test_reads_the_real_questions():
    """Counts that hold for the part of VQA v2 that the project was developed with."""
    train, val = real("train"), real("val")
    if (len(train), len(val)) != (48061, 8977):
        pytest.skip("another part of VQA v2 is in the data folder")
    words = {"train": list(map(question_words, train.texts))}
    words["val"] = list(map(question_words, val.texts))
    vocabulary = frequent_words(words["train"])
    assert len(vocabulary) == 6634
    assert encode_questions(words["train"], vocabulary)[1].max() == 19
    tokens, lengths = encode_questions(words["val"], vocabulary)
    real_words = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
    assert ((tokens == 0) & real_words).any(dim=1).sum() == 483
    assert sum("" in one for one in words["train"]) == 159
    assert len(train.answers.strings) >= 25424
    classes = frequent_answers(train.answers)
    assert classes[:10] == ("no", "yes", "2", "1", "3", "0", "4", "5", "white", "6")
    inside = answer_classes(val.answers, classes) >= 0
    assert round(100 * float(inside.any(dim=1).float().mean()), 1) == 97.5
    assert round(float(inside.sum(dim=1).float().mean()), 2) == 8.93
    kinds = [question_kinds(one.texts, one.answers.type_names) for one in (train, val)]
    assert sum(int(one["count"].sum()) for one in kinds) == 15985
    assert sum(int(one["number"].sum()) for one in kinds) == 19034
    assert sum(int((one["count"] & one["other"]).sum()) for one in kinds) == 27
    assert Counter(train.answers.type_names).keys() == {"number", "yes/no", "other"}
