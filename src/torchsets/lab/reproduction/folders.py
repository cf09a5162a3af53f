"""Find what is recorded already: with the same configuration, by the same code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from torchsets.lab.experiments.digest import code_digest
from torchsets.lab.records import can_start_in, read_json
from torchsets.lab.reproduction.pieces import Piece


class Place(NamedTuple):
    """Where a piece is, or will be, recorded.

    Attributes:
        folder: Its run folder.
        state: "done", "stopped" (it can be resumed) or "new".
        remark: Why a folder that seems to be its own is not used; empty if there is none.
    """

    folder: Path
    state: str
    remark: str = ""


def find_places(pieces: Sequence[Piece], out: Path) -> list[Place]:
    """Look for each piece among the run folders in ``out``; what does not fit stays as it is."""
    known = list(_read_folders(out))
    codes = {name: code_digest(name) for name in {piece.experiment for piece in pieces}}
    return [_find(piece, out, known, codes[piece.experiment]) for piece in pieces]


@dataclass(frozen=True)
class _Known:
    folder: Path
    what: dict[str, Any]
    codes: set[tuple[str | None, str | None]]
    complete: bool


def _find(piece: Piece, out: Path, known: Sequence[_Known], code: str) -> Place:
    what = {"experiment": piece.experiment, "scale": piece.scale, "config": piece.config}
    alike = [found for found in known if found.what == what]
    same = [found for found in alike if found.codes == {(code, version("torch"))}]
    if same:
        best = max(same, key=lambda found: found.complete)
        return Place(best.folder, "done" if best.complete else "stopped")
    folder = _free_folder(out / piece.name)
    if alike:
        names = ", ".join(found.folder.name for found in alike)
        remark = f"{names}: recorded by other code, stays as it is; running {folder.name}"
    elif folder.name != piece.name:
        remark = f"{piece.name}: holds something else, stays as it is; running {folder.name}"
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
            described = read_json(path)
            environments = [read_json(file) for file in folder.glob("environment*.json")]
            complete = read_json(folder / "result.json")["complete"]
        except ValueError:
            continue  # not a run that can be read: _free_folder keeps away from it
        codes = {
            (environment.get("code"), environment["versions"]["torch"])
            for environment in environments
        }
        what = {key: described[key] for key in ("experiment", "scale", "config")}
        yield _Known(folder, what, codes, complete)
