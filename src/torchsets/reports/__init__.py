"""Records to tables, pictures and one HTML page. Needs no torch."""

from torchsets.reports.figures import KINDS, draw_figure
from torchsets.reports.page import write_pictures, write_report
from torchsets.reports.tables import collect_tables
from torchsets.reports.text import table_as_text
from torchsets.reports.thesis import thesis_tables

__all__ = [
    "KINDS",
    "collect_tables",
    "draw_figure",
    "table_as_text",
    "thesis_tables",
    "write_pictures",
    "write_report",
]
