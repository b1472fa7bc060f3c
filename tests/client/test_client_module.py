"""The browser's device in Node: its mask matches Python's, passes the audit, and can be packed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_2samp
from scripts import client_vectors

from children import LONGEST, PROGRAM
from maskedbandits import __version__
from maskedbandits.privacy.audit import audit_group_program, audit_program
from maskedbandits.privacy.audit.statistics import (
    Event,
    clopper_pearson_lower,
    clopper_pearson_upper,
    epsilon_upper_bound,
)

CLIENT = Path(__file__).parents[2] / "client"
BIT, MANY = "bit", "one of many"
NODE, NPM = shutil.which("node"), shutil.which("npm")


def is_old(node: str | None) -> bool:
    """Tell whether Node is missing or older than 20, which has no global crypto."""
    said = "v0" if node is None else subprocess.run([node, "--version"], capture_output=True, text=True).stdout
    return int(said.strip("v\n").partition(".")[0]) < 20


pytestmark = pytest.mark.skipif(is_old(NODE), reason="no node on the PATH, or one before 20: install it")


needs_npm = pytest.mark.skipif(NPM is None, reason="no npm on the PATH: on Debian, apt-get install npm")


def run(*command: object, folder: Path = CLIENT, code: int = 0, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        encoding="utf-8",
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == code, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_vectors_match_python() -> None:
    assert client_vectors.FILE.read_text(encoding="utf-8") == client_vectors.text()
    assert sum(map(len, client_vectors.vectors().values())) > 800


@pytest.mark.parametrize("file", ["vectors", "device", "visits", "clock", "trouble", "timing", "traffic"])
def test_javascript_tests_pass(file: str) -> None:
    """Run client/test with Node's test runner: vectors, promises, mutants."""
    check_javascript(file, {"MASKEDBANDITS_VISITS": "40"} if file == "traffic" else None)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["timing", "traffic"])
def test_javascript_tests_pass_with_many_visits(file: str) -> None:
    check_javascript(file, {"MASKEDBANDITS_VISITS": "400"})


def check_javascript(file: str, environment: Mapping[str, str] | None = None) -> None:
    said = run(NODE, "--test-reporter=tap", f"test/{file}.test.js", environment=environment)
    assert "# fail 0" in said
    assert "# skipped 0" in said
    assert int(said.partition("# pass ")[2].split()[0]) >= 6


def audit(trials: int, retries: int = 1, mask: Path = CLIENT / "cli.js") -> str:
    """Return the outcome of the audit; it refutes a sound program with a probability of at most 10^-7."""
    return str(audit_program(f"{NODE} {mask} 1", 1, trials, 0.9999999, retries, timeout=LONGEST).outcome)


def audit_groups(trials: int, answers: str, mask: Path = CLIENT / "cli.js") -> str:
    """Return the outcome of the audit with three groups; it refutes a sound program as rarely."""
    found = audit_group_program(f"{NODE} {mask} 1", 1, 3, answers, 3, trials, 0.9999999, timeout=LONGEST)
    return str(found.outcome)


def test_audit_passes() -> None:
    assert audit(10_000) == "not refuted"
    assert audit(3_000, retries=3) == "not refuted"


@pytest.mark.parametrize("answers", [pytest.param(BIT, marks=pytest.mark.slow), MANY])
def test_group_audit_passes(answers: str) -> None:
    assert audit_groups(3_000, answers) == "not refuted"


@pytest.mark.slow
@pytest.mark.parametrize("groups", [[], ["--groups", "3", "--answers", BIT], ["--groups", "3", "--answers", MANY]])
def test_documented_audit_passes(groups: list[str]) -> None:
    command = [*PROGRAM, "audit", "--epsilon", "1", *groups, "--command", "node client/cli.js"]
    said = run(*command, "--confidence", "0.9999999", "--timeout", LONGEST, folder=CLIENT.parent)
    assert "Not refuted: nothing that was seen contradicts epsilon = 1" in said


def mutant(piece: str, other: str, folder: Path) -> Path:
    """Return a copy of the program with one piece of the module replaced."""
    text = (CLIENT / "client.js").read_text(encoding="utf-8")
    assert text.count(piece) == 1
    (folder / "client.js").write_text(text.replace(piece, other), encoding="utf-8")
    for name in ("cli.js", "package.json"):
        shutil.copyfile(CLIENT / name, folder / name)
    return folder / "cli.js"


@pytest.mark.parametrize(
    ("piece", "other"),
    [
        ("Number(word < each * BigInt(answers - 1))", "0"),
        ("(truth + Number(", "(truth && truth + Number("),  # flips ones alone
    ],
)
def test_audit_refutes_mutants(piece: str, other: str, tmp_path: Path) -> None:
    assert audit(2_000, mask=mutant(piece, other, tmp_path)) == "refuted"


DRAWN = "answerOf(truthOf(bit), answers, each, words[at])"
REWARD_ALONE = f"answers > 2 ? truthOf(0) + answerOf(bit, 2, threshold(epsilon), words[at]) : {DRAWN}"


@pytest.mark.parametrize(
    ("piece", "other", "answers", "outcome"),
    [
        pytest.param("bit ^ (groups && signs[own])", "bit", BIT, "other g", marks=pytest.mark.slow),
        (DRAWN, f"answers > 2 ? truthOf(bit) : {DRAWN}", MANY, "refuted"),
        pytest.param(DRAWN, REWARD_ALONE, MANY, "refuted", marks=pytest.mark.slow),  # reveals the group
        pytest.param("epsilon: Math.min(asked, most)", "epsilon: asked", BIT, "refuted", marks=pytest.mark.slow),
        ("epsilon: Math.min(asked, most)", "epsilon: asked", MANY, "refuted"),
    ],
    ids=["no sign", "no mask", "the reward alone", "believes a bit's epsilon", "believes an epsilon"],
)
def test_group_audit_refutes_mutants(piece: str, other: str, answers: str, outcome: str, tmp_path: Path) -> None:
    trials = 4_000 if outcome == "other g" else 1_500
    assert audit_groups(trials, answers, mutant(piece, other, tmp_path)) == outcome


def test_client_program_rejects_mistakes_in_one_line() -> None:
    questions = (b"0,1 0,1 1 2 1\n", b"0,1 0,1 1 0 7\n", b"0,1 0,7 1 0 1\n", b"0,1 1 0 1\n")
    for arguments, given in ((["17"], b""), (["nothing"], b""), *(([], line) for line in (b"2\n", *questions))):
        command = [str(NODE), str(CLIENT / "cli.js"), *arguments]
        done = subprocess.run(command, input=given, capture_output=True, timeout=LONGEST, check=False)
        assert done.returncode == 2
        assert done.stderr.count(b"\n") == 1
        assert b"7" not in done.stderr  # nor is what was given repeated
        assert done.stdout == b""


def test_invalid_questions_get_no_answer() -> None:
    lines = b"0,1 0,1,1 1 1 1\n" + b"0,1 - 17 1 1\n" + b"0,1 - 0 1 1\n" + b"0,1 - 16 1 1\n" * 400
    command = [str(NODE), str(CLIENT / "cli.js"), "0.5"]
    done = subprocess.run(command, input=lines, capture_output=True, timeout=LONGEST, check=True)
    answers_given = done.stdout.decode().split("\n")
    assert answers_given[:3] == ["", "", ""]
    assert set(answers_given[3:-1]) == set("0123")  # each false answer has a fifth; all true at epsilon = 16


def test_proof_interval_contains_audit_interval() -> None:
    cases = [(0, 10), (10, 10), (1, 10), (27, 100), (269, 1000), (2689, 10_000), (500_000, 1_000_000), (3, 1_000_000)]
    program = f"""
        import {{ interval }} from {json.dumps((CLIENT / "client.js").as_uri())};
        console.log(JSON.stringify({json.dumps(cases)}.map(([hits, n]) => interval(hits, n, 0.0025))));
    """
    for (hits, n), (low, high) in zip(cases, json.loads(run(NODE, "--input-type=module", "-e", program)), strict=True):
        exact = [
            float(end(np.array(hits), np.array(n), 0.0025)) for end in (clopper_pearson_lower, clopper_pearson_upper)
        ]
        assert low <= exact[0] + 1e-12
        assert exact[1] <= high + 1e-12
        assert high - low <= 1.5 * (exact[1] - exact[0]) + 1e-12


USES = """
    import { Device, inMemory, proveIt } from "maskedbandits-client";
    const terms = { cap: 1, maxEpsilon: 1, store: inMemory(), background: false };
    const decision = await new Device("http://127.0.0.1:9", "x", terms).decide({ fallback: "mine" });
    console.log(decision.arm, proveIt(100, 1).flips);
"""


def pack(folder: Path) -> Path:
    """Return a folder in which the package is installed, from what npm packs."""
    (made,) = json.loads(run(NPM, "pack", "--json", "--offline", "--cache", folder, "--pack-destination", folder))
    home = folder / "node_modules" / "maskedbandits-client"
    with tarfile.open(folder / made["filename"]) as archive:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11.4 and later
        archive.extractall(folder, **safely)  # type: ignore[arg-type]  # noqa: S202 -- made here
    home.parent.mkdir()
    (folder / "package").rename(home)
    return home


@needs_npm
def test_npm_package_can_be_used(tmp_path: Path) -> None:
    home = pack(tmp_path)
    names = {file.name for file in home.iterdir()}
    modules = {"cli.js", "client.d.ts", "client.js", "report-worker.js"}
    assert names == {"LICENSE", "README.md", "package.json", "vectors.json", *modules}
    assert json.loads((home / "package.json").read_text(encoding="utf-8"))["version"] == __version__
    assert (home / "LICENSE").read_bytes() == (CLIENT.parent / "LICENSE").read_bytes()
    (tmp_path / "uses.mjs").write_text(USES, encoding="utf-8")
    assert run(NODE, "uses.mjs", folder=tmp_path).split() == ["mine", "100"]


TYPED = """
import { Device, inBrowser, inMemory, proveIt, type Decision, type Proof, type Store } from "maskedbandits-client";
const store: Store = inMemory();
const terms = { cap: 1, per: "30 days", maxEpsilon: 1, store, jitter: 60 };
const device = new Device(new URL("https://a.example"), "x", terms);
const request = { visitor: "ann", eligibleArms: ["a"], fallback: null };
const decision: Decision<{ title: string }> = await device.decide(request);
const title: string | undefined = decision.payload?.title;
const counts: boolean = await decision.report(0.5);
const proof: Proof = device.proveIt(100, document.querySelector("h1"));
const left: number = (await device.remaining()) + (await device.sendDue());
device.close();
console.log(title, counts, proof.holds, left, proveIt(100, 1).low, inBrowser("x"));
// @ts-expect-error -- a cap has to be given
new Device("https://a.example", "x", { maxEpsilon: 1 });
// @ts-expect-error -- no such option
new Device("https://a.example", "x", { cap: 1, maxEpsilon: 1, epsilon: 3 });
// @ts-expect-error -- a reward is a number
await decision.report("1");
// @ts-expect-error -- nor is it settled later whether it takes part
decision.participates = true;
"""
STRICT = ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "false"]


@needs_npm
@pytest.mark.slow
def test_types_pass_the_compiler(tmp_path: Path) -> None:
    """The types fit their use, and what the module really is: everything that it has, is called as they say."""
    pack(tmp_path)
    install = [str(NPM), "install", "--no-save", "--no-audit", "--no-fund", "--prefix", str(tmp_path), "typescript@5"]
    done = subprocess.run(install, capture_output=True, timeout=LONGEST, check=False, cwd=tmp_path)
    if done.returncode:
        pytest.skip("typescript cannot be had from npm's registry")
    packed_again = tmp_path / "node_modules" / "maskedbandits-client"
    if not packed_again.exists():  # npm removes what it did not install
        shutil.copytree(CLIENT, packed_again)
    (tmp_path / "uses.mts").write_text(TYPED, encoding="utf-8")
    run(NODE, tmp_path / "node_modules" / "typescript" / "bin" / "tsc", *STRICT, "uses.mts", folder=tmp_path)


def test_every_export_is_typed() -> None:
    module = json.dumps((CLIENT / "client.js").as_uri())
    program = f"import * as all from {module}; console.log(Object.keys(all).join(' '))"
    types = (CLIENT / "client.d.ts").read_text(encoding="utf-8")
    names = run(NODE, "--input-type=module", "-e", program).split()
    assert len(names) > 8
    for name in names:
        assert f"export class {name} " in types or f"export function {name}(" in types, name


def test_types_list_exactly_the_methods() -> None:
    module = json.dumps((CLIENT / "client.js").as_uri())
    program = f"""
        import {{ Device, inMemory, proveIt }} from {module};
        const terms = {{ cap: 1, maxEpsilon: 1, store: inMemory(), background: false }};
        const decision = await new Device("http://127.0.0.1:9", "x", terms).decide();
        const names = [Object.getOwnPropertyNames(Device.prototype), Object.keys(decision), Object.keys(proveIt(2, 1))];
        console.log(JSON.stringify([...names, Object.keys(inMemory())]));
    """
    types = (CLIENT / "client.d.ts").read_text(encoding="utf-8")
    kinds = ("class Device", "interface Decision<Payload = unknown>", "interface Proof", "interface Store")
    for kind, names in zip(kinds, json.loads(run(NODE, "--input-type=module", "-e", program)), strict=True):
        body = types.partition(f"export {kind} {{\n")[2].partition("\n}")[0]
        assert set(re.findall(r"^  (?:readonly )?(\w+)[(:<]", body, re.MULTILINE)) == set(names), kind


def test_every_option_is_documented_once() -> None:
    types = (CLIENT / "client.d.ts").read_text(encoding="utf-8")
    (options,) = re.findall(r"interface DeviceOptions \{\n(.*?)^\}", types, re.DOTALL | re.MULTILINE)
    names = re.findall(r"^  (\w+)\??:", options, re.MULTILINE)
    page = (CLIENT.parent / "docs" / "browser_client.md").read_text(encoding="utf-8")
    table = page.partition("| option |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == sorted(names)
    assert len(names) == 14


def list_first(log: Sequence[dict[str, Any]], reward: float) -> list[float]:
    return [visit["requests"][0]["at"] for visit in log if visit["reward"] == reward]


def drop_late(times: list[float]) -> list[float]:
    """Return those of pages that were not left."""
    return [time for time in times if time < 190]


def judge_traffic(visits: int, widest: float) -> None:
    """Check the network traffic of visits; a sound module fails this once in 10^6 times."""
    seen = json.loads(run(NODE, "test/traffic.js", visits))
    assert seen["clicks"] == seen["silence"]  # every time, every size, every presence
    assert len(seen["clicks"]) == visits
    free = seen["free"]
    assert {len(visit["taken"]) for visit in free} == {1}
    assert len({request["size"] for visit in free for request in visit["requests"]}) == 1
    assert min(request["at"] for visit in free for request in visit["requests"]) >= 120
    known = [[visit["taken"][0] for visit in free if visit["reward"] == reward] for reward in (0, 1)]
    trials = (len(known[0]), len(known[1]))
    for value in (0, 1):
        event = Event(f"says {value}", (known[0].count(value), known[1].count(value)), trials, 5e-8)
        assert event.epsilon <= 1 <= epsilon_upper_bound(event)
        assert epsilon_upper_bound(event) - event.epsilon < widest
    assert ks_2samp(list_first(free, 1), list_first(free, 0)).pvalue > 1e-7
    assert (
        ks_2samp(drop_late(list_first(seen["hidden"], 1)), drop_late(list_first(free, 0))).pvalue > 1e-7
    )  # a click hides the page


@pytest.mark.slow  # client/test/traffic.test.js compares fewer visits, without the statistics
@pytest.mark.parametrize(("visits", "widest"), [(500, 5.0), (10_000, 0.9)])
def test_traffic_reveals_only_epsilon(visits: int, widest: float) -> None:
    judge_traffic(visits, widest)
