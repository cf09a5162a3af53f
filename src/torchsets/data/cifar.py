"""CIFAR-10 from its official binary version."""

import io
import re
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from torchsets._catalogue import CIFAR10
from torchsets._downloads import find_file
from torchsets._inputs import Array

_NAMES = {"train": r"data_batch_\d+\.bin", "test": r"test_batch\.bin"}
_RECORD = 1 + 3 * 32 * 32  # a label, then the red, green and blue planes row by row
_LARGEST = 1 << 28  # bytes of the unpacked archive, which has 184 million


def cifar10_images(
    split: str, *, mirrors: Sequence[str] = CIFAR10.mirrors
) -> tuple[Tensor, Tensor]:
    """Load CIFAR-10 as pictures: 50000 for training and 10000 for testing, if the files are whole.

    The folder ``cifar10`` of ``TORCHSETS_DATA`` (by default of the user's cache) may hold the
    archive ``cifar-10-binary.tar.gz`` or the unpacked folder ``cifar-10-batches-bin``, which goes
    first. A file that lies there is accepted if its form is right, with any number of batches and
    pictures; what is downloaded must be the published archive.

    Args:
        split: "train" or "test".
        mirrors: Where to download from.

    Returns:
        Pictures, (S, 3, 32, 32), uint8, and the class of each, (S,), long.

    Raises:
        ValueError: If a file is cut off or has another form.
        OSError: If the files are missing and cannot be downloaded.
    """
    if split not in _NAMES:
        raise ValueError(f'split must be "train" or "test", got {split!r}')
    folder = CIFAR10.path(CIFAR10.unpacked)
    if folder.is_dir():
        batches = _read_folder(folder, _NAMES[split])
    else:
        ((name, md5),) = CIFAR10.md5.items()
        archive = CIFAR10.path(name)
        if not archive.exists():
            find_file(archive, md5=md5, mirrors=mirrors)
        batches = _read_archive(archive, _NAMES[split])
    records = np.concatenate(batches)
    labels = torch.from_numpy(records[:, 0].astype(np.int64))
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()), labels


def _read_folder(folder: Path, pattern: str) -> list[Array]:
    paths = sorted(path for path in folder.iterdir() if re.fullmatch(pattern, path.name))
    if not paths:
        raise FileNotFoundError(f"{folder} holds no file {_readable(pattern)}")
    return [_records(path.read_bytes(), str(path)) for path in paths]


def _read_archive(archive: Path, pattern: str) -> list[Array]:
    """Read members where they are: nothing is unpacked, so no path in the archive matters."""
    batches = {}
    try:
        # Decompressed first: a stream that ends early would pass for the end of the archive.
        with tarfile.open(fileobj=io.BytesIO(_decompress(archive.read_bytes()))) as files:
            for member in files:
                name = Path(member.name).name
                wanted = member.isfile() and re.fullmatch(pattern, name)  # no link
                content = files.extractfile(member) if wanted else None
                if content is not None:
                    batches[name] = _records(content.read(), f"{name} in {archive}")
    except (EOFError, zlib.error, tarfile.TarError) as error:
        raise ValueError(
            f"{archive} must be a whole .tar.gz file, got one with: {error}; remove it to "
            "download it again"
        ) from error
    if not batches:
        raise ValueError(f"{archive} must hold {_readable(pattern)}, got no such file in it")
    return [batches[name] for name in sorted(batches)]


def _decompress(content: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    plain = stream.decompress(content, _LARGEST)
    if not stream.eof and len(plain) == _LARGEST:
        raise EOFError(f"more than {_LARGEST >> 20} MB unpacked")
    if not stream.eof:
        raise EOFError("the file ends early")
    return plain


def _records(content: bytes, name: str) -> Array:
    if len(content) == 0 or len(content) % _RECORD:
        raise ValueError(
            f"{name} must have a multiple of {_RECORD} bytes, one label and 32 x 32 pixels in "
            f"three colours each, got {len(content)}: it is cut off or no batch of CIFAR-10"
        )
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, _RECORD)
    if records[:, 0].max() > 9:
        raise ValueError(
            f"{name} must have labels from 0 to 9, got {records[:, 0].max()}: it is no batch of "
            "CIFAR-10"
        )
    return records


def _readable(pattern: str) -> str:
    return "data_batch_1.bin" if "data" in pattern else "test_batch.bin"
