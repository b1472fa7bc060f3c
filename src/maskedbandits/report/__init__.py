"""Reports: what came out of an experiment, as a table, as figures and as one page."""

from maskedbandits.report.page import Report, write
from maskedbandits.report.tables import are_many, as_json, as_table, problems

__all__ = ["Report", "are_many", "as_json", "as_table", "problems", "write"]
