"""Bottom-up ``.tsv`` files into one flat store, in one pass that can be stopped and resumed."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from torchsets.data.build_once import locked
from torchsets.data.vqa.features import COLUMNS, HEADER, VERSION, FeatureStore, load_features
from torchsets.data.vqa.tsv import Picture, parse_row

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and in total."""
_JOURNAL = "journal.json"
_LONGEST = 1 << 25  # bytes of a row; one of 100 boxes with 2048 features has 1.1 million
_SAVE = 1 << 26  # bytes read between two entries of the journal


def build_features(
    sources: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    features: int = 2048,
    half: bool = False,
    progress: Progress | None = None,
) -> FeatureStore:
    """Read bottom-up ``.tsv`` files into a folder of flat arrays, and map these into memory.

    One row is in memory at a time. Every 64 MB the arrays are flushed to disk and a journal says
    how far they go, so that after a kill the same call resumes there. When the folder is whole, the
    call only loads it. Of a picture that occurs twice the first row is kept; damaged rows (cut off,
    not base64, of another size, not finite) are left out. Both are counted in the store.

    Args:
        sources: The files, in order.
        folder: Where the store is, or will be.
        features: Features of a box.
        half: Store features as float16, which halves the size.
        progress: Called now and then with the bytes read and their total.

    Raises:
        ValueError: If the folder was begun from other files or with other options.
        OSError: If a file cannot be read, or the folder not written.
    """
    folder, paths = Path(folder), [Path(source) for source in sources]
    if not (folder / HEADER).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name(f"{folder.name}.lock")):
            if not (folder / HEADER).is_file():  # no other process has built it in the meantime
                _build(paths, folder, features=features, half=half, progress=progress)
    return _load_matching(folder, paths, features=features, half=half)


def _build(
    paths: list[Path], folder: Path, *, features: int, half: bool, progress: Progress | None
) -> None:
    lengths = [path.stat().st_size for path in paths]
    folder.mkdir(exist_ok=True)
    settings = {
        "version": VERSION,
        "features": features,
        "half": half,
        "sources": [[path.name, size] for path, size in zip(paths, lengths, strict=True)],
    }
    with _Writer(folder, settings) as writer:
        total = sum(lengths)
        for number, path in enumerate(paths):
            if number < writer.state["file"]:
                continue
            before = sum(lengths[:number])
            for line, end in _rows(path, writer.state["offset"]):
                writer.add(line)
                if end - writer.state["offset"] >= _SAVE:
                    writer.save(number, end)
                    if progress is not None:
                        progress(before + end, total)
            writer.save(number + 1, 0)
            if progress is not None:
                progress(before + lengths[number], total)
        writer.finish()


def _load_matching(folder: Path, paths: list[Path], *, features: int, half: bool) -> FeatureStore:
    store, dtype = load_features(folder), torch.float16 if half else torch.float32
    values = store.features.values
    if (values.shape[1], values.dtype) != (features, dtype):
        raise ValueError(
            f"{folder} has {values.shape[1]} features of {values.dtype}, got features={features}, "
            f"half={half}; remove it to start anew"
        )
    built = json.loads((folder / HEADER).read_text()).get("sources", [])
    # Files that are gone by now are known by their names.
    sizes = [path.stat().st_size if path.is_file() else None for path in paths]
    same = len(built) == len(paths) and all(
        name == path.name and found in (None, size)
        for (name, size), path, found in zip(built, paths, sizes, strict=True)
    )
    if not same:
        names = ", ".join(path.name for path in paths)
        raise ValueError(
            f"{folder} was built from {', '.join(name for name, _ in built)}, got {names}, or "
            "files of other sizes; remove it to start anew"
        )
    return store


class _Writer:
    """Appends pictures to the arrays of a folder, from where its journal ends."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.settings = folder, settings
        self.state: dict[str, Any] = {"file": 0, "offset": 0, "duplicates": 0, "damaged": 0}
        self.state["lengths"] = dict.fromkeys(COLUMNS, 0)
        if (folder / _JOURNAL).is_file():
            journal = json.loads((folder / _JOURNAL).read_text())
            if journal["settings"] != settings:
                raise ValueError(
                    f"{folder} was begun with {journal['settings']}, got {settings}; remove it to "
                    "start anew"
                )
            self.state = journal["state"]

    def __enter__(self) -> "_Writer":
        self.files: dict[str, IO[bytes]] = {}
        for name, length in self.state["lengths"].items():
            path = self.folder / f"{name}.bin"
            path.touch()
            if path.stat().st_size < length:
                raise ValueError(f"{path} is shorter than the journal says; remove {self.folder}")
            self.files[name] = path.open("r+b")
            self.files[name].truncate(length)  # what was written after the last entry
            self.files[name].seek(length)
        known = np.fromfile(self.folder / "ids.bin", np.int64)
        self.known = set(known.tolist())
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.files.values():
            file.close()

    def add(self, line: bytes) -> None:
        try:
            picture = parse_row(line, self.settings["features"])
            columns = _columns(picture, half=self.settings["half"])
        except (ValueError, OverflowError):  # a number too large for its column
            self.state["damaged"] += 1
            return
        if picture.image_id in self.known:
            self.state["duplicates"] += 1
            return
        self.known.add(picture.image_id)
        for name, values in columns.items():
            self.files[name].write(values.tobytes())

    def save(self, file: int, offset: int) -> None:
        """Bring all to the disk, then say so in the journal."""
        for one in self.files.values():
            one.flush()
            os.fsync(one.fileno())
        lengths = {name: one.tell() for name, one in self.files.items()}
        self.state |= {"file": file, "offset": offset, "lengths": lengths}
        _write(self.folder / _JOURNAL, {"settings": self.settings, "state": self.state})

    def finish(self) -> None:
        header = self.settings | {
            name: self.state[name] for name in ("lengths", "duplicates", "damaged")
        }
        _write(self.folder / HEADER, header)
        (self.folder / _JOURNAL).unlink()


def _columns(picture: Picture, *, half: bool) -> dict[str, np.ndarray[Any, Any]]:
    with np.errstate(over="ignore"):
        features = picture.features.astype(np.float16 if half else np.float32, copy=False)
    if not np.isfinite(features).all():
        raise ValueError("features must be finite as float16, got larger ones")
    return {
        "ids": np.array([picture.image_id], np.int64),
        "sizes": np.array([len(picture.boxes)], np.int64),
        "shapes": np.array([picture.width, picture.height], np.int64),
        "boxes": picture.boxes,
        "features": features,
    }


def _rows(path: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """The rows of a file from an offset on, each with the offset behind it."""
    with path.open("rb") as file:
        file.seek(offset)
        while line := file.readline(_LONGEST):
            if len(line) == _LONGEST and not line.endswith(b"\n"):
                line = b""  # no row: skip the rest of it
                while (rest := file.readline(_LONGEST)) and not rest.endswith(b"\n"):
                    pass
            yield line, file.tell()


def _write(path: Path, content: dict[str, Any]) -> None:
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
