"""Records to tables, pictures and one HTML page. Needs no torch."""

from torchsets.reports.figures import KINDS, draw_figure
from torchsets.reports.page import write_report
from torchsets.reports.thesis import thesis_tables

__all__ = ["KINDS", "draw_figure", "thesis_tables", "write_report"]
