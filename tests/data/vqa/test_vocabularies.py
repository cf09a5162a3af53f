import torch

from torchsets.data.vqa import (
    VQAAnswers,
    answer_classes,
    answer_counts,
    ban_answers,
    ban_question_words,
    encode_questions,
    frequent_answers,
    frequent_words,
    question_words,
)
from torchsets.metrics import vqa_accuracy
from torchsets.text import Vocabulary


def answers_of(given, chosen):
    strings = {}
    rows = [[strings.setdefault(one, len(strings)) for one in row] for row in given]
    picked = [strings.setdefault(one, len(strings)) for one in chosen]
    types = torch.zeros(len(rows), dtype=torch.long)
    return VQAAnswers(tuple(strings), torch.tensor(rows), torch.tensor(picked), types)


def test_words_are_numbered_as_the_author_does(golden):
    strings = golden("vqa_questions")
    words = [question_words(one) for one in strings["question"].tolist()]
    vocabulary = frequent_words(words[: int(strings["vocabulary_from"])])
    assert list(vocabulary.words) == strings["vocabulary"].tolist()
    tokens, lengths = encode_questions(words, vocabulary)
    assert torch.equal(tokens, strings["encoded"])
    assert torch.equal(lengths, strings["lengths"])


def test_ban_reads_fourteen_words_and_takes_unknown_ones_for_the_last(golden):
    vocabulary = Vocabulary(["is", "it", "red"])
    words = [ban_question_words("Is it " + "very " * 20), ban_question_words("red?"), []]
    tokens, lengths = encode_questions(words, vocabulary, unknown=len(vocabulary), longest=14)
    assert tokens.tolist() == [[1, 2] + [3] * 12, [3] + [0] * 13, [0] * 14]
    assert lengths.tolist() == [14, 1, 0]


def test_answers_are_numbered_and_counted_as_the_author_does(golden):
    arrays = golden("vqa_answers")
    answers = answers_of(arrays["raw"].tolist(), arrays["multiple_choice_answer"].tolist())
    classes = frequent_answers(answers, size=25)
    assert list(classes) == arrays["vocabulary"].tolist()
    counts = answer_counts(answer_classes(answers, classes), len(classes)).double()
    assert torch.equal(counts, arrays["counts"])
    assert torch.equal(counts.sum(dim=1) > 0, arrays["answerable"])
    torch.testing.assert_close(vqa_accuracy(counts), arrays["accuracy"])
    raw = answer_classes(answers, classes, normalise=None)
    scores = vqa_accuracy(answer_counts(raw, len(classes)).double())
    torch.testing.assert_close(scores, arrays["ban_scores"])


def test_ties_at_the_end_of_the_classes_go_to_the_first():
    answers = answers_of([["b", "a", "a", "c", "d", "b"]], ["d"])
    assert frequent_answers(answers, size=3) == ("b", "a", "c")
    # "d" is numbered before "c" here, because it was chosen for an earlier question.
    swapped = VQAAnswers(("d", "c"), torch.tensor([[1, 0]]), torch.tensor([0]), torch.zeros(1))
    assert frequent_answers(swapped, size=1) == ("c",)


def test_ban_keeps_answers_chosen_often_enough_as_they_first_occur():
    train = answers_of([["x"]] * 4, ["The dog", "cat", "cat", "two"])
    val = answers_of([["x"]] * 2, ["2", "dog"])
    assert ban_answers([train, val], at_least=2) == ("dog", "cat", "2")
    assert ban_answers([train, val], at_least=3) == ()
