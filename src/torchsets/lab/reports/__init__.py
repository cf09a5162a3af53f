"""Records to tables, pictures and one HTML page. Needs no torch."""

from torchsets.lab.reports.figures import draw_figure
from torchsets.lab.reports.page import (
    figure_as_html,
    frames_script,
    groups_of,
    table_as_html,
    write_pictures,
    write_report,
)
from torchsets.lab.reports.shards import merge_runs, merge_shards
from torchsets.lab.reports.tables import collect_tables
from torchsets.lab.reports.text import duration, table_as_text
from torchsets.lab.reports.thesis import thesis_tables

__all__ = [
    "collect_tables",
    "draw_figure",
    "duration",
    "figure_as_html",
    "frames_script",
    "groups_of",
    "merge_runs",
    "merge_shards",
    "table_as_html",
    "table_as_text",
    "thesis_tables",
    "write_pictures",
    "write_report",
]
