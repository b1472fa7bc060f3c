"""Builds what would be released and tries it as a stranger would: `make release-check`, some minutes.

A distribution is the root of the repository, and every folder of `packaging/` that has a `pyproject.toml`.

- Of the root, in a temporary folder: the sdist is built, and the wheel from it; both hold what they should and nothing
  else; the wheel is installed into an empty environment, and a smoke test runs there; another is for the service, which
  is started, asked and ended. What is installed for it is listed in `results/release/sbom.json`, and the digest of
  `client.js`, by which a page can pin it, is in `results/release/client.js.integrity`.
- The others are made of the root's files, so that their source is the root's sdist: a wheel is built, holds nothing but
  sources, and is handed to `packaging/NAME/check.py try WHEEL`, which tries it in an empty environment.
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
PROMISED = ("CHANGELOG.md", "LICENSE", "Makefile", "README.md", "client/", "docs/", "experiments/", "src/", "tests/")
CLIENT = "maskedbandits/service/client.js"  # of client/, which the service serves
PATIENCE = 600.0  # seconds: the first start compiles
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
EXPERIMENT = """
runs = 2
epsilons = [1]
problems = [{ name = "tiny", horizon = 100, means = [0.9, 0.1] }]
policies = [{ name = "uniform" }]
"""


class UnfitError(Exception):
    """What keeps a distribution from being released, in one line."""


@dataclass(frozen=True)
class Distribution:
    """One thing to be released."""

    folder: Path

    @property
    def name(self) -> str:
        """What `pip install` calls it."""
        project = tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["name"])


def distributions(root: Path = ROOT) -> list[Distribution]:
    """Return the root, and what `packaging/` holds."""
    others = sorted(file.parent for file in root.glob("packaging/*/pyproject.toml"))
    return [Distribution(folder) for folder in [root, *others]]


def call(*command: str | Path, cwd: Path | None = None, code: int = 0) -> str:
    """Run a program and return all that it printed; another exit code than this one is a fault."""
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
    """Return the paths in a wheel, without what describes it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def contents_complaints(sdist: set[str], wheel: set[str], tracked: set[str] | None) -> Iterator[str]:
    """Yield what is missing from the root's archives, or strayed into them."""
    for promised in PROMISED:
        if not any(name == promised or (promised.endswith("/") and name.startswith(promised)) for name in sdist):
            yield f"the sdist lacks {promised}"
    if tracked is not None:
        yield from (
            f"the sdist holds {name}, which git does not know" for name in sorted(sdist - tracked - {"PKG-INFO"})
        )
    source = {name.removeprefix("src/") for name in sdist if name.startswith("src/")} | {CLIENT}
    yield from (f"the wheel lacks {name}" for name in sorted(source - wheel))
    yield from (f"the wheel holds {name}" for name in sorted(wheel - source))


def strays(wheel: set[str]) -> Iterator[str]:
    """Yield what no wheel of ours should hold: all but sources, pages, a licence and the mark that they are typed."""
    wanted = (".py", "/py.typed", "/LICENSE", "/report/page.css", "/report/page.js", CLIENT)
    pages = re.compile(r"maskedbandits/(service/dashboard/page|demo/page)/[a-z]+\.(css|html|js)")
    yield from (
        f"the wheel holds {name}" for name in sorted(wheel) if not name.endswith(wanted) and not pages.fullmatch(name)
    )


def tracked_files() -> set[str] | None:
    """Return what git knows of, or nothing where there is no git."""
    if not (ROOT / ".git").exists():
        return None
    return set(call("git", "ls-files", cwd=ROOT).splitlines())


def empty_environment(folder: Path) -> Path:
    """Make an environment that holds nothing, and return its folder of programs."""
    venv.create(folder, with_pip=True)
    return folder / "bin"


def install(programs: Path, what: str) -> None:
    """Install with pip, at the pinned versions."""
    pip = (programs / "python", "-m", "pip", "--disable-pip-version-check", "--quiet")
    call(*pip, "install", "--constraint", ROOT / "constraints.txt", what)


def smoke(programs: Path, wheel: Path, folder: Path) -> None:
    """Use a plain install as the README says, then the extra."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    ten_lines = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[0]
    call(programs / "python", "-c", ten_lines, cwd=folder)
    ours = programs / "maskedbandits"
    for arguments, expected in ((["--help"], "Commands:"), (["policies"], "auto")):
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
    """Serve from an install with the extra for it: create an experiment, decide, report, and end gently."""
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
            if (code := process.wait(PATIENCE)) != 0:
                raise UnfitError(f"`maskedbandits serve` ended with {code} when it was told to")
        finally:
            process.kill()
            process.communicate()


def use_service(address: str) -> None:
    """Do what the first page of the service does."""
    until = time.monotonic() + PATIENCE
    while ask(f"{address}/readyz")[0] != 200:
        if time.monotonic() > until:
            raise UnfitError(f"`maskedbandits serve` is not ready after {PATIENCE:g} s")
        time.sleep(0.2)
    arms = [{"name": "short"}, {"name": "long"}]
    request_json(201, f"{address}/v1/experiments", {"name": "headlines", "epsilon": 1, "arms": arms})
    decided = request_json(200, f"{address}/v1/experiments/headlines/decisions", {})
    report = {"token": decided["token"], "bit": 1}
    for wanted in ("accepted", "duplicate"):
        if (status := request_json(200, f"{address}/v1/reports", report).get("status")) != wanted:
            raise UnfitError(f"the service calls a report {status!r}, not {wanted!r}")


def request_json(wanted: int, address: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return what the service answers, if it answers so."""
    status, text = ask(address, body)
    if status != wanted:
        raise UnfitError(f"{address} answers {status}, not {wanted}: {text[:200]}")
    answer: dict[str, Any] = json.loads(text)
    return answer


def ask(address: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    """Return the status that a service on this machine answers with, and what it says."""
    sent = None if body is None else json.dumps(body).encode()
    try:
        with NO_PROXY.open(address, sent, timeout=PATIENCE) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError as error:
        raise UnfitError(f"{address} does not answer: {error}") from None


def refuse(complaints: list[str]) -> None:
    """Raise what is wrong, in one line of bounded length."""
    if complaints:
        others = f"; and {len(complaints) - 5} more" if len(complaints) > 5 else ""
        raise UnfitError("; ".join(complaints[:5]) + others)


def check_root(folder: Path) -> Path:
    """Build, look inside, install, try; return the wheel."""
    build(ROOT, folder / "dist")
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    installed = files_of_wheel(wheel)
    refuse([*strays(installed), *contents_complaints(files_of_sdist(sdist), installed, tracked_files())])
    programs = empty_environment(folder / "environment")
    install(programs, str(wheel))
    empty = folder / "empty"
    empty.mkdir()
    smoke(programs, wheel, empty)
    serving = empty_environment(folder / "serving")
    install(serving, f"{wheel}[service]")
    smoke_service(serving, empty)
    publish(ROOT / "results" / "release", sbom.list_installed(serving / "python"), wheel)
    return wheel


def integrity(content: bytes) -> str:
    """Return the digest of a script as a page names it (Subresource Integrity, section 3.1)."""
    return f"sha384-{base64.b64encode(hashlib.sha384(content).digest()).decode()}"


def publish(folder: Path, distributions: list[dict[str, Any]], wheel: Path) -> None:
    """Write what is published beside a release, and print the digest of the client."""
    folder.mkdir(parents=True, exist_ok=True)
    document = json.dumps(sbom.bill(distributions, "maskedbandits"), indent=1, ensure_ascii=False)
    (folder / "sbom.json").write_text(f"{document}\n", encoding="utf-8")
    with zipfile.ZipFile(wheel) as archive:
        digest = integrity(archive.read(CLIENT))
    (folder / "client.js.integrity").write_text(f"{digest}\n", encoding="utf-8")
    print(f'client.js: integrity="{digest}"')
    print(f"{folder / 'sbom.json'}: {len(distributions)} distributions")


def check_other(distribution: Distribution, folder: Path) -> Path:
    """Build a wheel of the root's files, look inside, let its own check try it; return the wheel."""
    build(distribution.folder, folder, "--wheel")
    (wheel,) = folder.glob("*.whl")
    refuse([*strays(files_of_wheel(wheel))])
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
