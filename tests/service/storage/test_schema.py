"""The tables are the one definition of columns: rows and exports have no others."""

from __future__ import annotations

import pytest

from maskedbandits.service.evaluation.export import READ_COLUMNS
from maskedbandits.service.evaluation.log import STORED_COLUMNS
from maskedbandits.service.storage import schema
from maskedbandits.service.storage.models import ArmRow, EventRow, ExperimentRow, KeyRow, NewReport, SnapshotRow


@pytest.mark.parametrize(
    ("fields", "table"),
    [
        (READ_COLUMNS, "event"),
        (STORED_COLUMNS, "event"),
        (ExperimentRow._fields, "experiment"),
        (ArmRow._fields, "arm"),
        (SnapshotRow._fields, "snapshot"),
        (KeyRow._fields, "api_key"),
    ],
)
def test_rows_have_columns_of_their_table(fields: tuple[str, ...], table: str) -> None:
    assert set(fields) <= set(schema.list_columns(table))


def test_events_and_reports_have_all_columns_of_the_log() -> None:
    columns = {*schema.list_columns("event"), *schema.list_columns("report_id")}
    assert {*EventRow._fields, *NewReport._fields} == columns
