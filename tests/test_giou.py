import pytest
import torch

from torchsets.boxes import box_iou, centres_to_corners, corners_to_centres
from torchsets.giou import box_giou, paired_giou


def draw(*shape, generator, dtype=torch.float64):
    corner = torch.rand(*shape, 2, dtype=dtype, generator=generator)
    return torch.cat([corner, corner + torch.rand(*shape, 2, dtype=dtype, generator=generator)], -1)


def slow_giou(box, other):
    """The definition, with plain numbers."""
    (x1, y1, x2, y2), (u1, v1, u2, v2) = box.tolist(), other.tolist()
    shared = max(0, min(x2, u2) - max(x1, u1)) * max(0, min(y2, v2) - max(y1, v1))
    union = (x2 - x1) * (y2 - y1) + (u2 - u1) * (v2 - v1) - shared
    hull = (max(x2, u2) - min(x1, u1)) * (max(y2, v2) - min(y1, v1))
    return shared / union - (hull - union) / hull


def test_matches_the_definition_pair_by_pair(generator):
    boxes, others = draw(2, 5, generator=generator), draw(2, 4, generator=generator)
    got = box_giou(boxes, others)
    expected = [
        [[slow_giou(box, other) for other in others[b]] for box in boxes[b]] for b in range(2)
    ]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(paired_giou(boxes[:, :4], others), got[:, :4].diagonal(0, 1, 2))
    torch.testing.assert_close(
        paired_giou(boxes[0, 0], others),
        got[0, 0, :].new_tensor(
            [[slow_giou(boxes[0, 0], other) for other in row] for row in others]
        ),
    )


def test_it_is_at_most_the_intersection_over_union(generator):
    boxes, others = draw(30, generator=generator), draw(30, generator=generator)
    assert (box_giou(boxes, others) <= box_iou(boxes, others) + 1e-12).all()
    assert (box_giou(boxes, boxes).diagonal() == 1).all()


def test_no_area_over_or_underflows():
    for scale in (1e-30, 1e18):
        one = scale * torch.tensor([[0.0, 0.0, 2.0, 2.0]])
        other = scale * torch.tensor([[1.0, 0.0, 3.0, 2.0]])
        torch.testing.assert_close(box_giou(one, other), torch.tensor([[1 / 3]]))


def test_boxes_without_area_and_padding_are_far_away(generator):
    boxes = torch.tensor([[1.0, 1.0, 1.0, 1.0], [3.0, 3.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0]])
    boxes.requires_grad_()
    got = box_giou(boxes, boxes)
    assert got[:2, :2].tolist() == [[-1.0, -1.0], [-1.0, -1.0]]
    got.sum().backward()
    assert boxes.grad.isfinite().all()
    padded = torch.cat([boxes.detach()[2:], torch.full((1, 4), float("nan"))]).requires_grad_()
    mask = torch.tensor([True, False])
    got = box_giou(padded, padded, mask, mask)
    assert got.tolist() == [[1.0, -1.0], [-1.0, -1.0]]
    got.sum().backward()
    assert padded.grad[1].tolist() == [0.0] * 4


def test_gradient(generator):
    boxes, others = draw(3, generator=generator), draw(2, generator=generator) + 0.5
    assert torch.autograd.gradcheck(box_giou, (boxes.requires_grad_(), others.requires_grad_()))


@pytest.mark.parametrize(
    ("box", "other"),
    [
        ([0.5, 0.2, 0.5, 0.4], [0.5, 0.1, 0.5, 0.9]),  # no width, at the same place
        ([0.5, 0.2, 0.5, 0.4], [0.5, 0.6, 0.5, 0.9]),
        ([0.1, 0.3, 0.4, 0.3], [0.2, 0.3, 0.7, 0.3]),  # no height
        ([0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]),  # one point
        ([0.5, 0.2, 0.5, 0.4], [0.3, 0.1, 0.9, 0.9]),  # one of them without width
    ],
)
def test_boxes_without_area_have_gentle_gradients(box, other):
    pair = torch.tensor([box, other], requires_grad=True)
    paired_giou(pair[0], pair[1]).backward()
    assert pair.grad.abs().max() < 100


def test_half_precision_is_computed_in_float32():
    one = torch.tensor([[0.0, 0.0, 300.0, 300.0]]).half()
    assert box_giou(one, one).item() == 1
    assert box_giou(one, one).dtype == torch.float16


def test_centres_and_corners_are_two_forms_of_one_box(generator):
    boxes = draw(4, 3, generator=generator)
    centres = corners_to_centres(boxes)
    x1, y1, x2, y2 = boxes.unbind(-1)
    expected = torch.stack([(x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1], dim=-1)
    torch.testing.assert_close(centres, expected)
    torch.testing.assert_close(centres_to_corners(centres), boxes)
    assert torch.autograd.gradcheck(centres_to_corners, centres.requires_grad_())


def test_nothing_is_no_mistake():
    assert box_giou(torch.zeros(0, 4), torch.zeros(3, 4)).shape == (0, 3)


def test_rejects_bad_input():
    boxes = torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"boxes and others must have shapes"):
        box_giou(boxes, torch.zeros(1, 2, 4))
    with pytest.raises(ValueError, match=r"others must have shape \(\.\.\., 4\), got \(2, 3\)"):
        box_giou(boxes, torch.zeros(2, 3))
    with pytest.raises(ValueError, match="boxes must be floating point"):
        paired_giou(boxes.long(), boxes)
    with pytest.raises(ValueError, match="other_mask must be bool"):
        box_giou(boxes, boxes, None, torch.ones(2))
    with pytest.raises(ValueError, match=r"boxes must have shape \(\.\.\., 4\)"):
        centres_to_corners(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"boxes must have shape \(\.\.\., 4\)"):
        corners_to_centres(torch.zeros(2, 3))
