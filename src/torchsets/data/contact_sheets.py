"""Many pictures on one sheet, with boxes if wanted, written as PNG without another library."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from torchsets.padded import SetBatch

_COLOURS = ((255, 80, 80), (90, 220, 90), (90, 150, 255), (255, 220, 70), (255, 120, 255))


def contact_sheet(images: Tensor, *, columns: int = 6, gap: int = 2) -> Tensor:
    """Lay out pictures row by row on a white sheet.

    Args:
        images: (S, 3, H, W), uint8.
        columns: Pictures in a row.
        gap: Pixels between pictures.

    Returns:
        One picture, (3, height, width), uint8.

    Example:
        >>> contact_sheet(torch.zeros(8, 3, 64, 64, dtype=torch.uint8)).shape
        torch.Size([3, 130, 394])
    """
    count, _, height, width = images.shape
    columns = max(1, min(columns, count))
    rows = -(-count // columns)
    sheet = images.new_full(
        (3, max(rows * (height + gap) - gap, 1), max(columns * (width + gap) - gap, 1)), 255
    )
    for place, image in enumerate(images):
        top, left = place // columns * (height + gap), place % columns * (width + gap)
        sheet[:, top : top + height, left : left + width] = image
    return sheet


def draw_boxes(images: Tensor, boxes: SetBatch) -> Tensor:
    """Draw the outlines of boxes into copies of pictures.

    Args:
        images: (S, 3, H, W), uint8.
        boxes: S sets of x1 y1 x2 y2 in [0, 1], as :func:`scene_boxes` gives them.

    Returns:
        Pictures of the same shape.
    """
    drawn = images.clone()
    height, width = images.shape[2:]
    paints = torch.tensor(_COLOURS, dtype=torch.uint8).unsqueeze(-1)  # one for each box in turn
    for image, found in zip(drawn, boxes.to_list(), strict=True):
        for number, (left, top, right, bottom) in enumerate(found.clamp(0, 1).tolist()):
            first, last = round(left * (width - 1)), round(right * (width - 1))
            high, low = round(top * (height - 1)), round(bottom * (height - 1))
            paint = paints[number % len(paints)]
            for row in (high, low):
                image[:, row, first : last + 1] = paint
            for column in (first, last):
                image[:, high : low + 1, column] = paint
    return drawn


def write_png(path: str | os.PathLike[str], image: Tensor) -> None:
    """Write a picture, (3, H, W), uint8, as PNG.

    Raises:
        ValueError: If the shape or dtype differs.
    """
    if image.ndim != 3 or image.shape[0] != 3 or image.dtype != torch.uint8:
        raise ValueError(
            f"image must be uint8 of shape (3, H, W), got {image.dtype} {tuple(image.shape)}"
        )
    height, width = image.shape[1:]
    rows = image.permute(1, 2, 0).reshape(height, 3 * width).numpy()
    # Each row begins with its filter: 1, so that bytes are differences to the pixel on the left.
    filtered = rows.copy()
    filtered[:, 3:] -= rows[:, :-3]
    lines = np.concatenate([np.ones((height, 1), np.uint8), filtered], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    with Path(path).open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for name, content in parts:
            file.write(struct.pack(">I", len(content)) + name + content)
            file.write(struct.pack(">I", zlib.crc32(name + content)))
