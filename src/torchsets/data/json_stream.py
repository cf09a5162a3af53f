"""Read a long list of records out of a JSON file in one pass, a few at a time in memory."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

_CHUNK = 1 << 20  # characters read at a time
_LONGEST = 1 << 24  # characters of one value: more means that the file is no such list
_SPACE = " \t\n\r"
_DECODER = json.JSONDecoder()


def read_records(path: Path, key: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in the list ``key`` of a JSON file, ``.json`` or ``.json.gz``.

    Raises:
        ValueError: Where the file is cut off, or is no JSON object with such a list. What was
            yielded before is valid, so a caller must not keep it.
        OSError: If there is no such file.
    """
    for record in _read(path, lambda reader: reader.records(key)):
        if not isinstance(record, dict):
            raise ValueError(f'{path} must have objects in "{key}", got {record!r:.40}')
        yield record


def read_values(path: Path) -> Iterator[Any]:
    """Yield the values of a JSON file that is a list, ``.json`` or ``.json.gz``.

    Raises:
        ValueError: Where the file is cut off, or is no JSON list; as from :func:`read_records`.
        OSError: If there is no such file.
    """
    return _read(path, lambda reader: reader.whole_list())


def _read(path: Path, parse: Callable[["_Reader"], Iterator[Any]]) -> Iterator[Any]:
    try:
        opened = (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8")
        )
        with opened as file:
            yield from parse(_Reader(file))
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is cut off or damaged: {error}") from error
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    except _WrongFormError as error:
        raise ValueError(f"{path} {error}") from None


class _WrongFormError(Exception):
    """The text is not what it should be."""


class _Reader:
    """The part of the text that is in memory, and the place in it that is read next."""

    def __init__(self, file: TextIO) -> None:
        self.file, self.text, self.place = file, "", 0

    def whole_list(self) -> Iterator[Any]:
        yield from self._list()
        self._end("list")

    def records(self, key: str) -> Iterator[Any]:
        self._take("{")
        while self._name() != key:
            self._value()
            if self._take(",}") == "}":
                raise _WrongFormError(f'must have a list "{key}", got none')
        yield from self._list()
        while self._take(",}") == ",":  # what stands behind the list must be whole, too
            self._name()
            self._value()
        self._end("object")

    def _end(self, kind: str) -> None:
        while not (rest := self.text[self.place :].strip(_SPACE)):
            if not self._read_on():
                return
        raise _WrongFormError(f"must be a JSON {kind}, got {rest!r:.40} behind it")

    def _list(self) -> Iterator[Any]:
        self._take("[")
        if self._peek() == "]":
            self.place += 1
            return
        while True:
            yield self._value()
            if self._take(",]") == "]":
                return

    def _name(self) -> str:
        if self._peek() != '"':
            raise _WrongFormError(f'must be JSON: expected a name, got "{self._peek()}"')
        name: str = self._value()
        self._take(":")
        return name

    def _peek(self) -> str:
        """The next character that is no space."""
        while True:
            while self.place < len(self.text):
                if self.text[self.place] not in _SPACE:
                    return self.text[self.place]
                self.place += 1
            if not self._read_on():
                raise EOFError("the file ends early")

    def _take(self, expected: str) -> str:
        found = self._peek()
        if found not in expected:
            wanted = " or ".join(f'"{one}"' for one in expected)
            raise _WrongFormError(f'must be JSON: expected {wanted}, got "{found}"')
        self.place += 1
        return found

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.place)
            except json.JSONDecodeError as error:
                if len(self.text) - self.place > _LONGEST:
                    raise _WrongFormError(f"must be JSON: {error.msg}") from None
                if not self._read_on():
                    raise EOFError(f"the file ends early, or is no JSON ({error.msg})") from None
                continue
            # A number that ends with the text in memory, or just before, as in "1e-", may go on.
            if len(self.text) - end <= 2 and not self.text[end:].strip(".eE+-"):
                end -= self.place
                if self._read_on():
                    continue
            self.place = end
            return value

    def _read_on(self) -> bool:
        """Drop what was read and add a chunk; whether there was more."""
        chunk = self.file.read(_CHUNK)
        self.text, self.place = self.text[self.place :] + chunk, 0
        return bool(chunk)
