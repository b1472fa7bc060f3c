"""The shared table: it matches a dictionary, forgets the smallest number, and loses no change of two processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.service.shared_table import SECRET_BYTES, TABLE_BYTES, WAYS, SharedTable, draw_secret, open_memory

COUNT = """
import sys
from maskedbandits.service.shared_table import SharedTable
table = SharedTable(int(sys.argv[1]), bytes.fromhex(sys.argv[2]))
for _ in range(20_000):
    table.update(b"together", lambda number: number + 1)
"""

steps = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b""]), st.floats(0, 1e9)), max_size=40)


@given(steps)
def test_table_matches_dictionary(pairs: list[tuple[bytes, float]]) -> None:
    table, naive = SharedTable(sets=4), dict[bytes, float]()
    for name, step in pairs:
        table.update(name, lambda number, step=step: number + step)  # type: ignore[misc]
        naive[name] = naive.get(name, 0.0) + step
    assert {name: table.get(name) for name in naive} == naive


def test_full_set_forgets_smallest_number() -> None:
    table = SharedTable(sets=1)
    for place in range(WAYS + 1):
        table.update(b"%d" % place, lambda number, place=place: float(place + 1))  # type: ignore[misc]
    assert [table.get(b"%d" % place) for place in range(WAYS + 1)] == [0.0, *range(2, WAYS + 2)]


def test_memory_reveals_no_name() -> None:
    with open_memory(TABLE_BYTES) as memory:
        table = SharedTable(memory.fileno(), draw_secret())
        table.update(b"203.0.113.7", lambda number: 1.0)
        memory.seek(0)
        assert b"203.0.113.7" not in memory.read()
        assert SharedTable(memory.fileno(), bytes(SECRET_BYTES)).get(b"203.0.113.7") == 0.0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has one worker")
def test_processes_lose_no_change() -> None:
    secret = draw_secret()
    with open_memory(TABLE_BYTES) as memory:
        command = [sys.executable, "-c", COUNT, str(memory.fileno()), secret.hex()]
        children = [subprocess.Popen(command, pass_fds=[memory.fileno()]) for _ in range(2)]
        assert [child.wait(60) for child in children] == [0, 0]
        assert SharedTable(memory.fileno(), secret).get(b"together") == 40_000
