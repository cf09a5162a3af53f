"""Read arrays in the idx format, in which MNIST and its kin are published."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path) -> np.ndarray[Any, Any]:
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
    content = _read_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise ValueError(f"{path} must be an idx file, got one that begins with {content[:4]!r}")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise ValueError(f"{path} must state {content[3]} sizes, got {len(content)} bytes in all")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    kind = np.dtype(_TYPES[content[2]])
    expected = start + math.prod(shape) * kind.itemsize
    if len(content) != expected:
        state = "cut off" if len(content) < expected else "too long"
        raise ValueError(
            f"{path} must have {expected} bytes for an array of shape {shape}, "
            f"got {len(content)}: it is {state}"
        )
    values = np.frombuffer(content, dtype=kind, offset=start).reshape(shape)
    return values.astype(kind.newbyteorder("="))


def _read_bytes(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} must be a whole gzip file, got one with: {error}") from error
