"""One writer per folder: a lock that ends with its process, however that ends."""

import contextlib
import json
import os
import platform
import warnings
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: the file names the holder, but stops nobody
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = ".lock"


class FolderLock:
    """The right to write into a folder, until :meth:`release`, collection or the process' end.

    The lock belongs to the open file and not to its name or content, and the kernel drops it when
    the process dies: a file left over by ``kill -9`` or copied with its folder locks nothing.
    In the same process a new lock takes the folder over from the earlier one.
    A forked child does not hold it, so a worker that outlives a killed run does not either.

    Raises:
        BlockingIOError: If another process holds the folder; names it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_FILE
        self.handle = self._open()
        self._release = weakref.finalize(self, _release, self.handle, self.path, os.getpid())
        _held[_identity(self.handle)] = self
        holder = {"pid": os.getpid(), "host": platform.node()}
        try:
            os.ftruncate(self.handle, 0)
            os.write(self.handle, json.dumps(holder).encode())
        except OSError:
            self.release()
            raise

    @property
    def held(self) -> bool:
        return self._release.alive

    def release(self) -> None:
        self._release()

    def forget(self) -> None:
        """Close the file without ending the lock: for a forked child."""
        if self._release.detach() is not None:
            os.close(self.handle)

    def _open(self) -> int:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            earlier = _held.get(_identity(handle))
            if earlier is not None and earlier.held:
                os.close(handle)
                earlier.release()
                continue
            try:
                _lock(handle, self.path)
            except BaseException:
                os.close(handle)
                raise
            if _is_at(handle, self.path):
                return handle
            os.close(handle)  # its last holder removed it meanwhile


_held: weakref.WeakValueDictionary[tuple[int, int], FolderLock] = weakref.WeakValueDictionary()


def _lock(handle: int, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(
            f"folder must be written by one process at a time, got {path.parent}, which "
            f"{_holder(handle)} is writing to; wait for it or stop it"
        ) from None
    except OSError as error:  # some network file systems have no locks
        warnings.warn(
            f"{path.parent} cannot be locked ({error.strerror}): make sure that no other process "
            "writes to it",
            stacklevel=5,
        )


def _holder(handle: int) -> str:
    try:
        about = json.loads(os.pread(handle, 1000, 0))
        return f"process {about['pid']} on {about['host']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has only just been locked
        return "another process"


def _identity(handle: int) -> tuple[int, int]:
    about = os.fstat(handle)
    return about.st_dev, about.st_ino


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _release(handle: int, path: Path, process: int) -> None:
    # Removed while still locked, so that whoever opens it now sees in _open that it is gone.
    with contextlib.suppress(OSError):
        if process == os.getpid() and _is_at(handle, path):
            path.unlink()
    os.close(handle)


def _forget_all() -> None:
    for lock in list(_held.values()):
        lock.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
