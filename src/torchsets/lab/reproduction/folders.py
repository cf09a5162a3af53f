"""Find what is recorded already: with the same configuration, by the same code."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import NamedTuple

from torchsets.lab.experiments import find_experiment
from torchsets.lab.experiments.digest import code_digest
from torchsets.lab.records import can_start_in, read_config
from torchsets.lab.records.lock import LOCK_FILE, FolderLock
from torchsets.lab.records.run import read_environments, read_result
from torchsets.lab.reproduction.shards import Shard
from torchsets.lab.typed import Json

_SECONDS_TO_SAVE = 15.0  # a shard whose watcher was killed saves and stops within these


class Place(NamedTuple):
    """The run folder of a shard.

    Attributes:
        folder: Where it is, or will be, recorded.
        state: "done", "stopped" (it can be resumed) or "new".
        remark: Why a folder that seems to be its own is not used; empty if there is none.
    """

    folder: Path
    state: str
    remark: str = ""


def find_places(shards: Sequence[Shard], out: Path) -> list[Place]:
    """Look for each shard among the run folders in ``out``; what does not fit stays as it is."""
    known = list(_read_folders(out))
    names = {shard.experiment for shard in shards}
    codes = {name: code_digest(find_experiment(name).run) for name in names}
    return [_find(shard, out, known, codes[shard.experiment]) for shard in shards]


def wait_for_places(
    shards: Sequence[Shard], out: Path, *, say: Callable[[str], None]
) -> list[Place]:
    """:func:`find_places`, after other processes have left the folders.

    A reproduction that was killed leaves shards that save first. Who runs for longer is not
    one of those: starting the shard then fails and names the process.
    """
    places = find_places(shards, out)
    busy = [place.folder for place in places if place.state != "done" and _is_locked(place.folder)]
    if not busy:
        return places
    say(f"waiting for {', '.join(folder.name for folder in busy)}: still being written")
    deadline = time.monotonic() + _SECONDS_TO_SAVE
    while any(map(_is_locked, busy)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return find_places(shards, out)


def _is_locked(folder: Path) -> bool:
    if not (folder / LOCK_FILE).exists():
        return False
    try:
        FolderLock(folder).release()
    except BlockingIOError:
        return True
    except OSError:  # it cannot be written to: the shard will say so
        return False
    return False


@dataclass(frozen=True)
class _Known:
    folder: Path
    what: tuple[str, str, dict[str, Json]]
    codes: set[tuple[str | None, str | None]]
    complete: bool


def _find(shard: Shard, out: Path, known: Sequence[_Known], code: str) -> Place:
    what = (shard.experiment, shard.scale, shard.config)
    alike = [found for found in known if found.what == what]
    same = [found for found in alike if found.codes == {(code, version("torch"))}]
    if same:
        best = max(same, key=lambda found: found.complete)
        return Place(best.folder, "done" if best.complete else "stopped")
    folder = _free_folder(out / shard.name)
    if alike:
        names = ", ".join(found.folder.name for found in alike)
        remark = f"{names}: recorded by other code, stays as it is; running {folder.name}"
    elif folder.name != shard.name:
        remark = f"{shard.name}: holds something else, stays as it is; running {folder.name}"
    else:
        remark = ""
    return Place(folder, "new", remark)


def _free_folder(folder: Path) -> Path:
    names = (folder.name if number == 1 else f"{folder.name}-{number}" for number in count(1))
    return next(place for place in map(folder.with_name, names) if can_start_in(place))


def _read_folders(out: Path) -> Iterator[_Known]:
    for path in sorted(out.glob("*/config.json")):
        folder = path.parent
        try:
            described, environments = read_config(folder), read_environments(folder)
            complete = read_result(folder).complete
        except ValueError:
            continue  # not a run that can be read: _free_folder keeps away from it
        codes = {(one.code, one.versions.get("torch")) for one in environments}
        what = (described.experiment, described.scale, described.config)
        yield _Known(folder, what, codes, complete)
