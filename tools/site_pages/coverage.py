"""Which tables of the thesis have numbers of ours, at what scale, with how many seeds."""

import re
from dataclasses import dataclass

from site_pages.records import all_runs, chapter_of, where
from torchsets.lab.experiments import tables
from torchsets.lab.reports.thesis import thesis_tables

# Of the tables without a number of ours: why.
REASONS = {
    "count/vqa-test": "its answers are on a server only",
    "count/vqa-val": "the features of VQA v2 are not here; weeks of GPU",
    "perm/vqa": "the features of VQA v2 are not here; weeks of GPU",
    "fspool/clevr": "350 epochs of 700,000 questions: weeks on two cores",
    "fspool/clevr-epochs": "as `fspool/clevr`; ours: questions until 60 to 95 % are right",
    "fspool/clevr-time": "as `fspool/clevr`; a time of a GPU; ours: CPU time of a pass",
    "dspn/box": "CLEVR's pictures (18 GB) are not here; the thesis repairs this table itself",
    "dspn/box-fspool": "CLEVR's pictures (18 GB) are not here; days of GPU",
    "dspn/box-fixed1": "CLEVR's pictures (18 GB) are not here; days of GPU",
    "dspn/box-fixed2": "CLEVR's pictures (18 GB) are not here; days of GPU",
    "dspn/state": "CLEVR's pictures (18 GB) are not here; days of GPU",
    "dspn/state-fspool": "CLEVR's pictures (18 GB) are not here; days of GPU",
    "dspn/state-fixed": "CLEVR's pictures (18 GB) are not here; days of GPU",
}
# Tables of our own that measure the same on other data, where the records have no KEY/variants.
STAND_INS = {
    "fspool/clevr-epochs": "clevr-questions/milestones",
    "fspool/clevr-time": "clevr-questions/seconds",
}
_STATES = ("all of it", "every row", "some rows", "on other data", "no")
_KINDS = ("text", "figure", "stats")  # the ends of keys that are no result tables
_OF_OTHER_PAPERS = re.compile(r"\d{4}|\*|^MAC$")  # models whose numbers the thesis only quotes


@dataclass(frozen=True)
class Coverage:
    """A table of the thesis: how many of its rows and cells have numbers of ours.

    Rows with numbers from other data or settings count apart: ``KEY/variants`` in the records, or
    the table that stands in for it.
    """

    key: str
    caption: str
    rows: int
    rows_filled: int
    rows_elsewhere: int
    cells: int
    cells_filled: int
    scales: tuple[str, ...]
    seeds: int
    places: tuple[str, ...]

    @property
    def state(self) -> str:
        if self.cells_filled == self.cells:
            return _STATES[0]
        if self.rows_filled == self.rows:
            return _STATES[1]
        if self.cells_filled:
            return _STATES[2]
        return _STATES[3] if self.rows_elsewhere == self.rows else _STATES[4]


def result_tables() -> list[str]:
    """List the result tables of the thesis: its tables, without statistics of the datasets."""
    keys = [key for key, table in thesis_tables().items() if table.by == "thesis"]
    return [key for key in keys if key.rsplit("-", 1)[-1] not in _KINDS]


def coverage(key: str) -> Coverage:
    """Count the numbers of ours in a table of the thesis."""
    table = thesis_tables()[key]
    runs = [run for run in all_runs() if any(cell.table == key for cell in run.cells)]
    ours = {
        (cell.model, cell.column, cell.seed)
        for run in runs
        for cell in run.cells
        if cell.table == key and cell.value is not None
    }
    places = {(model, column) for model, column, _ in ours}
    wanted = {
        (row.model, column)
        for row in table.rows
        for column, value in zip(table.columns, row.values, strict=False)
        if value is not None and not _OF_OTHER_PAPERS.search(row.model)
    }
    models = {model for model, _ in wanted}
    variants = {
        cell.model
        for run in all_runs()
        for cell in run.cells
        if cell.table in (f"{key}/variants", STAND_INS.get(key)) and cell.value is not None
    }
    return Coverage(
        key=key,
        caption=table.caption,
        rows=len(models),
        rows_filled=len(models & {model for model, _ in places}),
        rows_elsewhere=sum(
            any(f"{one}, ".startswith(f"{model}, ") for one in variants) for model in models
        ),
        cells=len(wanted),
        cells_filled=len(wanted & places),
        scales=tuple(sorted({run.scale for run in runs})),
        seeds=max((len([1 for p in ours if p[:2] == place]) for place in places), default=0),
        places=tuple(sorted({where(run).split("/")[0] for run in runs})),
    )


def coverage_table(link: str = "{folder}/README.md") -> str:
    """Write the page of all result tables as Markdown; ``link`` makes the address of a note."""
    lines = [
        "| table | what | ours | rows | cells | scale | seeds | note |",
        "|---|---|---|---|---|---|---|---|",
    ]
    counts = dict.fromkeys(_STATES, 0)
    for key in result_tables():
        one = coverage(key)
        counts[one.state] += 1
        notes = ", ".join(f"[{place}]({_link(link, place)})" for place in one.places)
        if not notes:
            notes = _reason(key, link)
        caption = one.caption.split(":")[0] if len(one.caption) > 90 else one.caption
        lines.append(
            f"| `{key}` | {caption} | {one.state} | {one.rows_filled} of {one.rows} | "
            f"{one.cells_filled} of {one.cells} | {', '.join(one.scales) or '-'} | "
            f"{one.seeds or '-'} | {notes} |"
        )
    whole, rows, some, other, none = counts.values()
    head = (
        f"{sum(counts.values())} result tables: {whole} whole, {rows} with a number of ours in "
        f"every row, {some} with some rows, {other} with every row on other data or settings "
        f"alone, {none} without.\n"
    )
    return "\n".join([head, *lines])


def _reason(key: str, link: str) -> str:
    """Why a table has no number of ours; and where its experiment ran on other data."""
    if key not in tables():
        return REASONS.get(key, "no experiment")
    experiment = tables()[key][1].name
    reason = REASONS.get(key, f"can be run (`{experiment}`), not recorded")
    folders = {where(run).split("/")[0] for run in all_runs() if run.experiment == experiment}
    elsewhere = ", ".join(f"[{one}]({_link(link, one)})" for one in sorted(folders))
    settings = f"; with other data or settings: {elsewhere}" if elsewhere else ""
    return f"{reason}{settings}"


def _link(link: str, place: str) -> str:
    experiment = next(run.experiment for run in all_runs() if where(run).split("/")[0] == place)
    return link.format(folder=place, chapter=chapter_of(experiment))
