"""Reports of results: tables, figures and one page."""

from maskedbandits.report.page import ReportFiles, write_report
from maskedbandits.report.summary import group_by_problem, has_many_cells
from maskedbandits.report.tables import build_table, to_json

__all__ = ["ReportFiles", "build_table", "group_by_problem", "has_many_cells", "to_json", "write_report"]
