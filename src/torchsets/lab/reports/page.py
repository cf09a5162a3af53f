"""One self-contained HTML page from run folders."""

import base64
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any

from torchsets._extras import import_extra
from torchsets.lab.figures import Frames
from torchsets.lab.records import RecordedFigure, Run, write_atomically
from torchsets.lab.reports.curves import learning_curves
from torchsets.lab.reports.figures import draw_figure
from torchsets.lab.reports.frames import script_data
from torchsets.lab.reports.tables import Table, collect_tables
from torchsets.lab.reports.text import duration
from torchsets.lab.typed import Json

_UNDRAWABLE = (ValueError, TypeError, IndexError, OverflowError)  # of numbers that do not fit
_NOT_A_DIFFERENCE = ("seed", "device")  # runs that differ only in these are averaged
_SCALES = {
    "demo": "a short demonstration with few steps",
    "smoke": "a few steps to see that it works: the numbers are not meaningful",
    "cpu": "sized for two cores without a GPU",
    "full": "the thesis' own setting",
}


@dataclass(frozen=True)
class Drawn:
    """A figure as the page shows it; ``frames`` is the data of its script, or empty."""

    title: str
    caption: str
    alt: str
    svg: str
    frames: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where a run comes from, in words."""

    folder: str
    seed: int | None
    complete: bool
    commit: str
    started: str
    resumed: int
    time: str
    trainings: int
    device: str
    threads: str
    torch: str | None
    command: str


@dataclass(frozen=True)
class Section:
    """Runs of one configuration, which differ in their seeds only."""

    experiment: str
    scale: str
    about_scale: str
    config: dict[str, Json]
    runs: list[Provenance]
    tables: list[Table]
    curves: list[Drawn]
    figures: list[Drawn]


def write_report(runs: Sequence[Run], path: Path) -> None:
    """Draw tables, learning curves and figures of all runs into one file.

    The page needs no network. Only figures of kind ``frames`` need a script, which is ours and
    within the page; a policy in its head lets no other run. The same records give the same page.
    """
    template = _templates().get_template("page.html")
    sections = [_section(index, group) for index, group in enumerate(groups_of(runs))]
    moving = any(figure.frames for section in sections for figure in section.figures)
    script = frames_script() if moving else ""
    page = template.render(
        sections=sections,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        markup=_markup(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page)


def write_pictures(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Draw each figure of the runs into an SVG file of its own; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for run in runs:
        for name, figure in run.figures.items():
            named = f"{run.folder.name}-{name}"
            ways = chain([named, f"{named}-seed={run.seed}"], (f"{named}-{n}" for n in count(2)))
            # The seeds of a table have one folder, and folders of several places one name.
            path = next(path for way in ways if (path := folder / f"{way}.svg") not in paths)
            with _or_left_out(run.folder / "figures" / f"{name}.json"):
                svg = draw_figure(name, figure, alone=True)
                write_atomically(path, svg)
                paths.append(path)
    return paths


def table_as_html(table: Table) -> str:
    """Return a table as the report shows it, without its heading, for a page of your own."""
    return str(_templates().get_template("parts.html").module.show_table(table, heading=False))


def figure_as_html(name: str, recorded: RecordedFigure) -> str:
    """Draw a figure as the report shows it; figures with a slider need :func:`frames_script`."""
    parts = _templates().get_template("parts.html").module
    return str(parts.show_figure(_draw_one(name, recorded), _markup()))


def frames_script() -> str:
    """Return the script that moves the figures with a slider."""
    return Path(__file__).with_name("frames.js").read_text(encoding="utf-8")


@cache
def _templates() -> Any:
    jinja2 = import_extra("jinja2", "app")
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _markup() -> Any:
    return import_extra("jinja2", "app").utils.markupsafe.Markup


def groups_of(runs: Sequence[Run]) -> list[list[Run]]:
    """Put runs together that differ in their seeds only."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        config = {key: run.config[key] for key in run.config if key not in _NOT_A_DIFFERENCE}
        groups.setdefault(f"{run.experiment} {run.scale} {config}", []).append(run)
    return list(groups.values())


def _section(index: int, runs: list[Run]) -> Section:
    first = runs[0]
    curves = {
        name: RecordedFigure(
            name,
            "Mean since the last point of the curve." if name == "loss" else "",
            f"Learning curves: {name} against the training step.",
            lines,
        )
        for name, lines in learning_curves(runs).items()
    }
    return Section(
        experiment=first.experiment,
        scale=first.scale,
        about_scale=_SCALES.get(first.scale, ""),
        config={key: value for key, value in first.config.items() if key != "seed"},
        runs=[_describe(run) for run in runs],
        tables=collect_tables(runs),
        curves=_draw_all(f"{index}-curves", curves, first.folder),
        figures=_draw_all(f"{index}", first.figures, first.folder),
    )


def _draw_all(prefix: str, figures: Mapping[str, RecordedFigure], folder: Path) -> list[Drawn]:
    drawn = []
    for name, recorded in figures.items():
        with _or_left_out(folder / "figures" / f"{name}.json"):
            drawn.append(_draw_one(f"{prefix}-{name}", recorded))
    return drawn


def _draw_one(name: str, recorded: RecordedFigure) -> Drawn:
    figure = recorded.figure
    frames = script_data(figure) if isinstance(figure, Frames) else ""
    svg = draw_figure(name, recorded)
    return Drawn(recorded.title, recorded.caption, recorded.alt, svg, frames)


@contextmanager
def _or_left_out(path: Path) -> Iterator[None]:
    """Go on without a figure that cannot be drawn: the others can."""
    try:
        yield
    except _UNDRAWABLE as error:
        warnings.warn(f"{path} is left out: it cannot be drawn ({error})", stacklevel=4)


def _describe(run: Run) -> Provenance:
    environment = run.environments[0]
    machine = environment.machine
    commits = [(one.commit or "unknown")[:10] for one in run.environments]
    changed = any(one.uncommitted_changes for one in run.environments)
    seconds = sum(task.seconds for task in run.tasks.values())
    data = sum(task.data_seconds or 0 for task in run.tasks.values())  # not in old records
    share = f", {data / seconds:.0%} of it loading data" if data and seconds else ""
    processor = f", {machine.processor}" if machine.device == "cpu" else ""
    return Provenance(
        folder=run.folder.name,
        seed=run.seed,
        complete=run.complete,
        commit=", ".join(dict.fromkeys(commits)) + " with uncommitted changes" * changed,
        started=environment.started.replace("T", " ").replace("+00:00", " UTC"),
        resumed=len(run.environments) - run.shards,
        time=duration(seconds) + share,
        trainings=len(run.tasks),
        device=f"{machine.device}{processor}",
        threads=str(machine.threads or machine.cores),
        torch=environment.versions.get("torch"),
        command=environment.command,
    )
