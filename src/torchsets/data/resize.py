"""Bilinear rescaling that gives the same bytes as Pillow's, without Pillow."""

import torch
from torch import Tensor

# Pillow keeps weights as whole numbers of this size, and rounds after each of its two passes.
_UNIT = 1 << 22

# Pictures are rescaled in groups of about this many numbers, to bound the memory in float64.
_GROUP = 1 << 24


def resize_bilinear(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Rescale pictures; when they shrink, the filter widens, so that no pixel is left out.

    Bytes are rounded after each of the two passes, first along rows, then along columns, exactly
    as ``Image.resize(..., Resampling.BILINEAR)`` of Pillow does it. (Where the height shrinks more
    than the width, newer versions of Pillow begin with the columns, and a byte may differ by 1.)
    Floating point is not rounded.

    Args:
        images: Pictures, (..., H, W), uint8 or floating point.
        size: The new height and width.

    Returns:
        Pictures of the same dtype, (..., height, width).

    Raises:
        ValueError: If images are of another dtype or have no pixels, or a size is not positive.

    Example:
        >>> resize_bilinear(torch.tensor([[0, 100]], dtype=torch.uint8), (1, 4))
        tensor([[  0,  25,  75, 100]], dtype=torch.uint8)
    """
    if images.ndim < 2 or 0 in images.shape[-2:]:
        raise ValueError(
            f"images must have shape (..., H, W) with pixels, got {tuple(images.shape)}"
        )
    if not (images.dtype == torch.uint8 or images.is_floating_point()):
        raise ValueError(f"images must be uint8 or floating point, got {images.dtype}")
    if min(size) < 1:
        raise ValueError(f"size must be at least 1 x 1, got {tuple(size)}")
    if images.shape[-2:] == tuple(size):
        return images.clone()
    flat = images.reshape(-1, *images.shape[-2:])
    pixels = max(images.shape[-2] * images.shape[-1], images.shape[-2] * size[1])
    parts = [_resize(part, size) for part in torch.split(flat, max(1, _GROUP // pixels))]
    return torch.cat(parts).view(*images.shape[:-2], *size)


def resize_and_crop(images: Tensor, size: int) -> Tensor:
    """Rescale the shorter side to ``size`` and cut out the middle.

    Args:
        images: Pictures, (..., H, W), uint8 or floating point.
        size: Height and width of the result.

    Returns:
        Square pictures of the same dtype, (..., size, size).

    Example:
        >>> resize_and_crop(torch.rand(3, 30, 40), 10).shape
        torch.Size([3, 10, 10])
    """
    height, width = images.shape[-2:]
    shorter = max(1, min(height, width))
    images = resize_bilinear(images, (size * height // shorter, size * width // shorter))
    top, left = (round((side - size) / 2) for side in images.shape[-2:])
    return images[..., top : top + size, left : left + size]


def _resize(images: Tensor, size: tuple[int, int]) -> Tensor:
    """Both passes, horizontal first. Sums of whole numbers in float64 are exact here."""
    whole = images.dtype == torch.uint8
    wide = images.to(torch.float64 if whole else torch.promote_types(images.dtype, torch.float32))
    for axis in (-1, -2):
        before, after = wide.shape[axis], size[axis]
        if before == after:
            continue
        weights = _weights(before, after).to(wide)
        if whole:
            weights = (weights * _UNIT + 0.5).floor()
        wide = wide @ weights.mT if axis == -1 else weights @ wide
        if whole:
            wide = ((wide + _UNIT // 2) / _UNIT).floor_().clamp_(0, 255)
    return wide.to(images.dtype)


def _weights(before: int, after: int) -> Tensor:
    """How much each old pixel counts for each new one, (after, before), float64."""
    scale = before / after
    width = max(scale, 1.0)
    centre = (torch.arange(after, dtype=torch.float64) + 0.5).unsqueeze(1) * scale
    distance = (torch.arange(before, dtype=torch.float64) + 0.5 - centre).abs()
    weights = (1 - distance / width).clamp(min=0)
    return weights / weights.sum(dim=1, keepdim=True)
