"""The recorded runs as the pages need them: by folder of results/ and by chapter of the thesis."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from torchsets.lab.experiments import experiments
from torchsets.lab.records import Run, read_runs
from torchsets.lab.reports import merge_runs, merge_shards

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
CHAPTERS = {"count": "counting", "perm": "permutations", "fspool": "fspool", "dspn": "dspn"}
# Of experiments that the keys of their tables do not place. All others are beyond the thesis.
PLACES = {
    "count-toy": "counting",
    "vqa-count": "counting",
    "vqa-order": "permutations",
    "mnist-sorts": "fspool",
    "mnist-large": "fspool",
    "dspn-polygons": "dspn",
    "dspn-states": "dspn",
    "dspn-solver": "dspn",
    "dspn-boxes": "dspn",
}
BEYOND = "beyond"


@dataclass(frozen=True)
class Recorded:
    """A folder of results/: its note and its runs, shards put together."""

    folder: Path
    runs: list[Run]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def note(self) -> str:
        path = self.folder / "README.md"
        return path.read_text(encoding="utf-8") if path.is_file() else f"# {self.name}\n"

    @property
    def chapter(self) -> str:
        return chapter_of(self.runs[0].experiment)


@cache
def recorded() -> list[Recorded]:
    """Read every folder of results/ that holds runs."""
    found = []
    for folder in sorted(path for path in RESULTS.iterdir() if path.is_dir()):
        runs = _merge_siblings(folder, merge_shards(read_runs([folder])))
        if runs:
            found.append(Recorded(folder, runs))
    return found


def _merge_siblings(folder: Path, runs: list[Run]) -> list[Run]:
    """Put runs together that share a folder of their own, with or without the table's file."""
    merged: dict[tuple[Path, str, object], dict[str, Run]] = {}
    for run in runs:
        place = run.folder if run.folder.parent == folder else run.folder.parent
        parts = merged.setdefault((place, run.scale, run.seed), {})
        name = run.folder.name  # that of the place, if several tables were reproduced there
        parts[name if name not in parts else f"{name} {len(parts) + 1}"] = run
    return [
        replace(merge_runs(parts, {}), folder=place)
        if len(parts) > 1
        else next(iter(parts.values()))
        for (place, _, _), parts in merged.items()
    ]


def chapter_of(experiment: str) -> str:
    """Name the page that an experiment belongs to."""
    if experiment in PLACES:
        return PLACES[experiment]
    declared = experiments().get(experiment)
    for table in declared.tables if declared else ():
        prefix = table.key.split("/")[0]
        if "/" in table.key and prefix in CHAPTERS:
            return CHAPTERS[prefix]
    return BEYOND


def all_runs() -> list[Run]:
    """Return the runs of all folders, shards put together."""
    return [run for folder in recorded() for run in folder.runs]


def where(run: Run) -> str:
    """Name a run by its folder below results/."""
    return run.folder.absolute().relative_to(RESULTS).as_posix()
