"""What pages say of their tables is what the tables hold, and every table has a command that writes it."""

import re
from pathlib import Path

import numpy as np
import pytest
from docs import blocks

from maskedbandits import theory
from maskedbandits.policies import auto

ROOT = Path(__file__).parent.parent
PAGES = sorted(ROOT.glob("docs/*.md"))
MARK = re.compile(r"<!-- begin: (.*) -->")


def rows(page: str, which: str) -> list[list[str]]:
    """The cells of a table, without its heading."""
    lines = blocks.read(ROOT / "docs" / page, which).splitlines()[2:]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


def number(cell: str) -> float:
    """The first number of a cell: a mean without its interval, a bound without what is said of it."""
    return float(re.split(r"[ *]", cell)[0].replace(",", ""))


def spread(ratios: list[float], low: str, high: str) -> str:
    return f"{min(ratios):{low}} to {max(ratios):{high}}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_written_by_script_of_their_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = MARK.findall(text)
    assert text.count(blocks.END) == len(commands)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        assert command.startswith(f"python -m docs.{page.stem}")
    if commands:
        assert page.with_suffix(".py").exists()
        assert f"\t@$(BIN)/python -m docs.{page.stem}\n" in makefile


def test_scripts_are_named_after_their_page() -> None:
    helpers = {"__init__", "blocks"}
    scripts = {path.stem for path in ROOT.glob("docs/*.py")} - helpers
    assert scripts <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_root_files_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (ROOT / target).is_file(), f"{page.name} links to {target}, which is no file"


def test_filling_a_block_changes_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "x.md"
    page.write_text("a\n<!-- begin: python -m docs.x -->\nold\n<!-- end -->\nb\n", encoding="utf-8")
    page.write_text(page.read_text() + "<!-- begin: python -m docs.x two -->\n<!-- end -->\n", encoding="utf-8")
    blocks.fill(page, {"": "new", "two": "other"})
    assert (blocks.read(page), blocks.read(page, "two")) == ("new", "other")
    blocks.fill(page, {"two": ""})
    assert page.read_text(encoding="utf-8").startswith("a\n<!-- begin: python -m docs.x -->\nnew\n<!-- end -->\nb\n")


def test_theory_page_windows_match_code() -> None:
    text = " ".join((ROOT / "docs" / "theory.md").read_text(encoding="utf-8").split())
    table = rows("theory.md", "windows")
    paper, corrected, twice, best = ([number(row[column]) for row in table] for column in (3, 5, 6, 8))
    assert f"In these {len(table)} problems" in text
    less = spread([a / b for a, b in zip(paper, corrected, strict=True)], ".1f", ".0f")
    assert f"has {less} times less regret than the paper's" in text
    more = spread([a / b for a, b in zip(corrected, best, strict=True)], ".1f", ".1f")
    assert f"and {more} times the regret of the best window" in text
    shorter = spread([number(row[7]) / number(row[4]) for row in table], ".1f", ".0f")
    assert f"by a factor of {shorter}" in text
    saved = spread([100 - 100 * a / b for a, b in zip(twice, corrected, strict=True)], ".0f", ".0f")
    assert f"a smaller mean in every row, by {saved} %" in text


def test_theory_page_bounds_match_code() -> None:
    text = " ".join((ROOT / "docs" / "theory.md").read_text(encoding="utf-8").split())
    table = rows("theory.md", "pulls")
    assert f"by a factor of {max(number(row[5]) for row in table):.1f} in the worst case" in text
    looseness = spread([number(row[6]) / number(row[3]) for row in table], ".0f", ".0f")
    assert f"It is {looseness} times what is measured" in text
    assert all(number(row[6]) > number(row[3]) for row in table)


def test_theory_page_gaps_match_table() -> None:
    """The formula for equal gaps holds where they are equal, and not where they differ."""
    from bench import gaps

    assert blocks.read(ROOT / "docs" / "theory.md", "gaps") == gaps.gaps_table()
    for cells in rows("theory.md", "gaps"):
        bound, leading, equal, any_gaps = (number(cell) for cell in cells[2:])
        assert bound < leading < any_gaps
        assert (bound < equal) == (leading == equal) == cells[0].startswith("all ")
    for cells in rows("theory.md", "two thirds"):
        bound, least, measured = (number(cell) for cell in cells[2:])
        assert max(least, measured) < bound
    assert len(rows("theory.md", "two thirds")) == len(gaps.HORIZONS)


def test_pages_distinguish_glr_klucb_cf() -> None:
    """Threshold and forced exploration differ, as two pages say."""
    for page in PAGES:
        assert "exactly as GLR-klUCB" not in " ".join(page.read_text(encoding="utf-8").split())


def test_policies_page_claims_about_auto() -> None:
    text = " ".join((ROOT / "docs" / "policies.md").read_text(encoding="utf-8").split())
    for which, horizon in (("regret", "100,000"), ("long", "1,000,000")):
        every = {row[1]: row for row in rows("policies.md", f"{which} untold") if row[0] == "auto"}
        changing = [every[family] for family in ("abrupt", "singly", "drift")]
        beside = [number(row[4]) for row in changing]
        assert max(beside) < 1.0
        assert f"{spread(beside, '.2f', '.2f')} times as much at T = {horizon}" in text
        assert f"up to {max(number(row[5]) for row in changing):.2f} times as much at T = {horizon}" in text
        still = number(every["stationary"][4])
        assert f"{still:.2f} times" in text.split("Where nothing changes, `auto`")[1].split("insurance")[0]
    table = {row[0]: row for row in rows("policies.md", "regret")}
    long = {row[0]: row for row in rows("policies.md", "long")}
    assert number(table["auto"][1]) < 1.0
    assert f"{number(table['auto'][1]):.2f} times what `oracle-klucb-cf` does at T = 100,000" in text
    assert f"{number(long['auto'][1]):.2f} times at T = 1,000,000" in text


def test_evaluation_page_claims_about_auto() -> None:
    table = {row[0]: row for row in rows("evaluation.md", "paper")}
    text = " ".join((ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8").split())
    less = {epsilon: round(100 * (1 - number(row[4]) / number(row[2]))) for epsilon, row in table.items()}
    assert f"`auto` loses {min(less.values())} to {max(less.values())} % less in the mean of 100 runs" in text
    assert less["∞"] == min(less.values())


def test_how_auto_works_claims_match_table() -> None:
    text = " ".join((ROOT / "docs" / "how_auto_works.md").read_text(encoding="utf-8").split())
    table = [[number(cell) for cell in cells[2:]] for cells in rows("how_auto_works.md", "")]
    assert f"The premium is {spread([row[4] for row in table], '.2f', '.2f')} times" in text
    saved = [(bare_rise - insured_rise) / (insured - bare) for bare, insured, bare_rise, insured_rise, _ in table]
    assert f"saves {spread(saved, '.0f', '.0f')} times what it costs" in text
    assert f"it expects {auto.FEW:g} changes of all arms, and {auto.FEWER:g} of each other kind" in text


def test_planner_example_is_consistent() -> None:
    page = ROOT / "docs" / "choose_epsilon.md"
    shown = " ".join(blocks.read(page, "example").split())
    patterns = r"Simulated in (\d+) worlds", r"Take ε = (\S+):", r"000 people, (\S+ % \([^)]*\)) of the gain"
    [worlds], [advised], [cost] = (re.findall(pattern, shown) for pattern in patterns)
    table = {line.split()[0]: line for line in blocks.read(page, "example").splitlines() if "±" in line[:30]}
    assert cost in table[advised]
    assert worlds == "10"
    assert "of few worlds, ten in the example" in " ".join(blocks.prose(page).split())
    assert float(table["4"].split("%")[0].split()[-1]) < 1  # of the gain: what the figure's words call invisible


@pytest.mark.slow
def test_planner_example_matches_command() -> None:
    from docs import choose_epsilon as page

    from maskedbandits.planner import plan

    assert blocks.read(page.PAGE, "example") == page.example(plan(5, 200_000, 4, 0.1, 0.3))


def test_noise_table_matches_code() -> None:
    """And it shows what the page says: without the tail's term an index is too low too often, with it never."""
    from docs import noise as page

    assert blocks.read(page.PAGE, "tails") == page.tails()
    for cells in rows("noise.md", "tails"):
        for place, allowed in ((1, 1e-3), (3, 1e-6), (5, 1e-9)):
            assert float(cells[place + 1]) <= allowed
            assert int(cells[0]) > 3 or place == 1 or float(cells[place]) > allowed


@pytest.mark.parametrize("which", ["visitors", "naive", "switch"])
def test_private_groups_tables_match_code(which: str) -> None:
    from docs import private_groups as page

    assert blocks.read(page.PAGE, which) == page.TABLES[which]()


def test_private_groups_page_claims_about_wrong_shares() -> None:
    """Intervals overlap in every row; policies that compare arms alone choose the same, unless groups are pooled."""
    table = {cells[0]: cells[1:] for cells in rows("private_groups.md", "shares")}
    for cells in table.values():
        ends = [(number(cell) - half, number(cell) + half) for cell in cells for half in [number(cell.split("± ")[1])]]
        assert max(low for low, _ in ends) < min(high for _, high in ends)
    for name in ("ts-cf", "klucb-cf"):
        assert len(set(table[f"`{name}`, `pool=False`"])) == 1
        assert len(set(table[f"`{name}`"])) == 3


def test_private_groups_page_peer_noise_matches_code() -> None:
    from docs import private_groups as page

    assert blocks.read(page.PAGE, "noise") == page.noise()


def test_private_groups_page_claims_about_trees() -> None:
    played = [cells for cells in rows("private_groups.md", "partitions") if cells[1]]
    assert len(played) == 40
    lost = np.array([[number(cell) for cell in cells[3:9]] for cells in played])
    worst = (lost / lost[:, :5].min(axis=1)[:, None]).max(axis=0)
    assert min(worst[:5]) > 15
    assert worst[5] < 10
    published = [cells for cells in played if cells[10]]
    assert len(published) == 4
    assert all(number(cells[8]) < number(cells[10]) for cells in published)
    assert all(3 * number(cells[5]) < number(cells[8]) for cells in published[:3])  # 3 x 3 at 1 to 4


def test_noise_page_claims_match_measurements() -> None:
    lost = {cells[0]: int(cells[2].split()[0]) for cells in rows("noise.md", "stuck")}
    assert all((count == 0) == index.startswith("sub-gamma") for index, count in lost.items())
    response, laplace, _, _ = rows("noise.md", "costs")
    ratios = [number(noisy) / number(bits) for noisy, bits in zip(laplace[1:], response[1:], strict=True)]
    assert 1.5 < min(ratios) <= max(ratios) < 2.5


def test_evaluation_claims_match_tables() -> None:
    text = " ".join((ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8").split())
    retail, blind, films = (
        {row[0]: [number(cell) for cell in row[1:]] for row in rows("evaluation.md", which)}
        for which in ("retail", "retail-blind", "movielens")
    )
    fixed, window, learners = (
        "best fixed arm, in hindsight",
        "sw-klucb-cf, paper's window",
        ("auto", "glr-klucb-cf", "klucb-cf"),
    )
    most = max(a / b for name in learners for a, b in zip(retail[name], retail[fixed], strict=True))
    assert f"at most {most:.2f} times what the best fixed arm loses" in text
    assert f"`auto` loses {retail['auto'][-1] / retail['klucb-cf'][-1]:.2f} times as much as `klucb-cf`" in text
    assert retail["auto"][0] > retail["klucb-cf"][0]
    for table, never in ((retail, "klucb-cf"), (blind, "klucb-cf"), (films, "klucb-cf, never forgets")):
        assert all(a > b for a, b in zip(table[window], table[never], strict=True))
    assert all(min(blind[name]) > blind[fixed][0] for name in (*learners, window))
    assert all(
        auto == min(others)
        for auto, *others in zip(blind["auto"], *(blind[name] for name in (*learners, window)), strict=True)
    )
    ratio = films["auto"][-1] / films["ts-cf, never forgets"][-1]
    assert f"without privacy `auto` loses {ratio:.1f} times as much as Thompson sampling" in text
    assert films["auto"][0] < films["ts-cf, never forgets"][0]


def test_evaluation_claims_about_logs() -> None:
    text = " ".join((ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8").split())
    worth = {row[0]: row[1:] for row in rows("data.md", "worth")}
    size, arms, periods = (int(number(cell.split()[0])) for cell in worth["`movielens-100k`"][:3])
    window = theory.paper_window(round(size / arms), periods)
    assert f"some {100 * round(size / arms / 100):,} of its {size:,} rows" in text
    assert f"is {window} of them, or {arms * window:,} rows" in text
    size, arms, periods = (int(number(cell.split()[0])) for cell in worth["`open-bandit-small`"][:3])
    assert f"the paper's window is {theory.paper_window(round(size / arms), periods)}, shorter" in text
    chance, _, _, *learners = (row[1:] for row in rows("evaluation.md", "clicks"))
    pairs = [(one, other) for learner in learners for one, other in zip(chance, learner, strict=True)]
    assert len(pairs) == 9
    for one, other in pairs:  # the intervals meet
        (mean, half), (others_mean, others_half) = (map(float, cell.split(" ± ")) for cell in (one, other))
        assert abs(mean - others_mean) <= half + others_half
