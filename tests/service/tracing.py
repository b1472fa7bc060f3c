"""System calls, traced with strace, to see whether data was on disk before its acknowledgement."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from children import finished

STRACE = shutil.which("strace") or "strace"
READS, WRITES = ("read", "recvfrom", "recvmsg"), ("write", "writev", "sendto", "sendmsg")
SYNCS = ("fsync", "fdatasync")


def traceable() -> bool:
    """Tell whether calls to the system can be watched here."""
    return (
        shutil.which("strace") is not None
        and finished([STRACE, "-o", "/dev/null", sys.executable, "-V"]).returncode == 0
    )


needs_strace = pytest.mark.skipif(
    not traceable(), reason="needs strace (apt-get install strace), and the right to trace a child"
)


def traced(trace: Path, calls: Sequence[str]) -> list[str]:
    """Return the prefix of a command that traces the calls of its processes to a file."""
    return [STRACE, "-f", "-y", "-s", "64", "-e", f"trace={','.join(calls)}", "-o", str(trace)]


class Call(NamedTuple):
    """A system call: its thread and file, the lines of the trace where it begins and ends, and its text."""

    thread: str
    name: str
    file: str
    began: int
    ended: int
    text: str


BEGIN = re.compile(r"(\d+) +(\w+)\(\d+<([^>]*)>(.*)")
GO_ON = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)")


def calls_in(trace: str) -> list[Call]:
    """Return the calls of a trace that have ended, in the order in which they began."""
    begun: dict[tuple[str, str], Call] = {}
    found = []
    for number, line in enumerate(trace.splitlines()):
        if match := BEGIN.match(line):
            thread, name, file, text = match.groups()
            call = Call(thread, name, file, number, number, text)
            if text.endswith("<unfinished ...>"):
                begun[thread, name] = call
            else:
                found.append(call)
        elif (match := GO_ON.match(line)) and (match[1], match[2]) in begun:
            call = begun.pop((match[1], match[2]))
            found.append(call._replace(ended=number, text=call.text + match[3]))
    return sorted(found, key=lambda call: call.began)


def answers_on_disk(trace: str, request: str) -> list[bool]:
    """Tell of every request whether, before its answer, something was written to the log and then synchronised."""
    calls = calls_in(trace)
    log = [call for call in calls if call.file.endswith("-wal")]
    found = []
    for read in calls:
        if read.name in READS and f'"{request}' in read.text:
            later = [each for each in calls if each.file == read.file and each.began > read.ended]
            answer = next(each for each in later if each.name in WRITES)
            heard = max(  # a body may come after its head
                each.ended for each in [read, *later] if each.name in READS and each.ended < answer.began
            )
            found.append(_synchronised(log, heard, answer.began))
    return found


def _synchronised(log: Sequence[Call], since: int, until: int) -> bool:
    """Tell whether a thread has synchronised all that it has written to the log between two lines of a trace."""
    between = [call for call in log if since < call.began and call.ended < until]
    written = {call.thread: call.ended for call in between if call.name == "pwrite64"}  # the last by each
    synced = [call for call in between if call.name in SYNCS and call.text.endswith("= 0")]
    return any(call.began > written.get(call.thread, until) for call in synced)
