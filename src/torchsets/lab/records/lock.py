"""One writer per folder: a lock that ends with its process, however that ends."""

import json
import os
import platform
import warnings
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system: the file names the writer, but stops nobody
    fcntl = None  # type: ignore[assignment]  # mypy expects the module

LOCK_FILE = ".lock"


class FolderLock:
    """The right to write into a folder, until :meth:`release`, collection or the process' end.

    The kernel drops the lock when the process dies: a file left over by ``kill -9``, by a finished
    run or by a copy of the folder locks nothing.

    Raises:
        BlockingIOError: If this or another process is writing to the folder; names it.
    """

    def __init__(self, folder: Path) -> None:
        self._handle: int | None = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(self._handle, folder)
            os.ftruncate(self._handle, 0)
            about = {"pid": os.getpid(), "host": platform.node()}
            os.write(self._handle, json.dumps(about).encode())
        except BaseException:
            self.release()
            raise

    @property
    def held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if hasattr(self, "_handle"):  # not if the file could not be opened
            self.release()


def _lock(handle: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(_describe_writer(handle, folder)) from None
    except OSError as error:  # some network file systems have no locks
        warnings.warn(
            f"{folder} cannot be locked ({error.strerror}): make sure that no other process "
            "writes to it",
            stacklevel=5,
        )


def _describe_writer(handle: int, folder: Path) -> str:
    try:
        about = json.loads(os.pread(handle, 1000, 0))
        pid, host = about["pid"], about["host"]
    except (OSError, ValueError, KeyError, TypeError):  # it has only just been locked
        return f"{folder} is being written by another process; wait for it or stop it"
    if (pid, host) == (os.getpid(), platform.node()):
        return f"{folder} is already open in this process; finish or close its recorder first"
    return f"{folder} is being written by process {pid} on {host}; wait for it or stop it"
