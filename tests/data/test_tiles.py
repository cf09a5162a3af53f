import math

import pytest
import torch

from torchsets.data import (
    CIFAR10_COLOURS,
    MNIST_COLOURS,
    ColourScale,
    gather_tiles,
    image_to_tiles,
    mosaic_size,
    resize_bilinear,
    shuffle_tiles,
    tiles_to_image,
)

GRIDS = [(1, 1), (2, 2), (3, 3), (5, 5), (1, 4), (4, 1), (2, 5)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("tile", [(1, 1), (7, 7), (3, 8)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_tiles_to_image_and_back_is_exact(grid, tile, dtype, generator):
    shape = (2, 3, grid[0] * tile[0], grid[1] * tile[1])
    images = torch.randint(256, shape, generator=generator).to(dtype)
    tiles = image_to_tiles(images, grid)
    assert tiles.shape == (2, math.prod(grid), 3, *tile)
    assert tiles.dtype == dtype
    assert torch.equal(tiles_to_image(tiles, grid), images)


@pytest.mark.parametrize("grid", GRIDS)
def test_tiles_are_numbered_row_by_row(grid, generator):
    images = torch.randn(2, 3, 4 * grid[0], 5 * grid[1], generator=generator)
    tiles = image_to_tiles(images, grid)
    row, column = grid[0] - 1, grid[1] // 2
    expected = images[:, :, 4 * row : 4 * row + 4, 5 * column : 5 * column + 5]
    assert torch.equal(tiles[:, row * grid[1] + column], expected)


def test_pictures_that_lie_transposed_and_empty_batches_work(generator):
    images = torch.randn(2, 1, 6, 4, generator=generator).mT
    assert torch.equal(tiles_to_image(image_to_tiles(images, (2, 3)), (2, 3)), images)
    assert image_to_tiles(images[:0], (2, 3)).shape == (0, 6, 1, 2, 2)
    assert tiles_to_image(torch.zeros(0, 6, 1, 2, 2), (2, 3)).shape == (0, 1, 4, 6)


@pytest.mark.parametrize(
    ("name", "colours", "grid"),
    [
        ("mosaic_tiles_grey_2x2", MNIST_COLOURS, (2, 2)),
        ("mosaic_tiles_rgb_3x3_resized", CIFAR10_COLOURS, (3, 3)),
    ],
)
def test_agrees_with_the_authors_numbers(name, colours, grid, golden):
    arrays = golden(name)
    images = arrays["image"]
    images = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)
    size = mosaic_size(images.shape[-1], grid[0])
    assert size == grid[0] * int(arrays["tile_size"])
    resized = resize_bilinear(images, (size, size))
    expected = arrays["resized"]
    assert torch.equal(
        resized, expected.unsqueeze(1) if expected.ndim == 3 else expected.permute(0, 3, 1, 2)
    )
    assert colours == ColourScale(tuple(arrays["mean"].tolist()), tuple(arrays["std"].tolist()))
    tiles = colours.apply(image_to_tiles(resized, grid).double())
    row_major = arrays["position_to_row_major"]
    torch.testing.assert_close(tiles[:, row_major], arrays["tiles_sorted"].transpose(1, 2))
    torch.testing.assert_close(tiles_to_image(tiles, grid), arrays["picture"])
    # their shuffle in our words: element i belongs to position positions[i]
    positions = row_major[arrays["position_to_element"].argsort(dim=1)]
    shuffled = gather_tiles(tiles, positions)
    torch.testing.assert_close(shuffled, arrays["tiles_shuffled"].transpose(1, 2))
    mse = (shuffled - tiles[:, row_major]).square().mean()
    torch.testing.assert_close(mse, arrays["mse_shuffled"])
    every_pair = (tiles.unsqueeze(1) - tiles.unsqueeze(2)).square().mean()
    torch.testing.assert_close(every_pair, arrays["expected_mse"])


def test_shuffling_gives_the_position_that_each_tile_came_from(generator):
    tiles = torch.arange(3 * 9).view(3, 9, 1, 1, 1)
    shuffled, positions = shuffle_tiles(tiles, generator=generator)
    assert torch.equal(shuffled[..., 0, 0, 0] - torch.tensor([[0], [9], [18]]), positions)
    assert torch.equal(gather_tiles(shuffled, positions.argsort(dim=1)), tiles)
    assert len({tuple(row) for row in positions.tolist()}) == 3  # an order for each picture


def test_shuffles_come_from_the_generator_and_every_order_is_drawn():
    tiles = torch.zeros(6000, 3, 1)
    first, again = (
        shuffle_tiles(tiles, generator=torch.Generator().manual_seed(5))[1] for _ in range(2)
    )
    assert torch.equal(first, again)
    _, counts = first.unique(dim=0, return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 850  # 1000 expected, standard deviation 29


def test_sizes_of_the_thesis():
    sizes = {side: [mosaic_size(side, n) for n in (2, 3, 4, 5)] for side in (28, 32, 64)}
    assert sizes == {28: [28, 30, 28, 30], 32: [32, 33, 32, 35], 64: [64, 66, 64, 65]}


def test_colours_go_there_and_back(generator):
    images = torch.randint(256, (2, 3, 4, 5), generator=generator, dtype=torch.uint8)
    scaled = CIFAR10_COLOURS.apply(images)
    expected = (images[0, 1, 2, 3] / 255 - 0.4822) / 0.1994
    torch.testing.assert_close(scaled[0, 1, 2, 3], expected)
    torch.testing.assert_close(CIFAR10_COLOURS.undo(scaled), images / 255)
    assert CIFAR10_COLOURS.undo(scaled * 100).amax() == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: image_to_tiles(torch.zeros(3, 8, 8), (2, 2)), r"images must have shape \(B, C"),
        (
            lambda: image_to_tiles(torch.zeros(1, 1, 28, 28), (3, 2)),
            r"that grid 3 x 2 divides, got 28 x 28; resize them to 30 x 28",
        ),
        (lambda: image_to_tiles(torch.zeros(1, 1, 8, 8), (0, 2)), r"at least one row .* got \(0"),
        (lambda: tiles_to_image(torch.zeros(1, 4, 1, 2), (2, 2)), r"tiles must have shape \(B, N"),
        (lambda: tiles_to_image(torch.zeros(1, 4, 1, 2, 2), (2, 3)), r"\(any, 6, any, any, any\)"),
        (lambda: MNIST_COLOURS.apply(torch.zeros(1, 3, 2, 2)), "images must have 1 channels"),
        (lambda: MNIST_COLOURS.undo(torch.zeros(2, 2)), "images must have 1 channels"),
    ],
)
def test_rejects_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
