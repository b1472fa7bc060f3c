"""Data that users download: made-up files with the published columns, stored, shown and played."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from commands import call, refused
from maskedbandits import data, experiments
from maskedbandits.data import cache
from maskedbandits.experiments.progress_bar import SilentWatcher

# As published: Saito et al. 2021; an index without a name, and an affinity with every item.
LOG = [
    *("", "timestamp", "item_id", "position", "click", "propensity_score"),
    *(f"user_feature_{index}" for index in range(4)),
    *(f"user-item_affinity_{item}" for item in range(34)),
]
# As published: Matias et al. 2021, March 2020; the last column was added in June 2024, as their page says.
PACKAGES = [
    *("", "created_at", "updated_at", "clickability_test_id", "excerpt", "headline", "lede", "slug", "eyecatcher_id"),
    *("impressions", "clicks", "significance", "first_place", "winner", "share_text", "square", "test_week"),
    "randomization_imbalace_risk",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path


def men(folder: Path) -> Path:
    """Write 340 rows of the random policy: every item ten times, one in three clicked."""
    rest = ["0.029411764705882353", *["81ce123cbb5bd8ce818f60fb3586bba5"] * 4, *["0.0"] * 34]
    rows = []
    for row in range(340):
        when = f"2019-11-{24 + row // 170} 00:00:{row % 60:02}.{row:06}+00:00"
        rows.append([str(row), when, str(row % 34), "1", str(int(row % 3 == 0)), *rest])
    path = folder / "men.csv"
    path.write_text("\n".join(",".join(row) for row in [LOG, *rows]) + "\n", encoding="utf-8")
    return path


def packages(folder: Path) -> Path:
    """Write two tests of four packages, with commas, quotes and line ends in texts."""
    rows = [
        f"{index},2014-11-2{test} 06:43:16.{index:03},2016-04-02 16:33:38.062,546d88fb84ad38b2ce{test:06},"
        f'"Things that ""matter"".","Yes, ""you"" {index}","<p>One\nTwo</p>",a-slug,546d6fa19ad54eec8d00002d,'
        f"{1000 + 500 * index},{100 + 10 * index},100.0,True,False,,,201446,False\n"
        for test in range(2)
        for index in range(4)
    ]
    path = folder / "upworthy-archive-exploratory-packages-03.12.2020.csv"
    path.write_text(",".join(PACKAGES) + "\n" + "".join(rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "page", "file"),
    [
        ("open-bandit", "research.zozo.com/data.html, open_bandit_dataset.zip", "random/all/all.csv"),
        ("upworthy", "osf.io/jd64p", "upworthy-archive-exploratory-packages-*.csv"),
    ],
)
def test_missing_file_names_its_source(name: str, page: str, file: str) -> None:
    refused(call("data", "get", name), f"{name} must be downloaded by hand from {page}")
    messages = call("data", "get", name).stderr
    assert file in messages
    assert messages.endswith(f"then: maskedbandits data get {name} --file FILE\n")


def test_open_bandit_log_is_loaded(folder: Path) -> None:
    done = call("data", "get", "open-bandit", "--file", men(folder))
    assert done.stdout.startswith("open-bandit: 340 rows of a log, 34 arms, 2 periods of a day\n"), done.output
    log = data.load("open-bandit")
    assert isinstance(log, data.Log)
    assert log.arms[33] == "item 33"
    assert np.bincount(log.chosen).tolist() == [10] * 34
    assert log.rewards.sum() == 114
    assert "340 rows of a log" in call("data", "show", "open-bandit").stdout


def test_upworthy_tests_are_loaded(folder: Path) -> None:
    done = call("data", "get", "upworthy", "--file", packages(folder))
    assert done.stdout.startswith("upworthy: 14,000 steps, 4 arms, 2 periods of a test\n"), done.output
    tests = data.load("upworthy")
    assert isinstance(tests, data.Segments)
    assert tests.labels == ("2014-11-20", "2014-11-21")
    np.testing.assert_allclose(tests.means[0], [100 / 1000, 110 / 1500, 120 / 2000, 130 / 2500])


@pytest.mark.parametrize("name", ["open-bandit", "upworthy"])
def test_wrong_file_is_refused_and_not_stored(folder: Path, name: str) -> None:
    (folder / "archive.zip").write_bytes(b"PK\x03\x04\xff\xff")
    other = packages(folder) if name == "open-bandit" else men(folder)
    cases = {folder / "archive.zip": "compressed (zip, or a spreadsheet): unpack it", other: "no column"}
    for file, complaint in cases.items():
        done = call("data", "get", name, "--file", file)
        assert done.exit_code == 2
        assert complaint in done.stderr
        assert list((folder / "kept").iterdir()) == []


def test_experiments_play_downloaded_data(folder: Path) -> None:
    call("data", "get", "open-bandit", "--file", men(folder))
    call("data", "get", "upworthy", "--file", packages(folder))
    (folder / "x.toml").write_text(
        'runs = 2\nepsilons = [2]\n[[problems]]\ndata = "open-bandit"\n[[problems]]\ndata = "upworthy"\n'
        '[[policies]]\nname = "uniform"\n',
        encoding="utf-8",
    )
    results = experiments.run(experiments.load(folder / "x.toml"), folder / "out", SilentWatcher(), command="")
    assert len(results.cells) == 2
