"""Questions on the disk: a folder of flat arrays that are mapped into memory, and a header."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from torchsets.data.questions.columns import COLUMNS, QuestionCollector, Questions
from torchsets.text import Vocabulary

VERSION = 1
"""Of the form of a store, and of what reads questions: a store of another version is not used."""
_HEADER = "header.json"


def store_name(source: Path) -> str:
    """What the store of a file is called: it says the file's content and our version."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{source.name.split('.')[0]}-{digest[:16]}-v{VERSION}"


class StoreWriter:
    """Writes a store beside its place, and moves it there when it is whole.

    Use as a context; on an error, or without :meth:`finish`, nothing remains.

    Args:
        path: The folder to be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._folder = path.with_name(f".{path.name}.{os.getpid()}")

    def __enter__(self) -> "StoreWriter":
        shutil.rmtree(self._folder, ignore_errors=True)  # of a process that was killed
        self._folder.mkdir(parents=True)
        self._files: dict[str, IO[bytes]] = {
            name: (self._folder / f"{name}.bin").open("wb") for name in COLUMNS
        }
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def append(self, collector: QuestionCollector) -> None:
        """Write what the collector has, and empty it."""
        for name, part in collector.take().items():
            self._files[name].write(part.tobytes())

    def finish(self, vocabulary: Vocabulary, family_names: list[str]) -> None:
        """Put the whole store in its place; one that another process put there first stays."""
        lengths = {}
        for name, file in self._files.items():
            lengths[name] = file.tell() // torch.empty(0, dtype=_dtype(name)).itemsize
            file.flush()
            os.fsync(file.fileno())
            file.close()
        header = {
            "version": VERSION,
            "lengths": lengths,
            "words": vocabulary.words,
            "families": family_names,
        }
        (self._folder / _HEADER).write_text(json.dumps(header))
        try:
            os.rename(self._folder, self.path)
        except OSError:
            if not (self.path / _HEADER).is_file():
                raise


def load_store(path: Path) -> Questions:
    """Map a store into memory.

    Raises:
        ValueError: If it is damaged; the message says to remove it.
    """
    try:
        header: dict[str, Any] = json.loads((path / _HEADER).read_text())
        columns = {name: _map(path, name, header["lengths"][name]) for name in COLUMNS}
        return Questions(columns, Vocabulary(header["words"]), header["families"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}; remove it to make it again") from error


def _map(path: Path, name: str, length: int) -> Tensor:
    file, dtype = path / f"{name}.bin", _dtype(name)
    expected = length * torch.empty(0, dtype=dtype).itemsize
    if file.stat().st_size != expected:
        raise ValueError(f"{file.name} must have {expected} bytes, got {file.stat().st_size}")
    if length == 0:
        return torch.empty(0, dtype=dtype)
    return torch.from_file(str(file), shared=False, size=length, dtype=dtype)


def _dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, COLUMNS[name])
    return dtype
