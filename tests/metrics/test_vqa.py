from fractions import Fraction

import pytest
import torch

from torchsets.metrics import pair_accuracy, question_kinds, vqa_accuracy, vqa_scores


def official_accuracy(agreeing):
    """The mean over the ten people: each is left out and the answer compared with the others."""
    answers = ["it"] * agreeing + ["not it"] * (10 - agreeing)
    total = Fraction(0)
    for left_out in range(10):
        others = answers[:left_out] + answers[left_out + 1 :]
        total += min(Fraction(others.count("it"), 3), 1)
    return total / 10


@pytest.mark.parametrize("agreeing", range(11))
def test_equals_the_official_leave_one_out_form(agreeing):
    ours = vqa_accuracy(torch.tensor(agreeing, dtype=torch.float64))
    assert ours.item() == pytest.approx(float(official_accuracy(agreeing)), abs=1e-15)
    assert (ours == 1) == (agreeing >= 4)  # exactly: balanced pairs ask for it


def test_whole_numbers_become_the_default_dtype():
    assert vqa_accuracy(torch.tensor([2, 5])).dtype == torch.get_default_dtype()
    assert vqa_accuracy(torch.tensor([2.0], dtype=torch.float64)).dtype == torch.float64


def test_agrees_with_the_author_on_kinds_and_balanced_pairs(golden):
    numbers = golden("vqa_pairs")
    kinds = question_kinds(numbers["question"].tolist(), numbers["answer_type"].tolist())
    accuracy = vqa_accuracy(numbers["agreeing"].double())
    torch.testing.assert_close(accuracy, numbers["accuracy"])
    places = {one: place for place, one in enumerate(numbers["question_id"].tolist())}
    pairs = torch.tensor([[places[a], places[b]] for a, b in numbers["pairs"].tolist()])
    scores = vqa_scores(accuracy, kinds, pairs)
    names = numbers["subsets"].tolist()
    assert [scores.accuracy[name] for name in names] == pytest.approx(numbers["vqa"].tolist())
    assert [scores.pairs[name] for name in names] == pytest.approx(numbers["pair"].tolist())


def test_counts_are_told_by_their_first_words(golden):
    numbers = golden("vqa_answers")
    kinds = question_kinds(numbers["question"].tolist(), numbers["answer_type"].tolist())
    assert kinds["count"].tolist() == numbers["is_count"].tolist()
    by_type = kinds["number"].int() + kinds["yes/no"].int() + kinds["other"].int()
    assert (by_type == 1).all()
    assert kinds["all"].all()


def test_a_pair_needs_both_questions_in_the_kind_and_both_perfect():
    accuracy = torch.tensor([1.0, 1.0, 0.9, 1.0])
    pairs = torch.tensor([[0, 1], [1, 2], [0, 3]])
    assert pair_accuracy(accuracy, pairs).tolist() == [True, False, True]
    kinds = {"some": torch.tensor([True, True, True, False])}
    assert vqa_scores(accuracy, kinds, pairs).pairs == {"some": 0.5}


def test_kinds_without_questions_or_pairs_are_left_out():
    kinds = question_kinds(["Is it?"], ["yes/no"])
    scores = vqa_scores(torch.tensor([0.25]), kinds)
    assert scores.accuracy == {"all": 0.25, "yes/no": 0.25}
    assert scores.pairs == {}


def test_rejects_bad_input():
    with pytest.raises(ValueError, match="answer_types must have one for each of the 1 questions"):
        question_kinds(["Is it?"], [])
    with pytest.raises(ValueError, match=r"pairs must have shape \(P, 2\)"):
        pair_accuracy(torch.zeros(3), torch.zeros(3).long())
    with pytest.raises(ValueError, match=r"pairs must be long, got torch\.float32"):
        pair_accuracy(torch.zeros(3), torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"kinds\['all'\] must be bool"):
        vqa_scores(torch.zeros(3), {"all": torch.ones(3)})
