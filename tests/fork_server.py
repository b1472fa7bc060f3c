"""Child processes that start quickly: forks of an interpreter which has imported numba and compiled one function.

That takes two seconds of CPU, which each fork saves. A fork has imported nothing of this package, so it declares and
loads kernels as a new process does. Forks share the order of sets (``PYTHONHASHSEED``), and end after their exit
handlers, without freeing numba's objects one by one. A test about these, or about the start of Python, needs a new
process (``children.py``).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

# Each line of input is a request: arguments as for Python, a folder, variables, and files for the output. The child
# leaves the loop, becomes the program, and leaves the interpreter once its threads and its exit handlers have ended.
SERVER = """
import atexit, gc, json, os, sys, tempfile, traceback, types

def leave():
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)

atexit.register(leave)  # the first one is called last
import numba, numpy, scipy.optimize, scipy.special
numba.njit(lambda x, y: x[0] + y)(numpy.zeros(1), 1.0)
gc.collect()
gc.freeze()  # so that forks need not copy these objects

def serve():
    while line := sys.stdin.readline():
        request = json.loads(line)
        process = os.fork()
        if not process:
            return request
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
    os._exit(0)

def become(request):
    for number, path in enumerate([os.devnull, request["out"], request["errors"]]):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    tempfile.tempdir = None
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    first, *arguments = request["arguments"]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if first == "-c":
        source, *arguments = arguments
    else:
        main.__file__ = os.path.abspath(first)
        source = open(first, encoding="utf-8").read()
    sys.argv = [first, *arguments]
    sys.path[:1] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return compile(source, "<string>" if first == "-c" else main.__file__, "exec"), vars(main)

code = 1
program = become(serve())
try:
    exec(*program)
    code = 0
except SystemExit as end:
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if isinstance(end.code, str):
        print(end.code, file=sys.stderr)
except BaseException:
    traceback.print_exc()
"""


class ForkServer:
    """Runs programs of Python, one at a time."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            start_new_session=True,
        )
        self._output = TemporaryDirectory()

    def run(
        self, *arguments: str, folder: Path | None = None, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``-c program`` or a file, with additional variables, and return its output and exit code."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        out, errors = (Path(self._output.name) / name for name in ("out", "errors"))
        for each in (out, errors):
            each.unlink(missing_ok=True)
        request = {
            "arguments": arguments,
            "folder": str(folder or Path.cwd()),
            "environment": {**os.environ, **(environment or {})},
            "out": str(out),
            "errors": str(errors),
        }
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess(arguments, code, out.read_text("utf-8"), errors.read_text("utf-8"))

    def close(self) -> None:
        """End the interpreter and its forks."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._server.pid, signal.SIGKILL)
        with self._server:
            self._output.cleanup()
