"""docs/configuration.md lists the settings of the code, and its example is a valid file."""

from __future__ import annotations

import re
from pathlib import Path

from docs import blocks
from docs import configuration as page

from maskedbandits.service.server.settings import (
    EXPOSED_DEFAULTS,
    FLAG,
    PREFIX,
    format_table,
    list_fields,
    load_settings,
)

TEXT = page.PAGE.read_text(encoding="utf-8")


def test_tables_match_the_code() -> None:
    assert blocks.names(page.PAGE) == list(page.TABLES)
    assert all(blocks.read(page.PAGE, which) == table() for which, table in page.TABLES.items())


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in list_fields().values())
    assert all(f"| `{name}` |" in format_table() for name in list_fields())


def test_documented_examples_are_valid(tmp_path: Path) -> None:
    [example] = re.findall(r"^```toml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    (tmp_path / "maskedbandits.toml").write_text(example, encoding="utf-8")
    [exports] = re.findall(r"^```bash\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    variables = dict(line.removeprefix("export ").split("=", 1) for line in exports.splitlines())
    loaded = load_settings({}, variables, config=tmp_path / "maskedbandits.toml")
    assert (loaded.workers, loaded.address_rate, loaded.access_log) == (2, 50.0, True)
    assert loaded.cors == ("https://shop.example", "https://blog.example")  # variables override the file


def test_documented_flags_and_defaults_match_the_code() -> None:
    flags = {f"--{name.replace('_', '-')}" for name, field in list_fields().items() if field.extra == FLAG}
    first = TEXT[TEXT.index("1. ") : TEXT.index("2. ")]
    assert set(re.findall(r"`(--[\w-]+)`", first)) == flags
    assert EXPOSED_DEFAULTS == {"token_rate": 1.0}
    assert "`token_rate` is 1" in " ".join(TEXT.split())


def test_every_variable_in_the_code_is_documented() -> None:
    used = {
        name
        for path in (Path(__file__).parents[2] / "src").rglob("*.py")
        for name in re.findall(rf"{PREFIX}[A-Z_]+\b", path.read_text(encoding="utf-8"))
    }
    settings = {f"{PREFIX}{name.upper()}" for name in list_fields()}
    documented = set(re.findall(rf"^\| `({PREFIX}[A-Z_]+)` \|", TEXT, re.MULTILINE))
    assert used - settings <= documented
