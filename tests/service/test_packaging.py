"""The examples of a unit and an image: their commands exist, and their variables are settings."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from maskedbandits import cli
from maskedbandits.service.server.settings import load_settings

PACKAGING = Path(__file__).parents[2] / "packaging"
UNIT, IMAGE = PACKAGING / "systemd" / "maskedbandits.service", PACKAGING / "container" / "Containerfile"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text(encoding="utf-8"))
    return parser


def commands(text: str) -> list[str]:
    """Every line that calls the program, comments among them, with its end if it goes on."""
    whole = re.sub(r"\\\n#?", " ", text)
    found = re.findall(r"(?:^|\s|/)maskedbandits ((?:serve|key|compile|upgrade|backup)\b[^\n&|\"]*)", whole)
    return [each.strip() for each in found]


@pytest.mark.parametrize("file", [UNIT, IMAGE], ids=["systemd", "container"])
def test_every_command_can_be_read(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    called = commands(text)
    if file == IMAGE:
        called.append(" ".join(json.loads(re.findall(r"^CMD (.*)$", text, re.MULTILINE)[0])[1:]))
    assert any(each.startswith("serve") for each in called)
    assert any(each.startswith("key create") for each in called)
    for each in called:
        verb, *arguments = shlex.split(each)
        found = cli.main.commands[verb]
        if verb == "key":
            found, arguments = found.commands[arguments[0]], arguments[1:]  # type: ignore[attr-defined]
        found.make_context(verb, arguments)


@pytest.mark.parametrize(("file", "start"), [(UNIT, "systemctl enable"), (IMAGE, "podman run -d")])
def test_the_key_is_made_before_it_starts(file: Path, start: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert 0 < text.index("key create --role admin") < text.index(start)


def test_the_unit_may_do_little() -> None:
    text = UNIT.read_text(encoding="utf-8")
    found = dict(unit()["Service"])
    wanted = {"UMask": "0077", "ProtectProc": "invisible", "ProtectClock": "yes", "ProtectKernelLogs": "yes"}
    assert wanted.items() <= found.items()
    assert re.findall(r"^SystemCallFilter=(.*)$", text, re.MULTILINE) == ["@system-service", "~@privileged @resources"]


def test_the_image_installs_files_by_their_digests() -> None:
    text = re.sub(r"\\\n", " ", IMAGE.read_text(encoding="utf-8"))
    first, second = re.findall(r"pip install ([^&\n]*)", text)
    assert "--require-hashes" in first
    assert "-r packaging/lock.txt" in first
    assert {"--no-deps", "--no-build-isolation", "."} <= set(second.split())


def test_the_image_has_no_sources_and_no_root() -> None:
    last = IMAGE.read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    assert "COPY ." not in last
    assert "pip" not in last
    [user] = re.findall(r"^USER (.*)$", last, re.MULTILINE)
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    assert last.index(f"USER {user}") < last.index("RUN maskedbandits compile auto")  # its user may write, no other
    assert "HEALTHCHECK" in last


def test_the_build_sees_what_it_needs(tmp_path: Path) -> None:
    """A wheel can be built of the files that .dockerignore lets through, and nothing else is there."""
    root = PACKAGING.parent
    lines = (root / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    for name in (rule[1:] for rule in rules if rule.startswith("!")):
        there = tmp_path / name
        there.parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, there, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / name, there)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [wheel] = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as file:
        needed = {"client.js", "report-worker.js", "dashboard/page/index.html"}
        assert {f"maskedbandits/service/{name}" for name in needed} <= {*file.namelist()}
    assert (tmp_path / "packaging" / "lock.txt").exists()


def test_variables_of_the_unit_are_settings() -> None:
    lines = re.findall(r"^Environment=(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    assert load_settings({}, dict(lines)).storage == "sqlite:////var/lib/maskedbandits/bandits.db"
    assert unit()["Service"]["RestartPreventExitStatus"] == str(cli.USAGE)


def test_variables_of_the_image_are_settings() -> None:
    made = load_settings({}, dict(re.findall(r"^ENV (\w+)=(.*)$", IMAGE.read_text(encoding="utf-8"), re.MULTILINE)))
    assert (made.host, made.port) == ("0.0.0.0", 8080)  # noqa: S104
    assert made.storage == "sqlite:////data/bandits.db"
    assert not made.is_loopback  # so that it refuses to start without a key


def test_a_stop_leaves_time_for_requests() -> None:
    assert int(unit()["Service"]["TimeoutStopSec"]) > load_settings({}, {}).stop_after + 15


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    text = UNIT.read_text(encoding="utf-8").replace("/opt/maskedbandits/bin/maskedbandits", "/bin/true")
    file = tmp_path / UNIT.name
    file.write_text(text.replace("User=maskedbandits", "User=nobody"), encoding="utf-8")
    program = str(shutil.which("systemd-analyze"))
    done = subprocess.run([program, "verify", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
