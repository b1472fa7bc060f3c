"""The part of a key that depends on this package: its sources, the versions of libraries, and the processor."""

import hashlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parents[1]
LIBRARIES = ("numba", "llvmlite", "numpy", "scipy")
# Settings of the compiler that change machine code.
SETTINGS = ("OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "ENABLE_AVX", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML")


@dataclass(frozen=True)
class Use:
    """A purpose of keys, and the files of the package that do not matter to it."""

    excluded: tuple[str, ...]
    processor: bool  # whether another processor or setting of the compiler makes it invalid


# Modules that define kernels count, and everything that they import. Tests follow the imports: none is excluded.
MACHINE_CODE = Use(
    excluded=(
        *("__main__.py", "cli", "demo", "planner", "report", "service"),  # above the kernels: they call or show
        *("contextual", "experiments", "testing.py"),  # above as well: they call kernels
        *(f"simulation/{name}.py" for name in ("delays", "external", "runs", "simulator")),  # likewise
        *("device", "theory"),  # beside the kernels, which may not import them
        *("data", "privacy"),  # below, and imported by no kernel
        *(f"_util/{name}.py" for name in ("extras", "progress", "safe_text", "signals")),  # likewise
        "py.typed",  # empty
    ),
    processor=True,
)

# The processor does not count: a seed gives the same numbers on every machine, so another one may continue a run.
CELLS = Use(
    excluded=(
        *("__main__.py", "cli", "demo", "report", "service"),  # above the experiments: they call or show
        *("experiments/dataframe.py", "experiments/progress_bar.py"),  # show cells
        "testing.py",  # checks policies, and no experiment imports it
        "py.typed",  # empty
    ),
    processor=False,
)

# service/state.py computes a state from events. Tests follow its imports: none is excluded.
SNAPSHOTS = Use(
    excluded=(
        *("__main__.py", "cli", "demo", "planner", "report"),  # above the service
        *("experiments", "simulation", "testing.py"),  # simulate
        *("device", "data"),  # not imported by service/state.py
        *(f"_util/{name}.py" for name in ("extras", "progress", "safe_text")),  # likewise
        "py.typed",  # empty
        # The rest of the service: it reads, stores or shows a state.
        *(f"service/{name}" for name in ("dashboard", "evaluation", "server", "storage")),
        *(
            f"service/{name}.py"
            for name in (
                *(
                    "app",
                    "arm_selection",
                    "auth",
                    "clock",
                    "compaction",
                    "config",
                    "experiment",
                    "group_experiment",
                    "http",
                ),
                *("log_reader", "log_writer", "openapi", "pending", "rate_limits", "recovery", "registry", "replay"),
                *("routes_admin", "routes_decisions", "routes_reports", "secret", "source_limits", "sse", "static"),
            )
        ),
    ),
    processor=True,
)


@cache
def package_key(use: Use) -> str:
    """Return the key of this process, or nothing if the package's sources cannot be read.

    The first call decides, since this process does not run later edits.
    """
    found = first_hash(use)
    return found and hashlib.sha256(f"{found} {list(_versions(use))}".encode()).hexdigest()


@cache
def first_hash(use: Use) -> str:
    """Return a digest of the sources at the first call, which are those that this process runs."""
    return hash_package(use)


def package_has_changed(use: Use) -> bool:
    """Tell whether the sources have been edited since the key was computed."""
    return hash_package(use) != first_hash(use)


def hash_package(use: Use, package: Path | None = None) -> str:
    """Return a digest of the sources that count, as they are now, or nothing if they cannot be read."""
    package = package or HERE
    if not (package / "__init__.py").is_file():  # in an archive, or without sources
        return ""
    found = hashlib.sha256()
    try:
        for path in sorted(list_files(use, package)):
            name, content = path.relative_to(package).as_posix().encode(), path.read_bytes()
            found.update(b"%d %d " % (len(name), len(content)) + name + content)
    except OSError:
        return ""
    return found.hexdigest()


def list_files(use: Use, package: Path) -> Iterator[Path]:
    """Yield all files of a package except excluded ones and those of interpreters and editors."""
    excluded = {str(package / name) for name in use.excluded}
    for folder, inner, names in os.walk(package):
        inner[:] = [each for each in inner if each != "__pycache__" and f"{folder}{os.sep}{each}" not in excluded]
        for name in names:
            path = f"{folder}{os.sep}{name}"
            is_left = name.startswith((".", "#")) or name.endswith("~")  # by an editor: such a name cannot be imported
            if not is_left and path not in excluded and os.path.isfile(path):  # noqa: PTH113 -- thrice as fast
                yield Path(path)


def _versions(use: Use) -> Iterator[str]:
    """Yield the versions of Python and the libraries, and if they count, the processor and settings of the compiler."""
    yield sys.version if use.processor else sys.version.split()[0]  # without its build
    for library in LIBRARIES:
        yield f"{library} {version_of(library)}"
    if use.processor:
        import numba
        from llvmlite import binding

        yield f"{binding.get_host_cpu_name()} {sorted(dict(binding.get_host_cpu_features()).items())}"
        for name in SETTINGS:
            yield f"{name} {getattr(numba.config, name, None)}"


def version_of(library: str) -> str:
    """Return the version of a library: of the imported one, if there is one."""
    loaded = getattr(sys.modules.get(library), "__version__", None)
    if isinstance(loaded, str):
        return loaded
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"
