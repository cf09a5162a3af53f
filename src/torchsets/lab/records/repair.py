"""What a crash may leave in a run folder, and how it is put right."""

import os
import re
import warnings
from pathlib import Path

from torchsets.lab.records.files import damage, drop_unfinished_line, explained, write_json
from torchsets.lab.records.lock import LOCK_FILE, FolderLock

EMPTY_RESULT = {"complete": False, "tasks": {}, "tables": {}, "results": []}
_BEGINNING = re.compile(  # what a start leaves that was killed before its end
    r"\.lock|(environment|result)\.json|(environment|result|config)\.json\.\d+\.writing"
)


def can_start_in(folder: Path) -> bool:
    """Whether there is nothing in a folder, or only what a start that was killed has left."""
    return not folder.exists() or all(
        _BEGINNING.fullmatch(path.name) and (path.suffix != ".json" or damage(path) is None)
        for path in folder.iterdir()
    )


def lock_new_folder(folder: Path) -> FolderLock:
    """Make the folder, and lock it if there is nothing in it."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = None
        if (folder / LOCK_FILE).exists() or can_start_in(folder):
            lock = FolderLock(folder)  # first, so that the error names who is writing here
        if lock is None or not can_start_in(folder):
            if lock is not None:
                lock.release()
            raise ValueError(f"{folder} is not empty; choose another folder, or use --resume")
    return lock


def repair(folder: Path) -> None:
    """Remove what a crash left half written, and move broken files aside that are recreated."""
    drop_unfinished_line(folder / "metrics.jsonl")
    for leftover in (*folder.glob("*.writing"), *folder.glob("figures/*.writing")):
        leftover.unlink()
    for path in (folder / "result.json", *sorted(folder.glob("figures/*.json"))):
        broken = damage(path)
        if broken is not None:
            warnings.warn(f"{path} is broken ({broken}); it will be recreated", stacklevel=3)
            if path.exists():
                os.replace(path, path.with_name(path.name + ".broken"))
    if not (folder / "result.json").exists():
        write_json(folder / "result.json", EMPTY_RESULT)
