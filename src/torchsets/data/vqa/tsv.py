"""Rows of bottom-up ``.tsv`` files: a picture, its boxes and their features."""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_FIELDS = 6


class Picture(NamedTuple):
    """The proposals of one picture.

    Attributes:
        image_id: Its number.
        width: In pixels.
        height: In pixels.
        boxes: (n, 4), float32: x1, y1, x2, y2 in pixels.
        features: (n, D), float32.
    """

    image_id: int
    width: int
    height: int
    boxes: NDArray[np.float32]
    features: NDArray[np.float32]


def parse_row(line: bytes, features: int) -> Picture:
    """Read a row with so many features per box; raise ``ValueError`` if it is damaged."""
    fields = line.rstrip(b"\r\n").split(b"\t")
    if len(fields) != _FIELDS:
        raise ValueError(f"a row must have {_FIELDS} fields, got {len(fields)}")
    image_id, width, height, count = (int(field) for field in fields[:4])
    boxes, values = (
        _decode(field, count, columns)
        for field, columns in zip(fields[4:], (4, features), strict=True)
    )
    return Picture(image_id, width, height, boxes, values)


def count_features(path: Path) -> int:
    """The number of features per box in a file, by its first row that has a box.

    Raises:
        ValueError: If there is no such row.
    """
    with path.open("rb") as file:
        for line in file:
            fields = line.rstrip(b"\r\n").split(b"\t")
            if len(fields) == _FIELDS and fields[3].isdigit() and int(fields[3]):
                return len(base64.b64decode(fields[5])) // (4 * int(fields[3]))
    raise ValueError(f"{path} must have a row with boxes, got none")


def write_tsv(path: Path, pictures: Iterable[Picture]) -> None:
    """Write pictures as bottom-up attention does: tab-separated, arrays in base64."""
    with path.open("wb") as file:
        for one in pictures:
            numbers = (one.image_id, one.width, one.height, len(one.boxes))
            fields = [str(number).encode() for number in numbers]
            fields += [base64.b64encode(part.astype("<f4").tobytes()) for part in one[3:]]
            file.write(b"\t".join(fields) + b"\n")


def _decode(field: bytes, rows: int, columns: int) -> NDArray[np.float32]:
    try:
        data = base64.b64decode(field, validate=True)
    except binascii.Error as error:
        raise ValueError(f"an array must be base64, got something else: {error}") from error
    if rows < 0 or len(data) != 4 * rows * columns:
        raise ValueError(f"an array must have {rows} x {columns} numbers, got {len(data)} bytes")
    values = np.frombuffer(data, "<f4").astype(np.float32, copy=False).reshape(rows, columns)
    if not np.isfinite(values).all():
        raise ValueError("an array must be finite, got nan or infinity")
    return values
