"""Nothing public is undocumented: names, flags, TOML keys, settings, variables, HTTP fields, metrics, packages."""

from __future__ import annotations

import inspect
import re
import tomllib
from functools import cache
from pathlib import Path

import click
import pytest
from scripts import reference

from maskedbandits.data.catalogue import DATA_SETS
from maskedbandits.experiments import config, policy_spec, problem_spec
from maskedbandits.experiments.toml_table import Key
from maskedbandits.policies import kind_of, names
from maskedbandits.service.app import OPERATIONS
from maskedbandits.service.openapi import describe_service
from maskedbandits.service.server.metrics import METRICS
from maskedbandits.service.server.settings import OTHER_VARIABLES, PREFIX, list_fields

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "maskedbandits"
OPEN_API = describe_service(OPERATIONS)
COMMANDS = dict(reference.list_commands())


@cache
def pages() -> dict[str, str]:
    """Return the reference pages of the site."""
    return reference.build_pages()


def find_row(page: str, name: str) -> str:
    """Return the row of a table that describes a name."""
    [row, *_] = [line for line in pages()[page].splitlines() if line.startswith(f"| `{name}`")] or [""]
    return row


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_and_flag_is_described(words: str) -> None:
    command = COMMANDS[words]
    page = pages()[f"reference/cli/{words.split()[0]}.md"]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{words} {parameter.opts}"
            assert f"`{parameter.opts[0]}`" in page
        elif isinstance(parameter, click.Argument):
            assert parameter.make_metavar(click.Context(command)).strip("[].") in page


def test_every_experiment_key_is_described() -> None:
    described: dict[str, Key] = {**config.TOP_KEYS, **policy_spec.COMMON_KEYS, **problem_spec.MEANINGS}
    assert set(problem_spec.KEYS) == set(problem_spec.MEANINGS)
    for name, key in described.items():
        assert key.kind, name
        assert key.meaning, name
        assert find_row("reference/experiment_keys.md", name)


@pytest.mark.parametrize("name", problem_spec.ALL_GENERATORS)
def test_every_generator_parameter_is_described(name: str) -> None:
    arguments = reference.list_arguments(problem_spec.ALL_GENERATORS[name])
    assert [key for key, text in arguments.items() if not text] == []


def test_every_policy_parameter_is_described() -> None:
    for name in names():
        for key, parameter in kind_of(name).parameters.items():
            assert parameter.hint, f"{name} {key}"
            assert find_row("reference/experiment_keys.md", key)


def test_every_setting_is_described() -> None:
    for name, field in list_fields().items():
        assert field.description, name
        assert f"`{PREFIX}{name.upper()}`" in find_row("reference/settings.md", name)


def test_every_variable_of_sources_is_described() -> None:
    known = {f"{PREFIX}{name}" for name in (*OTHER_VARIABLES, *map(str.upper, list_fields()))}
    used = {
        name
        for path in [*PACKAGE.rglob("*.py"), *(ROOT / "packaging").rglob("*")]
        if path.is_file() and "__pycache__" not in path.parts
        for name in re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8"))
    }
    assert used - known == set()
    assert all(find_row("reference/settings.md", f"{PREFIX}{name}") for name in OTHER_VARIABLES)


@pytest.mark.parametrize("name", OPEN_API["components"]["schemas"])
def test_every_http_field_is_described(name: str) -> None:
    schema = OPEN_API["components"]["schemas"][name]
    assert schema.get("description")
    for field, about in schema.get("properties", {}).items():
        assert about.get("description"), field
    assert f"### {name}\n" in pages()["reference/http.md"]


def test_every_operation_is_described() -> None:
    for path, methods in OPEN_API["paths"].items():
        for method, about in methods.items():
            assert about["summary"]
            assert f"`{method.upper()} {path}`" in pages()["reference/http.md"]


def test_every_metric_is_described() -> None:
    for name, metric in METRICS.items():
        assert metric.help, name
        assert find_row("reference/metrics.md", name)


def test_every_data_set_is_described() -> None:
    for each in DATA_SETS:
        assert f"## `{each.name}`" in pages()["reference/data_sets.md"]
        assert all((each.title, each.round, each.arm, each.reward, each.licence, each.source)), each.name


def test_every_public_name_has_page() -> None:
    listed = [*reference.list_public_names().items(), ("", list(reference.RETURNED))]
    for module, members in listed:
        for name in members:
            full = ".".join(filter(None, ["maskedbandits", module, name]))
            value = reference.resolve(full)
            page = f"reference/python/{full.removeprefix('maskedbandits.')}.md"
            assert f"::: {full}\n" in pages()[page]
            assert inspect.getdoc(value), full
            assert reference.first_sentence(value) in pages()["reference/python/index.md"]


def test_every_public_function_has_example() -> None:
    missing = []
    for module, members in reference.list_public_names().items():
        for name in members:
            full = ".".join(filter(None, ["maskedbandits", module, name]))
            value = reference.resolve(full)
            if inspect.isfunction(value) and ">>> " not in (inspect.getdoc(value) or ""):
                missing.append(full)
    assert missing == []


def test_undescribed_name_is_found() -> None:
    """A flag or field without a description fails the tests above."""

    def generator(arms: int, secret: int) -> None:
        """Draw.

        Parameters
        ----------
        arms : int
            Number of arms.

        """

    assert reference.list_arguments(generator) == {"arms": "Number of arms.", "secret": ""}
    assert find_row("reference/settings.md", "no_such_setting") == ""


def test_every_extra_and_package_is_described() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    install = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [extra for extra in project["project"]["optional-dependencies"] if f"`{extra}`" not in install] == []
    packages = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert [name for name in packages - {"__init__", "__main__"} if f"`{name}`" not in architecture] == []


def test_every_page_is_in_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f" {page.name}\n" not in menu] == []
