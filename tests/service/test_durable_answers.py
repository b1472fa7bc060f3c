"""The service replies to a report when it is on disk: an fdatasync precedes every HTTP reply."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from running import children_of, running
from tracing import READS, SYNCS, WRITES, answers_on_disk, needs_strace, traced
from web import SMALL

from children import LONGEST

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"
COUNT = 6


@needs_strace
@pytest.mark.parametrize(
    ("options", "synced"), [("", [True] * COUNT), pytest.param("?durable=no", [False] * COUNT, marks=pytest.mark.slow)]
)
def test_report_is_synced_before_reply(tmp_path: Path, options: str, synced: list[bool]) -> None:
    """Killing a service does not test this, because the operating system still has the written data."""
    trace = tmp_path / "trace"
    storage = f"sqlite:///{tmp_path}/bandits.db{options}"
    with running(storage, under=traced(trace, [*READS, *WRITES, "pwrite64", *SYNCS])) as service:
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", SMALL)[0] == 201
        for turn in range(COUNT):
            tokens = [service.ask("POST", DECISIONS)[1]["token"] for _ in range(1 + 2 * (turn % 2))]
            reports = [{"token": token, "bit": 1} for token in tokens]
            status, said = service.ask("POST", REPORTS, {"reports": reports} if len(tokens) > 1 else reports[0])
            assert status == 200
            assert all(each == {"status": "accepted"} for each in said.get("results", [said]))
        for watched in children_of(service.process.pid):
            os.kill(watched, signal.SIGTERM)
        service.process.communicate(timeout=LONGEST)
    assert answers_on_disk(trace.read_text(), f"POST {REPORTS}") == synced
