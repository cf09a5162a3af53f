"""Counts without training: by suppression, and as an expectation."""

import pytest
import torch

from torchsets.boxes import box_iou
from torchsets.counting import count_by_nms, expected_count
from torchsets.testing import assert_handles_scales, assert_obeys_laws, random_sets


def split(elements):
    """Boxes with an area and scores near 1 / 2 from any elements (B, N, 5)."""
    corner, size = elements[..., :2], elements[..., 2:4].abs() + 0.5
    return torch.cat([corner, corner + size], dim=-1), 0.5 + elements[..., 4] / 10


def split_at_scale(elements):
    """Boxes as large as the elements are, and raw scores."""
    corner, size = elements[..., :2], elements[..., 2:4].abs()
    return torch.cat([corner, corner + size], dim=-1), elements[..., 4]


def copies(*numbers):
    """Disjoint boxes, each as often as its number says, (1, N, 4)."""
    place = torch.arange(len(numbers)).repeat_interleave(torch.tensor(numbers)).double()
    return torch.stack([place, place, place + 1, place + 1], dim=-1).unsqueeze(0)


@pytest.mark.parametrize("count", [count_by_nms, expected_count])
@pytest.mark.parametrize("sizes", [[4, 4], [3, 0, 6]], ids=["full", "mixed"])
def test_obeys_the_laws(count, sizes, generator):
    elements, mask = random_sets(sizes, 5, generator)
    assert_obeys_laws(lambda x, m: count(*split(x), m), elements, mask)


@pytest.mark.parametrize("count", [count_by_nms, expected_count])
def test_is_finite_at_any_scale(count):
    assert_handles_scales(lambda x, m: count(*split_at_scale(x), m), features=5)


@pytest.mark.parametrize("count", [count_by_nms, expected_count])
@pytest.mark.parametrize("side", [1e-23, 1e20])
def test_duplicates_of_any_size_do_not_count(count, side):
    boxes = (copies(3, 1, 2) * side).float()
    assert count(boxes, torch.ones(boxes.shape[:2])).tolist() == [3]


@pytest.mark.parametrize("count", [count_by_nms, expected_count])
@pytest.mark.parametrize("numbers", [(1,), (3, 1, 2), (5, 5, 5, 5)])
def test_duplicates_do_not_count(count, numbers):
    boxes = copies(*numbers)
    assert count(boxes, torch.ones(boxes.shape[:2])).tolist() == [len(numbers)]


def test_suppression_leaves_out_low_scores():
    scores = torch.tensor([[0.9, 0.4, 0.5]])
    assert count_by_nms(copies(1, 1, 1), scores).tolist() == [2]
    assert count_by_nms(copies(1, 1, 1), scores, min_score=0.0).tolist() == [3]


def test_suppression_uses_its_threshold():
    boxes = torch.tensor([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.6]]])
    assert count_by_nms(boxes, torch.ones(1, 2), threshold=0.5).tolist() == [1]
    assert count_by_nms(boxes, torch.ones(1, 2), threshold=0.7).tolist() == [2]


def test_the_expectation_of_boxes_apart_is_the_sum_of_their_scores():
    scores = torch.tensor([[0.9, 0.25, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(expected_count(copies(1, 1, 1), scores), scores.sum(dim=1))


def test_the_best_of_several_duplicates_counts():
    scores = torch.tensor([[0.3, 0.9, 0.6, 0.5]], dtype=torch.float64)
    expected = torch.tensor([0.9 + 0.5], dtype=torch.float64)
    torch.testing.assert_close(expected_count(copies(3, 1), scores), expected)


def test_the_expectation_agrees_with_a_loop(generator):
    elements, _ = random_sets([7], 5, generator)
    boxes, scores = split(elements)
    shared = box_iou(boxes)[0]
    expected = 0.0
    for i in range(7):
        share = scores[0, i]
        for j in range(7):
            if scores[0, j] > scores[0, i]:
                share = share * (1 - ((shared[i, j] - 0.1) / 0.4).clamp(0, 1))
        expected = expected + share
    got = expected_count(boxes, scores, overlap=(0.1, 0.5))
    torch.testing.assert_close(got, expected.unsqueeze(0))


def test_the_expectation_has_a_gradient(generator):
    elements, _ = random_sets([5], 5, generator)
    boxes, scores = (part.requires_grad_() for part in split(elements))
    count = lambda b, s: expected_count(b, s, overlap=(0.0, 1.0))  # noqa: E731
    assert torch.autograd.gradcheck(count, (boxes, scores))


@pytest.mark.parametrize("count", [count_by_nms, expected_count])
def test_rejects_scores_of_another_shape(count):
    with pytest.raises(ValueError, match=r"scores must have shape \(B, N\) = \(2, 3\)"):
        count(torch.zeros(2, 3, 4), torch.zeros(2, 1))


def test_rejects_an_overlap_that_does_not_increase():
    with pytest.raises(ValueError, match="overlap must be two increasing numbers"):
        expected_count(torch.zeros(2, 3, 4), torch.zeros(2, 3), overlap=(0.5, 0.5))


def test_suppression_refuses_what_is_no_number():
    with pytest.raises(ValueError, match="min_score must be a number, got nan"):
        count_by_nms(torch.zeros(2, 3, 4), torch.zeros(2, 3), min_score=torch.nan)
    with pytest.raises(ValueError, match="threshold must be a number, got nan"):
        count_by_nms(torch.zeros(2, 3, 4), torch.zeros(2, 3), threshold=torch.nan)


def test_suppression_refuses_reversed_boxes_and_the_expectation_counts_each():
    boxes = torch.tensor([[[9.0, 9.0, 4.0, 4.0], [9.0, 9.0, 4.0, 4.0]]])
    with pytest.raises(ValueError, match="x1 <= x2 and y1 <= y2"):
        count_by_nms(boxes, torch.ones(1, 2))
    assert expected_count(boxes, torch.ones(1, 2)).tolist() == [2.0]


def test_many_half_precision_scores_are_added_up_exactly():
    corner = torch.arange(3000).half().unsqueeze(0).unsqueeze(-1)
    boxes = torch.cat([corner, corner * 0, corner + 0.25, corner * 0 + 1], dim=-1)
    scores = torch.full((1, 3000), 0.25, dtype=torch.float16)
    exact = expected_count(boxes.double(), scores.double())
    torch.testing.assert_close(expected_count(boxes, scores).double(), exact, rtol=1e-3, atol=0)
