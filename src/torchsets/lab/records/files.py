"""Files of a run folder: written so that a crash or a full disk leaves what was there before."""

import contextlib
import errno
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torchsets.lab.typed import Json

SCHEMA_VERSION = 1
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")  # half of a pair is no text
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Say which file was being written, and what to do, when the system refuses."""
    try:
        yield
    except OSError as error:
        if error.errno is None or isinstance(error, BlockingIOError):  # explained already
            raise
        if error.errno in _FULL:
            raise OSError(
                f"no space left while writing {path} ({error.strerror}); everything written before "
                "is intact: free some space and resume"
            ) from error
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


def write_atomically(path: Path, text: str) -> None:
    """Write a neighbouring file, flush it to disk, and rename it to ``path``."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.writing")
    with explained(path):
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def append_line(path: Path, line: str) -> None:
    """Add a line to a file: all of it, or none of it and an error."""
    with explained(path), path.open("ab", buffering=0) as file:
        before = file.tell()
        rest = f"{line}\n".encode()
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except BaseException:
            file.truncate(before)
            raise


def drop_unfinished_line(path: Path) -> None:
    """Remove what a crash has left of a last line."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with explained(path):
            os.truncate(path, whole)


def sync(path: Path) -> None:
    """Flush a file or the entries of a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: Mapping[str, Json], *, indent: int | None = 1) -> None:
    """Replace a JSON file in one step, with the schema version in front."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **finite(content)}, indent=indent)
    write_atomically(path, text + "\n")


def read_json(path: Path) -> dict[str, Json]:
    """Read a JSON file of a run folder; raise ``ValueError`` if it is broken or too new."""
    try:
        content = _parse(_read(path))
        schema = content.pop("schema_version")
        if not isinstance(content, dict) or type(schema) is not int:
            raise TypeError("no object with a schema version")
    except _UNREADABLE as error:
        raise ValueError(f"{path} must be a JSON file of a run folder, got {error!r}") from error
    if schema > SCHEMA_VERSION:
        raise ValueError(
            f"{path} must have schema version {SCHEMA_VERSION} or less, got {schema}: "
            "it was written by a newer torchsets"
        )
    return content


def damage(path: Path) -> str | None:
    """What is wrong with a JSON file of a run folder, if anything."""
    try:
        json.loads(_read(path))["schema_version"]
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError) as error:
        return repr(error)
    return None


def finite(content: Any) -> Any:
    """JSON knows no nan and no infinity: they become null, and a report shows them as missing."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {str(key): finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    return content


def read_lines(path: Path) -> list[dict[str, Json]]:
    """Read a file of one JSON object per line; none if it is missing."""
    if not path.exists():
        return []
    # What follows the last line's end is being written, or was cut off by a crash.
    try:
        *lines, _ = _read(path).split(b"\n")
        read = [_parse(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} must hold one JSON object per line, got {error}") from error
    for line in read:
        if not isinstance(line, dict):
            raise ValueError(f"{path} must hold one JSON object per line, got {line!r}")
    return read


def _parse(raw: bytes) -> Any:
    content = json.loads(raw)
    if _SURROGATE.search(raw):
        json.dumps(content, ensure_ascii=False).encode()  # no page could be written of a half
    return content


def _read(path: Path) -> bytes:
    """The bytes of a regular file: a pipe of that name would never end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no regular file")
    return path.read_bytes()
