import gzip
import json
import tracemalloc

import pytest
import torch

from torchsets.data import (
    Questions,
    clevr_questions,
    generate_questions,
    read_questions,
    sample_scenes,
    write_questions,
)
from torchsets.data.questions import files, store
from torchsets.text import Vocabulary

# Three questions of our own making: as in CLEVR's files, from its generator, from its test split.
PROGRAM = [
    {"function": "scene", "inputs": [], "value_inputs": []},
    {"function": "filter_color", "inputs": [0], "value_inputs": ["red"]},
    {"function": "count", "inputs": [1], "value_inputs": []},
]
RECORDS = [
    {
        "question_index": 0,
        "question_family_index": 70,
        "image_index": 4,
        "question": "How many red things are there?",
        "answer": "2",
        "program": PROGRAM,
    },
    {
        "question_family_index": 3,
        "template_filename": "zero.json",
        "image_index": 5,
        "question": "Are there red things; or not?",
        "answer": True,
        "program": [
            *({"type": one["function"]} | one for one in PROGRAM[:2]),
            {"type": "exist", "inputs": [1]},
        ],
    },
    {"question_index": 2, "image_index": 6, "question": "how many are not red?"},
]


def write(path, records=RECORDS):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"info": {}, "questions": records}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def same_questions(one, other):
    return len(one) == len(other) and all(one[i] == other[i] for i in range(len(one)))


@pytest.mark.parametrize("name", ["CLEVR_val_questions.json", "CLEVR_val_questions.json.gz"])
def test_reads_all_spellings(tmp_path, monkeypatch, name):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write(tmp_path / "data" / "clevr" / "CLEVR_v1.0" / "questions" / name)
    questions = clevr_questions("val")
    assert len(questions) == 3
    first, second, third = (questions[place] for place in range(3))
    assert first.text == "how many red things are there ?"
    assert (first.answer, first.scene, first.family) == ("2", 4, 70)
    assert [step.function for step in first.program] == ["scene", "filter_color", "count"]
    assert first.program[1].value == "red"
    assert (second.answer, second.family) == ("yes", 0)
    assert questions.family_names == ("zero.json:3",)
    assert second.program[2].function == "exist"
    assert (third.answer, third.program) == (None, ())
    words = ("how", "many", "red", "things", "are", "there", "?", ";", "or", "not")
    assert questions.vocabulary.words == words
    folders = [path.name for path in (tmp_path / "cache" / "torchsets" / "questions").iterdir()]
    assert len(folders) == 1
    assert folders[0].startswith("CLEVR_val_questions-")


def test_a_batch_is_padded(tmp_path):
    questions = read_questions(write(tmp_path / "q.json"), store=tmp_path / "store")
    batch = questions.batch([2, 0])
    assert batch.tokens.tolist() == [[1, 2, 5, 10, 3, 7, 0], [1, 2, 3, 4, 5, 6, 7]]
    assert batch.lengths.tolist() == [6, 7]
    assert batch.answers.tolist() == [255, 4]
    assert batch.scenes.tolist() == [6, 4]
    assert questions.batch(slice(1, 1)).tokens.shape == (0, 0)


def test_the_store_is_used_the_second_time(tmp_path, monkeypatch):
    path, folder = write(tmp_path / "q.json"), tmp_path / "store"
    first = read_questions(path, store=folder)

    def fail(*_):
        raise AssertionError("read again")

    monkeypatch.setattr(files, "read_records", fail)
    assert same_questions(read_questions(path, store=folder), first)
    write(path, RECORDS[:1])  # another content, another store
    with pytest.raises(AssertionError, match="read again"):
        read_questions(path, store=folder)


def test_what_is_generated_is_written_and_read(tmp_path):
    made = list(generate_questions(sample_scenes(30), per_scene=5))
    write_questions(tmp_path / "ours.json", made, "val")
    questions = read_questions(tmp_path / "ours.json", store=tmp_path / "store")
    expected = Questions.from_list(made)
    assert same_questions(questions, expected)
    assert questions.vocabulary.words == expected.vocabulary.words
    record = json.loads((tmp_path / "ours.json").read_text())["questions"][3]
    assert record["template_filename"] == "torchsets"
    assert record["program"][0] == {"function": "scene", "inputs": [], "value_inputs": []}


def test_a_store_is_written_in_parts_in_constant_memory(tmp_path, monkeypatch):
    made = list(generate_questions(sample_scenes(20), per_scene=10))
    monkeypatch.setattr(files, "_PART", 50)
    monkeypatch.setattr("torchsets.data.json_stream._CHUNK", 1 << 12)

    def peak_of(times):
        path = tmp_path / f"{times}.json"
        write_questions(path, made * times)
        tracemalloc.start()
        questions = read_questions(path, store=tmp_path / "store")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(questions) == times * len(made)
        assert questions[(times - 1) * len(made) + 7] == questions[7]
        return peak

    assert peak_of(8) < 1.2 * peak_of(2)


def test_a_failed_build_leaves_nothing(tmp_path):
    path = write(tmp_path / "q.json")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="is cut off or damaged"):
        read_questions(path, store=tmp_path / "store")
    assert list((tmp_path / "store").iterdir()) == []


def test_a_store_that_another_process_made_first_stays(tmp_path):
    path = write(tmp_path / "q.json")
    expected = read_questions(path, store=tmp_path / "store")
    (folder,) = (tmp_path / "store").iterdir()
    files._fill_store(path, folder)
    assert list((tmp_path / "store").iterdir()) == [folder]
    assert same_questions(read_questions(path, store=tmp_path / "store"), expected)


@pytest.mark.parametrize("damage", ["short", "header", "missing"])
def test_a_damaged_store_says_so(tmp_path, damage):
    path = write(tmp_path / "q.json")
    read_questions(path, store=tmp_path / "store")
    (folder,) = (tmp_path / "store").iterdir()
    if damage == "short":
        (folder / "tokens.bin").write_bytes(b"12")
    elif damage == "header":
        (folder / "header.json").write_text("{}")
    else:
        (folder / "steps.bin").unlink()
    with pytest.raises(ValueError, match=r"is damaged: .*remove it to make it again"):
        read_questions(path, store=tmp_path / "store")


def test_another_version_is_another_store(tmp_path, monkeypatch):
    path = write(tmp_path / "q.json")
    read_questions(path, store=tmp_path / "store")
    monkeypatch.setattr(store, "VERSION", store.VERSION + 1)
    read_questions(path, store=tmp_path / "store")
    assert len(list((tmp_path / "store").iterdir())) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "maybe"}, "answers must be one of the 28"),
        ({"program": [{"function": "guess", "inputs": []}]}, "functions must be CLEVR's"),
        ({"image_index": "x"}, "TypeError"),
        ({"question": None}, "AttributeError|TypeError"),
    ],
)
def test_another_form_is_refused(tmp_path, change, message):
    path = write(tmp_path / "q.json", [RECORDS[0], RECORDS[0] | change])
    with pytest.raises(
        ValueError, match=f"must hold questions in CLEVR's form.*at question 1.*({message})"
    ):
        read_questions(path, store=tmp_path / "store")


def test_words_are_renumbered_and_unknown_ones_refused(tmp_path):
    questions = read_questions(write(tmp_path / "q.json"), store=tmp_path / "store")
    other = Vocabulary(reversed(questions.vocabulary.words))
    moved = questions.with_vocabulary(other)
    assert same_questions(moved, questions)
    assert not torch.equal(moved.batch([0]).tokens, questions.batch([0]).tokens)
    with pytest.raises(ValueError, match="words must be among the 9 of the vocabulary, got 'not'"):
        questions.with_vocabulary(Vocabulary(questions.vocabulary.words[:-1]))


def test_a_missing_file_says_what_to_download(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHSETS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"CLEVR_test_questions.json is missing: download"):
        clevr_questions("test")
    with pytest.raises(ValueError, match="split must be"):
        clevr_questions("all")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_questions(tmp_path / "none.json")


def test_columns_must_fit_together(tmp_path):
    questions = read_questions(write(tmp_path / "q.json"), store=tmp_path / "store")
    short = questions.columns | {"answers": questions.columns["answers"][:2]}
    with pytest.raises(ValueError, match=r"answers must have shape \(3,\), got \(2,\)"):
        Questions(short, questions.vocabulary)
    with pytest.raises(TypeError, match="index must be an integer"):
        questions[[0, 1]]
    assert repr(questions) == "Questions(3 questions, 10 words)"
