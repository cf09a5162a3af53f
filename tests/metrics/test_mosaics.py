import math
from itertools import permutations

import pytest
import torch

from torchsets._catalogue import MNIST
from torchsets.data import (
    image_to_tiles,
    mnist_images,
    mosaic_size,
    resize_bilinear,
)
from torchsets.metrics import accuracy_ceiling, mosaic_scores


def as_matrix(positions, size):
    return torch.nn.functional.one_hot(torch.tensor(positions), size).double()


def test_agrees_with_the_authors_numbers(golden):
    arrays = golden("mosaic_accuracy_2x2")
    tiles = arrays["x"].transpose(1, 2)
    positions = arrays["position_to_element"].argsort(dim=1)
    scores = mosaic_scores(arrays["permutation"], tiles, positions)
    assert torch.equal(scores.correct, arrays["per_image_correct"])
    torch.testing.assert_close(scores.correct.double().mean(), arrays["accuracy"])
    torch.testing.assert_close(scores.error, arrays["hard_mse_per_image"])
    assert torch.equal(scores.restored, scores.correct)  # no two tiles are equal here


def test_exchanged_tiles_are_wrong_but_a_picture_with_equal_ones_is_restored():
    tiles = torch.tensor([[1.0, 5.0, 1.0, 3.0]] * 3).view(3, 4, 1, 1, 1).double()
    positions = torch.tensor([[2, 0, 1, 3]] * 3)
    soft = as_matrix([[2, 0, 1, 3], [1, 0, 2, 3], [0, 2, 1, 3]], 4)
    scores = mosaic_scores(soft, tiles, positions)
    assert scores.correct.tolist() == [True, False, False]
    assert scores.restored.tolist() == [True, True, False]
    assert scores.error.tolist() == [0.0, 0.0, 2 * 16 / 4]


def test_soft_permutations_are_made_hard(generator):
    positions = torch.tensor([[1, 2, 0]])
    noise = 0.3 * torch.rand(1, 3, 3, generator=generator, dtype=torch.float64)
    tiles = torch.rand(1, 3, 2, generator=generator, dtype=torch.float64).requires_grad_()
    scores = mosaic_scores((as_matrix([[1, 2, 0]], 3) + noise).requires_grad_(), tiles, positions)
    assert scores.correct.all()
    assert not scores.error.requires_grad


@pytest.mark.parametrize(
    ("tiles", "expected"),
    [
        ([1, 2, 3, 4], 1),
        ([1, 2, 1, 4], 1 / 2),
        ([1, 1, 2, 2], 1 / 4),
        ([3, 1, 1, 1], 1 / 6),
        ([0] * 20, 1 / math.factorial(20)),
        ([], 1),
    ],
)
def test_the_ceiling_is_what_guessing_equal_tiles_allows(tiles, expected):
    pictures = torch.tensor([tiles], dtype=torch.float32).view(1, -1, 1, 1, 1)
    assert accuracy_ceiling(pictures).item() == pytest.approx(expected, rel=1e-12)


def test_the_ceiling_is_reached_by_every_way_of_restoring_the_picture():
    tiles = torch.tensor([1.0, 0.0, 1.0, 1.0]).view(1, 4, 1)
    every = torch.tensor(list(permutations(range(4))))
    scores = mosaic_scores(
        torch.nn.functional.one_hot(every, 4).double(),
        tiles.expand(24, -1, -1).double(),
        torch.arange(4).expand(24, -1),
    )
    share = scores.correct.double().sum() / scores.restored.double().sum()
    torch.testing.assert_close(share, accuracy_ceiling(tiles)[0])


def test_bytes_and_tiles_of_several_pixels_are_compared_whole():
    tiles = torch.tensor([[[1, 2], [1, 3], [1, 2]]], dtype=torch.uint8)
    assert accuracy_ceiling(tiles).tolist() == [0.5]


@pytest.mark.parametrize(
    ("tiles", "positions", "message"),
    [
        (torch.zeros(1, 2, 3), torch.zeros(1, 3).long(), r"tiles must have shape \(1, 3\)"),
        (torch.zeros(1, 3, 3), torch.zeros(1, 2).long(), r"positions must be long with shape"),
        (torch.zeros(1, 3, 3), torch.zeros(1, 3), "positions must be long .* got torch.float32"),
    ],
)
def test_rejects_bad_input(tiles, positions, message):
    with pytest.raises(ValueError, match=message):
        mosaic_scores(torch.zeros(1, 3, 3), tiles, positions)


@pytest.mark.skipif(
    bool(MNIST.missing()),
    reason="needs MNIST: set TORCHSETS_DATA to the folder that holds mnist/",
)
@pytest.mark.parametrize(("side", "expected"), [(2, 1.0), (3, 0.736), (4, 0.038), (5, 0.0007)])
def test_the_ceilings_of_mnist(side, expected):
    images, _ = mnist_images("test")
    size = mosaic_size(28, side)
    tiles = image_to_tiles(resize_bilinear(images, (size, size)), (side, side))
    ceiling = torch.cat([accuracy_ceiling(part) for part in tiles.split(1000)]).mean()
    assert ceiling.item() == pytest.approx(expected, abs=5e-4)


def test_no_tiles_are_right_and_wrong_input_is_told():
    nothing = mosaic_scores(
        torch.zeros(2, 0, 0), torch.zeros(2, 0, 3), torch.zeros(2, 0, dtype=torch.long)
    )
    assert nothing.correct.all()
    assert nothing.error.tolist() == [0, 0]
    permutation, tiles = torch.eye(3).unsqueeze(0), torch.zeros(1, 3, 2)
    with pytest.raises(ValueError, match="positions must be the numbers from 0 to N - 1"):
        mosaic_scores(permutation, tiles, torch.tensor([[7, 7, 9]]))
    with pytest.raises(ValueError, match=r"tiles must be floating point, got torch\.uint8"):
        mosaic_scores(permutation, tiles.byte(), torch.tensor([[0, 1, 2]]))
