"""Read arrays in the idx format, in which MNIST and datasets like it are published."""

import gzip
import math
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np

from torchsets._inputs import Array

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_PORTION = 1 << 20  # bytes


def read_idx(path: str | Path) -> Array:
    """Read one idx file, plain or compressed (``.gz``).

    Args:
        path: The file.

    Returns:
        The array in the shape, and of the type, that the file states.

    Raises:
        ValueError: If the file is cut off, has bytes left over, or is no idx file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
        >>> read_idx(path)
        array([7, 2, 1], dtype=uint8)
    """
    path = Path(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            kind, shape = _read_head(stream, path)
            size = math.prod(shape) * kind.itemsize
            # One byte more shows what is too long. All of it could be a thousand times the file.
            content = _read_at_most(stream, size + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} must be a whole gzip file, got one with: {error}") from error
    if len(content) != size:
        start = 4 + 4 * len(shape)
        got = f"{start + len(content)}: it is cut off" if len(content) < size else "more: too long"
        raise ValueError(
            f"{path} must have {start + size} bytes for an array of shape {shape}, got {got}"
        )
    try:
        values = np.frombuffer(content, dtype=kind).reshape(shape)
    except ValueError as error:  # too many axes, or too large ones beside one of 0
        raise ValueError(f"{path} must state the shape of an array, got {shape}") from error
    return values.astype(kind.newbyteorder("="))


def _read_head(stream: BufferedIOBase, path: Path) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type and the shape that the file states."""
    start = _read_at_most(stream, 4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES:
        raise ValueError(f"{path} must be an idx file, got one that begins with {start!r}")
    sizes = _read_at_most(stream, 4 * start[3])
    if len(sizes) < 4 * start[3]:
        raise ValueError(f"{path} must state {start[3]} sizes, got {4 + len(sizes)} bytes in total")
    return np.dtype(_TYPES[start[2]]), struct.unpack(f">{start[3]}I", sizes)


def _read_at_most(stream: BufferedIOBase, size: int) -> bytes:
    """Read in portions: memory for all of ``size`` at once might be more than there is."""
    content = bytearray()
    while portion := stream.read(min(size - len(content), _PORTION)):
        content += portion
    return bytes(content)
