import numpy as np
import pytest
import torch

from torchsets.data import resize, resize_and_crop, resize_bilinear


def channels_first(picture):
    return picture if picture.ndim == 2 else picture.permute(2, 0, 1)


@pytest.mark.parametrize(
    ("before", "after"), [("grey_28", "grey_30"), ("rgb_32", "rgb_33"), ("rgb_32", "rgb_35")]
)
def test_gives_the_bytes_of_pillow(before, after, golden):
    arrays = golden("mosaic_resize")
    expected = channels_first(arrays[after])
    actual = resize_bilinear(channels_first(arrays[before]), tuple(expected.shape[-2:]))
    assert torch.equal(actual, expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [((9, 7), (20, 31)), ((9, 7), (9, 3)), ((40, 40), (16, 16)), ((5, 1), (8, 2))],
)
def test_gives_the_bytes_of_the_installed_pillow(before, after, generator):
    image = pytest.importorskip("PIL.Image", reason="needs Pillow: torchsets[pictures]")
    pixels = torch.randint(256, (*before, 3), generator=generator, dtype=torch.uint8)
    picture = image.fromarray(pixels.numpy()).resize(after[::-1], image.Resampling.BILINEAR)
    expected = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    assert torch.equal(resize_bilinear(pixels.permute(2, 0, 1), after), expected)


@pytest.mark.parametrize("size", [(20, 31), (4, 5), (9, 3), (17, 7)])
def test_floats_match_torch(size, generator):
    images = torch.randn(2, 3, 9, 7, generator=generator, dtype=torch.float64)
    expected = torch.nn.functional.interpolate(
        images, size, mode="bilinear", antialias=True, align_corners=False
    )
    torch.testing.assert_close(resize_bilinear(images, size), expected)


def test_bytes_are_within_a_rounding_of_the_floats(generator):
    images = torch.randint(256, (4, 12, 10), generator=generator, dtype=torch.uint8)
    exact = resize_bilinear(images.double(), (7, 25))
    difference = resize_bilinear(images, (7, 25)).double() - exact
    assert difference.abs().max() <= 1  # half a level from each pass


@pytest.mark.parametrize("group", [1, 300])
def test_groups_do_not_matter(group, generator, monkeypatch):
    images = torch.randint(256, (5, 2, 12, 10), generator=generator, dtype=torch.uint8)
    expected = resize_bilinear(images, (9, 11))
    monkeypatch.setattr(resize, "_GROUP", group)
    assert torch.equal(resize_bilinear(images, (9, 11)), expected)


def test_the_same_size_gives_a_copy(generator):
    images = torch.randint(256, (2, 5, 6), generator=generator, dtype=torch.uint8)
    same = resize_bilinear(images, (5, 6))
    assert torch.equal(same, images)
    same.zero_()
    assert images.any()


def test_a_constant_picture_stays_constant():
    images = torch.full((1, 28, 28), 255, dtype=torch.uint8)
    assert (resize_bilinear(images, (30, 13)) == 255).all()


@pytest.mark.parametrize(("shape", "scaled"), [((12, 30), (8, 20)), ((31, 12), (20, 8))])
def test_the_middle_is_cut_out_of_oblong_pictures(shape, scaled, generator):
    images = torch.randint(256, (3, *shape), generator=generator, dtype=torch.uint8)
    whole = resize_bilinear(images, scaled)
    top, left = ((side - 8) // 2 for side in scaled)
    assert torch.equal(resize_and_crop(images, 8), whole[:, top : top + 8, left : left + 8])


@pytest.mark.parametrize(
    ("images", "size", "message"),
    [
        (torch.zeros(5), (2, 2), r"images must have shape \(\.\.\., H, W\) with pixels"),
        (torch.zeros(2, 0, 5), (2, 2), r"with pixels, got \(2, 0, 5\)"),
        (torch.zeros(2, 5, 5).long(), (2, 2), "images must be uint8 or floating point"),
        (torch.zeros(2, 5, 5), (0, 2), r"size must be at least 1 x 1, got \(0, 2\)"),
    ],
)
def test_rejects_bad_input(images, size, message):
    with pytest.raises(ValueError, match=message):
        resize_bilinear(images, size)


def test_an_empty_batch_stays_empty():
    assert resize_bilinear(torch.zeros(0, 3, 5, 5), (2, 4)).shape == (0, 3, 2, 4)
