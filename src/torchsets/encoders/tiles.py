"""A small convolutional network on each tile of a picture."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchsets._checks import check_counts, check_floating, check_shape


class TileEncoder(nn.Module):
    """Describe each tile by the features that one convolution finds in each quarter of its pixels.

    A 5 x 5 convolution, 2 x 2 max pooling, ReLU, all places one after the other. Tiles do not see
    each other. Of odd tiles the last row and column of the convolution are left out.

    Args:
        channels: Channels of a picture.
        features: Channels of the convolution.
        kernel: Its height and width, odd.

    Attributes:
        conv: The convolution, with Xavier's initial weights.

    Example:
        >>> tiles = torch.rand(8, 9, 1, 10, 10)  # eight pictures of 3 x 3 tiles
        >>> encoder = TileEncoder(1, 64)
        >>> encoder(tiles).shape
        torch.Size([8, 9, 1600])
        >>> encoder.width(10, 10)
        1600

    Reference:
        Mena et al. (2018), "Learning latent permutations with Gumbel-Sinkhorn networks".
        https://arxiv.org/abs/1802.08665
    """

    def __init__(self, channels: int, features: int, *, kernel: int = 5) -> None:
        super().__init__()
        check_counts(channels=channels, features=features)
        if kernel < 1 or kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, got {kernel}")
        self.conv = nn.Conv2d(channels, features, kernel, padding=kernel // 2)
        nn.init.xavier_uniform_(self.conv.weight)
        nn.init.zeros_(self.conv.bias)  # type: ignore[arg-type]  # it has a bias

    def width(self, height: int, width: int) -> int:
        """How many features a tile of this size gets."""
        return self.conv.out_channels * (height // 2) * (width // 2)

    def forward(self, tiles: Tensor) -> Tensor:
        """Map tiles (B, N, channels, h, w) to features (B, N, D), D = ``width(h, w)``."""
        shape = (None, None, self.conv.in_channels, None, None)
        check_shape(tiles, shape, name="tiles", letters="(B, N, channels, h, w)")
        check_floating(tiles, name="tiles")
        height, width = tiles.shape[3:]
        if min(height, width) < 2:
            raise ValueError(f"tiles must have at least 2 x 2 pixels, got {height} x {width}")
        # Channels last: pooling, most of the work otherwise, then runs along the channels, and the
        # whole takes half the time. ReLU after pooling gives the same numbers as before it.
        pixels = tiles.flatten(0, 1).to(memory_format=torch.channels_last)
        features = functional.max_pool2d(self.conv(pixels), 2).relu_()
        return features.reshape(*tiles.shape[:2], self.width(height, width))
