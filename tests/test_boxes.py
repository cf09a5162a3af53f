import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco

from torchsets.boxes import (
    box_area,
    box_intersection,
    box_iou,
    check_boxes,
    non_maximum_suppression,
)
from torchsets.testing import (
    assert_handles_scales,
    assert_ignores_padding,
    assert_obeys_laws,
    assert_sets_independent,
    random_sets,
)


def random_boxes(*shape, generator, side=0.5, dtype=torch.float64):
    corner = torch.rand(*shape, 2, generator=generator, dtype=dtype)
    return torch.cat([corner, corner + side * torch.rand(*shape, 2, generator=generator)], dim=-1)


def greedy_loop(boxes, scores, threshold):
    """Keep flags of one set, one box after the other."""
    kept, overlaps = [], box_iou(boxes, boxes).tolist()
    for index in scores.argsort(descending=True, stable=True).tolist():
        if all(overlaps[index][other] <= threshold for other in kept):
            kept.append(index)
    return torch.isin(torch.arange(len(boxes)), torch.tensor(kept, dtype=torch.long))


def boxes_from(elements):
    """Real boxes from any elements (B, N, 4): a corner and a size."""
    corner, size = elements[..., :2], elements[..., 2:]
    return torch.cat([corner, corner + 0.5 + size.abs()], dim=-1)


def mean_overlap(elements, mask):
    """An equivariant function: how much each box overlaps its set."""
    overlap = box_iou(boxes_from(elements), None, mask).sum(dim=2)
    return overlap / mask.sum(dim=1, keepdim=True).clamp(min=1)


def test_overlaps_agree_with_pycocotools(generator):
    boxes, others = random_boxes(40, generator=generator), random_boxes(30, generator=generator)

    def corner_and_size(xyxy):
        return torch.cat([xyxy[:, :2], xyxy[:, 2:] - xyxy[:, :2]], dim=1).numpy()

    expected = coco.iou(corner_and_size(boxes), corner_and_size(others), [0] * len(others))
    torch.testing.assert_close(box_iou(boxes, others), torch.from_numpy(expected))


def test_areas_and_intersections_of_known_boxes():
    boxes = torch.tensor([[0.0, 0.0, 4.0, 2.0], [1.0, 1.0, 3.0, 5.0], [9.0, 9.0, 8.0, 8.0]])
    assert box_area(boxes).tolist() == [8.0, 8.0, 0.0]
    assert box_intersection(boxes, boxes).tolist() == [[8, 2, 0], [2, 8, 0], [0, 0, 0]]


@pytest.mark.parametrize("side", [1e-37, 1e-23, 1e-18, 1e-3, 1.0, 640.0, 1e15, 1e20, 1e38])
def test_equal_boxes_overlap_by_exactly_one(side):
    boxes = torch.tensor([[0.0, 0.0, side, side / 2]]).repeat(2, 1)
    assert box_iou(boxes).tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    "flat",
    [[0.5, 0.5, 0.5, 0.5], [0.2, 0.2, 0.2, 0.9], [0.9, 0.1, 0.2, 0.8], [0.9, 0.9, 0.1, 0.1]],
    ids=["point", "line", "inverted", "inverted-twice"],
)
def test_a_box_without_area_overlaps_nothing_and_has_a_finite_gradient(flat):
    boxes = torch.tensor([flat, flat, [0.0, 0.0, 1.0, 1.0]], requires_grad=True)
    overlap = box_iou(boxes)
    assert overlap.tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    overlap.sum().backward()
    assert boxes.grad.isfinite().all()


def test_gradient_of_overlaps(generator):
    boxes = random_boxes(2, 4, generator=generator).requires_grad_()
    others = random_boxes(2, 3, generator=generator).requires_grad_()
    assert torch.autograd.gradcheck(box_iou, (boxes, others))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_boxes_in_pixels_do_not_overflow_in_half_precision(dtype):
    boxes = torch.tensor([[0.0, 0.0, 640.0, 480.0], [0.0, 0.0, 640.0, 240.0]], dtype=dtype)
    overlap = box_iou(boxes)
    assert overlap.dtype == dtype
    assert overlap.tolist() == [[1.0, 0.5], [0.5, 1.0]]


@pytest.mark.parametrize("sizes", [[4, 4], [3, 0, 5]], ids=["full", "mixed"])
def test_overlaps_obey_the_laws(sizes, generator):
    assert_obeys_laws(mean_overlap, *random_sets(sizes, 4, generator), equivariant=True)


@pytest.mark.parametrize("scale", [1e-30, 1e-11, 3.0, 1e20, 1e30])
def test_overlaps_do_not_depend_on_the_unit_of_length(scale, generator):
    boxes = random_boxes(20, generator=generator, dtype=torch.float32)
    stretched = boxes * torch.tensor([scale, 1 / scale, scale, 1 / scale])
    torch.testing.assert_close(box_iou(boxes * scale), box_iou(boxes), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(box_iou(stretched), box_iou(boxes), rtol=1e-4, atol=1e-5)


def test_tiny_and_huge_boxes_may_be_in_one_set():
    tiny, huge = [0.0, 0.0, 1e-23, 1e-23], [0.0, 0.0, 1e20, 1e20]
    half = [0.0, 0.0, 1e20, 5e19]
    overlap = box_iou(torch.tensor([tiny, huge, half, tiny]))
    expected = [[1, 0, 0, 1], [0, 1, 0.5, 0], [0, 0.5, 1, 0], [1, 0, 0, 1]]
    torch.testing.assert_close(overlap, torch.tensor(expected, dtype=torch.float32))


def test_overlaps_of_boxes_in_pixels_are_exact():
    """A quotient of whole numbers: what decides at a threshold of exactly 1 / 2 is not rounding."""
    left = torch.arange(1.0, 60)
    boxes = torch.stack([left * 0, left * 0, 3 * left, 7 * left], dim=1)
    halves = torch.stack([left, left * 0, 3 * left, 7 * left], dim=1)
    expected = torch.full_like(left, 2 / 3)
    assert box_iou(boxes, halves).diagonal().equal(expected)


def test_overlaps_are_finite_at_any_scale():
    def overlaps(elements, mask):
        corner, size = elements[..., :2], elements[..., 2:].abs()
        return box_iou(torch.cat([corner, corner + size], dim=-1), None, mask)

    assert_handles_scales(overlaps, features=4)


@pytest.mark.parametrize("wrong", [[10.0, 20.0, 5.0, 40.0], [10.0, 20.0, 30.0, 4.0]])
def test_a_width_and_a_height_are_not_taken_for_a_corner(wrong):
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], wrong])
    message = r"boxes must be \(x1, y1, x2, y2\) with x1 <= x2 and y1 <= y2, got \[10\.0, 20\.0"
    with pytest.raises(ValueError, match=message):
        check_boxes(boxes)
    with pytest.raises(ValueError, match=message):
        non_maximum_suppression(boxes, torch.ones(2))
    only_the_first = torch.tensor([True, False])
    check_boxes(boxes, only_the_first)
    assert non_maximum_suppression(boxes, torch.ones(2), only_the_first).tolist() == [True, False]
    check_boxes(torch.tensor([1.0, 1.0, 1.0, 1.0]))  # a point is fine


def suppress(elements, mask):
    boxes = boxes_from(elements[..., :4])
    return non_maximum_suppression(boxes, elements[..., 4], mask, threshold=0.2)


def test_suppression_ignores_padding(generator):
    elements, mask = random_sets([3, 0, 5], 5, generator)
    assert_ignores_padding(suppress, elements, mask, equivariant=True)
    assert_sets_independent(suppress, elements, mask)
    assert not suppress(elements, mask)[~mask].any()


def test_suppression_follows_the_order_of_the_boxes(generator):
    elements, mask = random_sets([3, 0, 9], 5, generator)
    order = torch.randperm(9, generator=generator)
    expected = suppress(elements, mask)[:, order]
    assert suppress(elements[:, order], mask[:, order]).equal(expected)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    size=st.integers(0, 25),
    side=st.sampled_from([0.1, 0.5, 2.0]),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 0.9]),
)
def test_suppression_agrees_with_a_loop(seed, size, side, threshold):
    generator = torch.Generator().manual_seed(seed)
    boxes = random_boxes(size, generator=generator, side=side)
    scores = (torch.rand(size, generator=generator) * 8).round()  # with ties
    expected = greedy_loop(boxes, scores, threshold)
    assert non_maximum_suppression(boxes, scores, threshold=threshold).equal(expected)


def test_suppression_of_several_blocks_agrees_with_a_loop(generator):
    boxes, scores = random_boxes(150, generator=generator), torch.rand(150, generator=generator)
    expected = greedy_loop(boxes, scores, 0.4)
    assert non_maximum_suppression(boxes, scores, threshold=0.4).equal(expected)


def test_a_chain_of_overlaps_is_settled_from_the_best_box_on():
    left = torch.arange(9.0)
    boxes = torch.stack([left, left * 0, left + 2, left * 0 + 1], dim=1)  # each overlaps the next
    keep = non_maximum_suppression(boxes, -left, threshold=0.3)
    assert keep.tolist() == [True, False] * 4 + [True]


def test_batched_suppression_equals_one_set_at_a_time(generator):
    boxes = random_boxes(3, 20, generator=generator)
    scores = torch.rand(3, 20, generator=generator)
    each = [non_maximum_suppression(*one) for one in zip(boxes, scores, strict=True)]
    assert non_maximum_suppression(boxes, scores).equal(torch.stack(each))


def test_no_boxes_and_no_sets_are_fine():
    assert box_iou(torch.zeros(2, 0, 4), torch.zeros(2, 3, 4)).shape == (2, 0, 3)
    assert non_maximum_suppression(torch.zeros(2, 0, 4), torch.zeros(2, 0)).shape == (2, 0)
    assert non_maximum_suppression(torch.zeros(0, 3, 4), torch.zeros(0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: box_area(torch.zeros(2, 3)), r"boxes must have shape \(\.\.\., 4\), got \(2, 3\)"),
        (lambda: box_area(torch.zeros(2, 4).long()), "boxes must be floating point"),
        (
            lambda: box_iou(torch.zeros(2, 3, 4), torch.zeros(1, 3, 4)),
            r"got \(2, 3, 4\) and \(1, 3, 4\)",
        ),
        (
            lambda: box_iou(torch.zeros(2, 3, 4), None, torch.ones(2, 1, dtype=torch.bool)),
            r"mask must have shape \(2, 3\)",
        ),
        (
            lambda: non_maximum_suppression(torch.zeros(2, 3, 4), torch.zeros(2, 1)),
            r"scores must have shape \(2, 3\) to match boxes, got \(2, 1\)",
        ),
        (
            lambda: non_maximum_suppression(torch.zeros(3, 4), torch.zeros(3), torch.zeros(3)),
            "mask must be bool",
        ),
        (
            lambda: non_maximum_suppression(torch.zeros(3, 4), torch.zeros(3), threshold=torch.nan),
            "threshold must be a number, got nan",
        ),
    ],
)
def test_rejects_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
