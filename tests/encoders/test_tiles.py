import pytest
import torch

from torchsets.encoders import TileEncoder
from torchsets.testing import assert_permutation_equivariant, assert_sets_independent


def load(arrays):
    weight = arrays["param.conv_weight"]
    encoder = TileEncoder(weight.shape[1], len(weight)).double()
    encoder.load_state_dict({"conv.weight": weight, "conv.bias": arrays["param.conv_bias"]})
    return encoder


@pytest.mark.parametrize("name", ["mosaic_cnn_tile6", "mosaic_cnn_tile7"])
def test_agrees_with_the_authors_numbers(name, golden):
    arrays = golden(name)
    encoder = load(arrays)
    tiles = arrays["x"].transpose(1, 2).requires_grad_()
    features = encoder(tiles)
    torch.testing.assert_close(features, arrays["out"], rtol=1e-6, atol=1e-10)
    (features * arrays["cot"]).sum().backward()
    for actual, expected in (
        (tiles.grad, arrays["grad_x"].transpose(1, 2)),
        (encoder.conv.weight.grad, arrays["grad.conv_weight"]),
        (encoder.conv.bias.grad, arrays["grad.conv_bias"]),
    ):
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-10)


def test_features_follow_their_tiles(generator):
    encoder = TileEncoder(2, 3).double()

    def encode(flat, mask):
        return encoder(flat.unflatten(2, (2, 4, 5)))

    flat = torch.randn(3, 4, 40, generator=generator, dtype=torch.float64)
    mask = torch.ones(3, 4, dtype=torch.bool)
    assert_permutation_equivariant(encode, flat, mask)
    assert_sets_independent(encode, flat, mask)


@pytest.mark.parametrize(("height", "width"), [(14, 14), (7, 10), (3, 2)])
def test_the_number_of_features_is_known_before(height, width, generator):
    encoder = TileEncoder(1, 6)
    tiles = torch.randn(2, 3, 1, height, width, generator=generator)
    assert encoder(tiles).shape == (2, 3, encoder.width(height, width))
    assert encoder(tiles[:0]).shape == (0, 3, encoder.width(height, width))
    assert encoder(tiles[:, :0]).shape == (2, 0, encoder.width(height, width))


def test_gradient(generator):
    encoder = TileEncoder(1, 2, kernel=3).double()
    tiles = torch.randn(1, 2, 1, 5, 4, generator=generator, dtype=torch.float64).requires_grad_()
    parameters = (encoder.conv.weight, encoder.conv.bias)
    assert torch.autograd.gradcheck(lambda x, *_: encoder(x), (tiles, *parameters))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 0, "features": 4}, "channels must be at least 1, got 0"),
        ({"channels": 1, "features": 0}, "features must be at least 1, got 0"),
        ({"channels": 1, "features": 4, "kernel": 4}, "kernel must be odd, got 4"),
    ],
)
def test_rejects_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        TileEncoder(**options)


@pytest.mark.parametrize(
    ("tiles", "message"),
    [
        (torch.zeros(2, 4, 3, 6, 6), r"tiles must have shape \(B, N, channels, h, w\)"),
        (torch.zeros(2, 4, 6, 6), r"tiles must have shape \(B, N, channels, h, w\)"),
        (torch.zeros(2, 4, 1, 6, 6).byte(), "tiles must be floating point"),
        (torch.zeros(2, 4, 1, 6, 1), "tiles must have at least 2 x 2 pixels, got 6 x 1"),
    ],
)
def test_rejects_bad_tiles(tiles, message):
    with pytest.raises(ValueError, match=message):
        TileEncoder(1, 2)(tiles)
