"""Files of a run folder: written so that a crash or a full disk leaves what was there before."""

import contextlib
import errno
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
                f"the disk must have room for {path}, got a full one ({error.strerror}); "
                "what was written before is not lost: free some space"
            ) from error
        reason = error.strerror or error
        raise OSError(f"{path} must be a place that can be written to, got {reason}") from error


def write_atomically(path: Path, text: str) -> None:
    """Write a neighbouring file, bring it to the disk, and put it in the place of ``path``."""
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
    """Bring a file or the entries of a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: Mapping[str, Any], *, indent: int | None = 1) -> None:
    """Replace a JSON file in one step, with the schema version in front."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **finite(content)}, indent=indent)
    write_atomically(path, text + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file of a run folder; raise ``ValueError`` if it is broken or too new."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        schema = content.pop("schema_version")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} must be a JSON file of a run folder, got {error!r}") from error
    if schema > SCHEMA_VERSION:
        raise ValueError(
            f"{path} must have schema version {SCHEMA_VERSION} or less, got {schema}: "
            "it was written by a newer torchsets"
        )
    return dict(content)


def damage(path: Path) -> str | None:
    """What is wrong with a JSON file of a run folder, if anything."""
    try:
        json.loads(path.read_bytes())["schema_version"]
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
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


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of one JSON object per line; none if it is missing."""
    if not path.exists():
        return []
    # What follows the last line's end is being written, or was cut off by a crash.
    *lines, _ = path.read_bytes().split(b"\n")
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} must hold one JSON object per line, got {error}") from error
