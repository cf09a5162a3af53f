import pytest
import torch

from torchsets.boxes import box_iou
from torchsets.data import toy_counting_sets


def test_counts_are_uniform_and_match_the_true_boxes(generator):
    sets = toy_counting_sets(11_000, side=0.3, noise=0.5, generator=generator)
    assert sets.counts.equal(sets.true.sum(dim=1))
    share = torch.bincount(sets.counts, minlength=11) / 11_000
    torch.testing.assert_close(share, torch.full((11,), 1 / 11), rtol=0.15, atol=0)  # 5 sigma
    places = sets.true.double().mean(dim=0)  # every slot is true equally often
    torch.testing.assert_close(places, torch.full_like(places, 0.5), rtol=0.05, atol=0)


@pytest.mark.parametrize("side", [0.1, 0.7, 1.0])
def test_boxes_are_squares_inside_the_image(side, generator):
    boxes = toy_counting_sets(500, side=side, noise=0.5, generator=generator).boxes
    torch.testing.assert_close(boxes[..., 2:] - boxes[..., :2], torch.full((500, 10, 2), side))
    assert boxes.min() >= 0
    assert boxes.max() <= 1
    if side < 1:
        assert boxes[..., :2].max() > 0.95 * (1 - side)


def test_without_noise_a_weight_is_the_largest_overlap_with_a_true_box(generator):
    sets = toy_counting_sets(20, side=0.5, noise=0.0, generator=generator)
    for boxes, weights, true in zip(sets.boxes, sets.weights, sets.true, strict=True):
        if true.any():
            torch.testing.assert_close(weights, box_iou(boxes, boxes[true]).amax(dim=1))
        else:
            assert weights.tolist() == [0.0] * 10
    assert (sets.weights[sets.true] == 1).all()


def test_noise_is_mixed_in_by_its_share():
    clean, mixed, noisy = (
        toy_counting_sets(50, side=0.4, noise=q, generator=torch.Generator().manual_seed(3))
        for q in (0.0, 0.25, 1.0)
    )
    torch.testing.assert_close(mixed.weights, 0.75 * clean.weights + 0.25 * noisy.weights)
    assert abs(noisy.weights.mean().item() - 0.5) < 0.05


def test_no_sets_are_fine():
    assert toy_counting_sets(0, side=0.4, noise=0.5).weights.shape == (0, 10)


@pytest.mark.parametrize(
    ("side", "noise", "message"),
    [
        (0.0, 0.5, "side must be above 0 and at most 1, got 0.0"),
        (1.1, 0.5, "side must be above 0 and at most 1, got 1.1"),
        (0.5, -0.1, "noise must be from 0 to 1, got -0.1"),
    ],
)
def test_rejects_bad_options(side, noise, message):
    with pytest.raises(ValueError, match=message):
        toy_counting_sets(2, side=side, noise=noise)


def test_sets_have_boxes():
    with pytest.raises(ValueError, match="boxes must be at least 1, got 0"):
        toy_counting_sets(2, side=0.5, noise=0.0, boxes=0)


def test_squares_too_small_for_an_area_overlap_nothing(generator):
    sets = toy_counting_sets(4, side=1e-30, noise=0.0, generator=generator)
    assert sets.weights.tolist() == torch.zeros(4, 10).tolist()
