import pytest

from torchsets.data.vqa import (
    ban_normalise_answer,
    ban_question_words,
    normalise_answer,
    question_words,
)


def test_questions_are_split_as_the_author_does(golden):
    strings = golden("vqa_questions")
    ours = ["|".join(question_words(one)) for one in strings["question"].tolist()]
    assert ours == strings["tokens"].tolist()


@pytest.mark.parametrize("name", ["vqa_answer_strings", "vqa_answers"])
def test_answers_are_normalised_as_the_author_does(golden, name):
    strings = golden(name)
    raw, expected = strings["raw"].ravel().tolist(), strings["normalised"].ravel().tolist()
    assert [normalise_answer(one) for one in raw] == expected


def test_answers_are_normalised_as_ban_does(golden):
    strings = golden("vqa_answer_strings")
    ours = [ban_normalise_answer(one) for one in strings["raw"].tolist()]
    assert ours == strings["ban"].tolist()
    strings = golden("vqa_answers")
    ours = [ban_normalise_answer(one) for one in strings["multiple_choice_answer"].tolist()]
    assert ours == strings["ban_label"].tolist()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("couldnt've", "couldn't've"),
        ("couldn'tve", "couldn't've"),
        ("couldntve", "couldntve"),  # two apostrophes are missing
        ("yall'd've", "y'all'd've"),
        ("y'allll", "y'all'll"),
        ("twas", "'twas"),
        ("its", "its"),
        ("well", "well"),
        ("somebody'd", "somebodyd"),
        ("an apple a day", "apple day"),
        ("ten", "10"),
    ],
)
def test_contractions_get_one_missing_apostrophe(answer, expected):
    assert ban_normalise_answer(answer) == expected


def test_ban_takes_a_possessive_as_a_word():
    question = "What  is the Man's name, please?"
    assert ban_question_words(question) == ["what", "is", "the", "man", "'s", "name", "please"]
    assert ban_question_words("?") == []
