"""Tables and figures of a page, which take their place after its Markdown has been read."""

import hashlib
import re
import warnings
from functools import cache

from site_pages.records import ROOT, all_runs, where
from torchsets.lab.figures import Frames
from torchsets.lab.records import RecordedFigure, Run
from torchsets.lab.reports import collect_tables, figure_as_html, groups_of, table_as_html
from torchsets.lab.reports.tables import Table

CACHE = ROOT / ".site_cache"  # drawn figures, of any build
_FIGURES = 6  # of a run on a page; `torchsets report` draws them all
_LARGEST = 250_000  # letters of a figure, so that a page can be loaded


class Parts:
    """Pieces of HTML that a page holds places for."""

    def __init__(self, page: str) -> None:
        self.page = page
        self._html: list[str] = []

    def place(self, html: str) -> str:
        """Keep a piece; return the Markdown that holds its place."""
        self._html.append(html)
        return f'\n<div class="records" data-part="{len(self._html) - 1}"></div>\n'

    def insert(self, html: str) -> str:
        """Return the page with all pieces in their places."""

        def piece(found: re.Match[str]) -> str:
            return f'<div class="records">{self._html[int(found[1])]}</div>'

        return re.sub(r'<div class="records" data-part="(\d+)"></div>', piece, html)


def record_tables(parts: Parts, options: str) -> str:
    """``table KEY in FOLDER``: a recorded table beside the thesis', from a folder of results/."""
    key, _, folder = options.partition(" in ")
    runs = [run for run in all_runs() if f"{where(run)}/".startswith(f"{folder.strip()}/")]
    tables = [
        table
        for group in groups_of(runs)
        for table in collect_tables(group)
        if table.key == key and table.has_numbers
    ]
    if not tables:
        raise ValueError(f"{parts.page}: results/{folder} has no table {key}")
    return "".join(
        f"*{table.caption}*\n{parts.place(table_as_html(_ours_alone(table)))}" for table in tables
    )


def tables_of(parts: Parts, group: list[Run], level: str) -> str:
    """All tables of runs that differ in their seeds, those of the thesis first."""
    tables = [table for table in collect_tables(group) if table.has_numbers]
    tables.sort(key=lambda table: not table.in_thesis)
    return "".join(
        f"\n{level} {_plain(table.caption)}\n{parts.place(table_as_html(_without_empty(table)))}"
        for table in tables
    )


def figures_of(parts: Parts, run: Run) -> str:
    """The first figures of a run, those with a slider in front; large ones are left out."""
    figures = sorted(run.figures.items(), key=lambda item: not isinstance(item[1].figure, Frames))
    drawn = [_figure(run, name, figure) for name, figure in figures[:_FIGURES]]
    shown = [html for html in drawn if 0 < len(html) <= _LARGEST]
    left = len(figures) - len(shown)
    more = f"\n{left} more figures: `torchsets report results/{where(run)}`.\n" if left else ""
    return "".join(parts.place(html) for html in shown) + more


def _figure(run: Run, name: str, figure: RecordedFigure) -> str:
    identity = re.sub(r"[^\w-]+", "-", f"{where(run)}-{name}")
    try:
        return _drawn_once(identity, figure)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        warnings.warn(f"figure {name} of {where(run)} cannot be drawn: {error}", stacklevel=2)
        return ""


def _drawn_once(identity: str, figure: RecordedFigure) -> str:
    """Draw a figure, or take it from an earlier build: the same record gives the same figure."""
    digest = hashlib.sha256(f"{identity}{figure}{_code()}".encode()).hexdigest()[:24]
    kept = CACHE / f"{digest}.html"
    if not kept.is_file():
        CACHE.mkdir(parents=True, exist_ok=True)
        kept.write_text(figure_as_html(identity, figure), encoding="utf-8")
    return kept.read_text(encoding="utf-8")


@cache
def _code() -> str:
    folder = ROOT / "src" / "torchsets" / "lab" / "reports"
    files = sorted(path for path in folder.iterdir() if path.suffix in (".py", ".html"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _without_empty(table: Table) -> Table:
    """Leave out columns without a number of ours where the thesis has many."""
    kept = [
        index
        for index in range(len(table.columns))
        if any(row.ours and row.ours[index].mean is not None for row in table.rows)
    ]
    rows = [
        type(row)(
            row.model,
            row.ours and [row.ours[index] for index in kept],
            row.thesis and [row.thesis[index] for index in kept],
            row.seeds,
        )
        for row in table.rows
    ]
    columns = [table.columns[index] for index in kept]
    return type(table)(**{**vars(table), "columns": columns, "rows": rows})


def _ours_alone(table: Table) -> Table:
    """Leave out the rows that only the thesis has."""
    kept = _without_empty(table)
    rows = [row for row in kept.rows if row.ours is not None]
    return type(table)(**{**vars(kept), "rows": rows})


def _plain(text: str) -> str:
    return text.replace("\n", " ").strip()
