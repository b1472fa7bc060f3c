"""The examples in the documentation run, and what it names exists."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

from commands import call
from helpers.boundaries import draw_figures
from maskedbandits.device import Device

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md")])
SHOWS_ITS_OUTPUT = ("ledger", "quickstart")


def examples(page: Path) -> str:
    """All Python examples of a page, one after the other: a later one may use what an earlier one made."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


TO_BE_SAVED = ("write_policy",)  # its examples are files: test_write_policy.py


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page) and page.stem not in TO_BE_SAVED], ids=lambda page: page.stem
)
def test_examples_run_when_pasted(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if "results/paper" in examples(page):
        draw_figures(monkeypatch)
        assert call("run", ROOT / "experiments" / "paper.toml", "--runs", 1, "--no-progress").exit_code == 0
    names: dict[str, Any] = {"__name__": "__main__"}
    code = examples(page).replace("127.0.0.1:8080", "127.0.0.1:9")  # not a service that runs on this machine
    exec(compile(code, page.name, "exec"), names)  # noqa: S102 -- our own pages
    for value in names.values():
        if isinstance(value, Device):
            value.close()
    printed = capsys.readouterr().out
    assert printed
    if page.stem in SHOWS_ITS_OUTPUT:
        assert all(line in page.read_text(encoding="utf-8") for line in printed.splitlines())


def test_readme_has_examples() -> None:
    assert examples(ROOT / "README.md").count("\n") > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).is_file(), f"{page.name} links to {target}, which is no file"


def anchors(page: Path) -> set[str]:
    """The anchors that the headings of a page get."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_sections_resolve(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]*)\)", page.read_text(encoding="utf-8")):
        linked = page.parent / target if target else page
        if linked.suffix == ".md" and linked.is_file():
            assert anchor in anchors(linked), f"{page.name} links to {target}#{anchor}, which is no section"


def test_every_command_is_documented() -> None:
    """A page names each verb, and its help explains each option."""
    from maskedbandits.cli import main

    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    for name, command in main.commands.items():
        assert re.search(rf"`(maskedbandits )?{name}\b", text), name
        for verb in getattr(command, "commands", {}):
            assert f"{name} {verb}" in text
        for parameter in command.params:
            assert parameter.param_type_name == "argument" or getattr(parameter, "help", None), (name, parameter.name)


def test_policy_table_is_complete() -> None:
    from docs import blocks
    from docs import policies as page

    rows = blocks.read(page.PAGE).splitlines()[2:]
    # all but the measured columns, which come from the benchmark
    assert [row.rsplit("|", 3)[0] for row in rows] == [page.row(name, {}).rsplit("|", 3)[0] for name in page.names()]


def test_unplayed_policy_keeps_its_row_under_the_same_columns() -> None:
    from docs import policies as page

    old = "| policy | a | ns |\n|---|--:|--:|\n| one | 1 | 5 |\n| two | 2 | 6 |"
    new = "| policy | a | ns |\n|---|--:|--:|\n| one | 3 | 7 |"
    assert page.keep_missing_rows(new, old) == new + "\n| two | 2 | 6 |"
    other = "| policy | b | ns |\n|---|--:|--:|\n| one | 3 | 7 |"
    assert page.keep_missing_rows(other, old) == other


def test_privacy_tables_match_code() -> None:
    from docs import blocks
    from docs import privacy as page

    from maskedbandits.privacy import Randomizer

    assert blocks.names(page.PAGE) == list(page.TABLES)
    assert all(blocks.read(page.PAGE, which) == table() for which, table in page.TABLES.items())
    prose = blocks.prose(page.PAGE)
    once, often = page.percent(Randomizer(1).p00), page.percent(page.majority(25, "1"))
    assert f"At ε = 1 a report is true {once} of the time" in prose
    assert f"25 fresh reports at ε = 1 give the bit away with {often}" in prose
    assert "prints 1.0" in prose
    assert 1 / (1 + math.exp(-37)) == 1.0


def test_audit_table_matches_code() -> None:
    from docs import audit as page
    from docs import blocks

    assert blocks.names(page.PAGE) == list(page.TABLES)
    assert all(blocks.read(page.PAGE, which) == table() for which, table in page.TABLES.items())


def test_exact_epsilons_match_command() -> None:
    lines = call("audit", "--exact").stdout.splitlines()
    text = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    assert len(lines) > 10
    for line in lines:
        assert f"    {line}\n" in text


def test_no_page_has_placeholders() -> None:
    for page in PAGES:
        assert not re.search(r"^[A-Z]{4,}$", page.read_text(encoding="utf-8"), re.MULTILINE), page.name
