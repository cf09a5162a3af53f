"""Between bytes and the centred numbers that networks are trained on."""

from typing import NamedTuple

import torch
from torch import Tensor


class ColourScale(NamedTuple):
    """Mean and standard deviation of each colour, as shares of the full range.

    Attributes:
        mean: One number per channel.
        std: One number per channel.

    Example:
        >>> scale = ColourScale((0.5,), (0.25,))
        >>> scale.apply(torch.tensor([[[[0, 255]]]], dtype=torch.uint8))
        tensor([[[[-2.,  2.]]]])
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, images: Tensor) -> Tensor:
        """Bytes (B, C, H, W), or tiles (B, N, C, h, w), to floats: (value / 255 - mean) / std."""
        mean, std = self._numbers(images)
        return (images.to(mean.dtype) / 255 - mean) / std

    def undo(self, images: Tensor) -> Tensor:
        """Return floats in [0, 1] of the same shape, such as a figure needs."""
        mean, std = self._numbers(images)
        return (images * std + mean).clamp(0, 1)

    def _numbers(self, images: Tensor) -> tuple[Tensor, Tensor]:
        if images.ndim < 3 or images.shape[-3] != len(self.mean):
            raise ValueError(
                f"images must have {len(self.mean)} channels, (..., C, H, W), "
                f"got {tuple(images.shape)}"
            )
        dtype = images.dtype if images.is_floating_point() else torch.get_default_dtype()
        mean, std = torch.tensor([self.mean, self.std], dtype=dtype, device=images.device)
        return mean.view(-1, 1, 1), std.view(-1, 1, 1)


MNIST_COLOURS = ColourScale((0.1307,), (0.3081,))
# The usual numbers: these are means of the standard deviations within each picture. Over the
# dataset they are 0.247, 0.243 and 0.262, so that the scaled pictures have a variance above 1.
CIFAR10_COLOURS = ColourScale((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
IMAGENET_COLOURS = ColourScale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
