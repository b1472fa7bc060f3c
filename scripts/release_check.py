"""Build the distributions and test them in empty environments: `make release-check`, some minutes.

A distribution is the root of the repository, and every folder of `packaging/` that has a `pyproject.toml`.

- The root: the sdist is built in a temporary folder, and the wheel from it; the contents of both are checked. The wheel
  is installed into an empty environment for a smoke test, and into another one for the service, which is started, used
  and stopped. `results/release/sbom.json` lists what is installed for it. `results/release/client.js.integrity` has the
  digest of `client.js`, with which a page can pin it.
- The others are built from the root's files, so the root's sdist is their source. A wheel is built, checked to contain
  only sources, and tested by `packaging/NAME/check.py try WHEEL` in an empty environment.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import sbom

ROOT = Path(__file__).resolve().parent.parent
REQUIRED_FILES = (
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "client/",
    "docs/",
    "experiments/",
    "src/",
    "tests/",
)
CLIENT = "maskedbandits/service/client.js"  # of client/, which the service serves
SERVICE_TIMEOUT_S = 600.0  # the first start compiles
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
EXPERIMENT = """
runs = 2
epsilons = [1]
problems = [{ name = "tiny", horizon = 100, means = [0.9, 0.1] }]
policies = [{ name = "uniform" }]
"""


class UnfitError(Exception):
    """A fault of a distribution, in one line."""


@dataclass(frozen=True)
class Distribution:
    """A distribution to be released."""

    folder: Path

    @property
    def name(self) -> str:
        """The name on the package index."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["name"])


def distributions(root: Path = ROOT) -> list[Distribution]:
    """Return the root and the folders of `packaging/`."""
    others = sorted(file.parent for file in root.glob("packaging/*/pyproject.toml"))
    return [Distribution(folder) for folder in [root, *others]]


def call(*command: str | Path, cwd: Path | None = None, code: int = 0) -> str:
    """Run a program and return its output; another exit code is a fault."""
    parts = [str(part) for part in command]
    done = subprocess.run(parts, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != code:
        last = (done.stdout.strip().splitlines() or ["it printed nothing"])[-1]
        raise UnfitError(f"`{' '.join(parts)[:120]}` ended with {done.returncode}, not {code}: {last}")
    return done.stdout


def build(folder: Path, target: Path, *which: str) -> None:
    """Build a distribution: the sdist and the wheel from it, or the wheel alone."""
    call(sys.executable, "-m", "build", *which, "--outdir", target, folder)


def files_of_sdist(sdist: Path) -> set[str]:
    """Return the paths in an sdist, without its top folder."""
    with tarfile.open(sdist) as archive:
        return {entry.name.partition("/")[2] for entry in archive if entry.isfile()}


def files_of_wheel(wheel: Path) -> set[str]:
    """Return the paths in a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def check_contents(sdist: set[str], wheel: set[str], tracked: set[str] | None) -> Iterator[str]:
    """Yield missing and unexpected files of the root's archives."""
    for required in REQUIRED_FILES:
        if not any(name == required or (required.endswith("/") and name.startswith(required)) for name in sdist):
            yield f"the sdist lacks {required}"
    if tracked is not None:
        yield from (
            f"the sdist holds {name}, which git does not know" for name in sorted(sdist - tracked - {"PKG-INFO"})
        )
    source = {name.removeprefix("src/") for name in sdist if name.startswith("src/")} | {CLIENT}
    yield from (f"the wheel lacks {name}" for name in sorted(source - wheel))
    yield from (f"the wheel holds {name}" for name in sorted(wheel - source))


def find_strays(wheel: set[str]) -> Iterator[str]:
    """Yield unexpected files of a wheel: all but sources, pages, the licence and `py.typed`."""
    wanted = (".py", "/py.typed", "/LICENSE", "/report/page.css", "/report/page.js", CLIENT)
    pages = re.compile(r"maskedbandits/(service/dashboard/page|demo/page)/[a-z]+\.(css|html|js)")
    yield from (
        f"the wheel holds {name}" for name in sorted(wheel) if not name.endswith(wanted) and not pages.fullmatch(name)
    )


def list_tracked_files() -> set[str] | None:
    """Return the files that git tracks, or None without git."""
    if not (ROOT / ".git").exists():
        return None
    return set(call("git", "ls-files", cwd=ROOT).splitlines())


def create_environment(folder: Path) -> Path:
    """Create an empty environment, and return its folder of programs."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def install(programs: Path, what: str) -> None:
    """Install with pip, at the pinned versions."""
    pip = (programs / "python", "-m", "pip", "--disable-pip-version-check", "--quiet")
    call(*pip, "install", "--constraint", ROOT / "constraints.txt", what)


def smoke(programs: Path, wheel: Path, folder: Path) -> None:
    """Run the first example of the README in a plain install, then an experiment with the extra."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ten_lines = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[0]
    call(programs / "python", "-c", ten_lines, cwd=folder)
    ours = programs / "maskedbandits"
    for arguments, expected in ((["--help"], "Experiments:"), (["policies"], "auto")):
        if expected not in call(ours, *arguments, cwd=folder):
            raise UnfitError(f"`maskedbandits {' '.join(arguments)}` does not say {expected!r}")
    (folder / "tiny.toml").write_text(EXPERIMENT, encoding="utf-8")
    refused = call(ours, "run", "tiny.toml", cwd=folder, code=2)
    if refused.count("\n") != 1 or "maskedbandits[experiments]" not in refused:
        raise UnfitError(f"without the extra, `maskedbandits run` says {refused!r}")
    install(programs, f"{wheel}[experiments]")
    call(ours, "run", "tiny.toml", cwd=folder)
    if not (folder / "results" / "tiny" / "index.html").exists():
        raise UnfitError("`maskedbandits run` with the extra leaves no page")


def smoke_service(programs: Path, folder: Path) -> None:
    """Start the service, create an experiment, decide, report, and stop it."""
    command = [str(programs / "maskedbandits"), "serve", "--port", "0"]
    with (folder / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            first = process.stdout.readline() if process.stdout is not None else ""
            address = re.search(r"http://127\.0\.0\.1:\d+", first)
            if address is None:
                raise UnfitError(f"`maskedbandits serve` says {first!r}, and not where it listens")
            use_service(address[0])
            process.terminate()
            if (code := process.wait(SERVICE_TIMEOUT_S)) != 0:
                raise UnfitError(f"`maskedbandits serve` ended with {code} after SIGTERM")
        finally:
            process.kill()
            process.communicate()


def use_service(address: str) -> None:
    """Repeat the first steps of the service's page."""
    until = time.monotonic() + SERVICE_TIMEOUT_S
    while ask(f"{address}/readyz")[0] != 200:
        if time.monotonic() > until:
            raise UnfitError(f"`maskedbandits serve` is not ready after {SERVICE_TIMEOUT_S:g} s")
        time.sleep(0.2)
    arms = [{"name": "short"}, {"name": "long"}]
    request_json(201, f"{address}/v1/experiments", {"name": "headlines", "epsilon": 1, "arms": arms})
    decided = request_json(200, f"{address}/v1/experiments/headlines/decisions", {})
    report = {"token": decided["token"], "bit": 1}
    for wanted in ("accepted", "duplicate"):
        if (status := request_json(200, f"{address}/v1/reports", report).get("status")) != wanted:
            raise UnfitError(f"the service calls a report {status!r}, not {wanted!r}")


def request_json(wanted: int, address: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the reply of the service, whose status must be the wanted one."""
    status, text = ask(address, body)
    if status != wanted:
        raise UnfitError(f"{address} answers {status}, not {wanted}: {text[:200]}")
    answer: dict[str, Any] = json.loads(text)
    return answer


def ask(address: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    """Return the status and the body of a reply of a local service."""
    sent = None if body is None else json.dumps(body).encode()
    try:
        with NO_PROXY.open(address, sent, timeout=SERVICE_TIMEOUT_S) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError as error:
        raise UnfitError(f"{address} does not answer: {error}") from None


def raise_faults(complaints: list[str]) -> None:
    """Raise all faults in one line of bounded length."""
    if complaints:
        others = f"; and {len(complaints) - 5} more" if len(complaints) > 5 else ""
        raise UnfitError("; ".join(complaints[:5]) + others)


def check_root(folder: Path) -> Path:
    """Build, check the contents, install and test; return the wheel."""
    build(ROOT, folder / "dist")
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    installed = files_of_wheel(wheel)
    raise_faults([*find_strays(installed), *check_contents(files_of_sdist(sdist), installed, list_tracked_files())])
    programs = create_environment(folder / "environment")
    install(programs, str(wheel))
    empty = folder / "empty"
    empty.mkdir()
    smoke(programs, wheel, empty)
    serving = create_environment(folder / "serving")
    install(serving, f"{wheel}[service]")
    smoke_service(serving, empty)
    publish(ROOT / "results" / "release", sbom.list_installed(serving / "python"), wheel)
    return wheel


def compute_integrity(content: bytes) -> str:
    """Return the digest of a script for the attribute `integrity` (Subresource Integrity, section 3.1)."""
    return f"sha384-{base64.b64encode(hashlib.sha384(content).digest()).decode()}"


def publish(folder: Path, distributions: list[dict[str, Any]], wheel: Path) -> None:
    """Write the files published beside a release, and print the digest of the client."""
    folder.mkdir(parents=True, exist_ok=True)
    document = json.dumps(sbom.build_bill(distributions, "maskedbandits"), indent=1, ensure_ascii=False)
    (folder / "sbom.json").write_text(f"{document}\n", encoding="utf-8")
    with zipfile.ZipFile(wheel) as archive:
        digest = compute_integrity(archive.read(CLIENT))
    (folder / "client.js.integrity").write_text(f"{digest}\n", encoding="utf-8")
    print(f'client.js: integrity="{digest}"')
    print(f"{folder / 'sbom.json'}: {len(distributions)} distributions")


def check_other(distribution: Distribution, folder: Path) -> Path:
    """Build a wheel of the root's files, check its contents, run its own check, and return it."""
    build(distribution.folder, folder, "--wheel")
    (wheel,) = folder.glob("*.whl")
    raise_faults([*find_strays(files_of_wheel(wheel))])
    call(sys.executable, distribution.folder / "check.py", "try", wheel, cwd=folder)
    return wheel


def main() -> None:
    """Check every distribution; end with one line."""
    fit = []
    for distribution in distributions():
        print(f"{distribution.name}: building, installing and trying it ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="release-check-") as folder:
            try:
                root = distribution.folder == ROOT
                wheel = check_root(Path(folder)) if root else check_other(distribution, Path(folder))
                fit.append(f"{wheel.name} ({wheel.stat().st_size / 1e3:,.0f} kB)")
            except UnfitError as fault:
                sys.exit(f"release-check: {distribution.name} is not fit: {fault}")
    print(f"release-check: fit to be released: {', '.join(fit)}")


if __name__ == "__main__":
    main()
