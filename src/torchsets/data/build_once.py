"""Folders that take long to make: made once, by one process, whole or not at all."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from torchsets._catalogue import cache_folder

try:
    import fcntl
except ImportError:  # not a POSIX system: two processes may both build, the first to end wins
    fcntl = None  # type: ignore[assignment]  # mypy expects the module


def made_folder() -> Path:
    """Where things that can be made again are kept: ``torchsets/made`` in the user's cache."""
    return cache_folder() / "made"


def build_once(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return a folder that exists and is whole.

    If it is missing, ``build`` is called with another, empty folder, which is renamed when
    everything is in it. A second process waits for the first one, whose lock ends with it, however
    it ends; what a killed process has left behind is removed by the next one.

    Args:
        folder: Where the folder is, or will be.
        build: Fills the folder that it is called with.

    Raises:
        OSError: If the folder cannot be written.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():  # another process has built it in the meantime
            return folder
        suffix = "building" if fcntl is not None else f"{os.getpid()}.building"
        unfinished = folder.with_name(f"{folder.name}.{suffix}")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            build(unfinished)
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            if fcntl is None and folder.is_dir():
                return folder
            raise
    return folder


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock of a file. The empty file stays: another process may be waiting for it."""
    with path.open("a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
