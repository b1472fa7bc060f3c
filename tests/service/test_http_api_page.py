"""docs/http_api.md describes every route, field, status and metric of the code, each with a command."""

from __future__ import annotations

import re

from docs import blocks
from docs import http_api as page

from maskedbandits.service.app import OPERATIONS
from maskedbandits.service.openapi import describe_service, path_format

TEXT = page.PAGE.read_text(encoding="utf-8")


def test_tables_match_the_code() -> None:
    tables = page.tables()
    assert sorted(blocks.names(page.PAGE)) == sorted(tables)
    for which, table in tables.items():
        assert blocks.read(page.PAGE, which) == table, which


def test_every_route_is_described_once() -> None:
    routes = [f"{operation.method} {path_format(operation)}" for operation in OPERATIONS]
    assert sorted(re.findall(r"^\| route \| `(.*)` \|", TEXT, re.MULTILINE)) == sorted(routes)


def test_every_field_is_described() -> None:
    schemas = describe_service(OPERATIONS)["components"]["schemas"]
    headings = re.findall(r"^#### (\w+)$", TEXT, re.MULTILINE)
    assert sorted(headings) == sorted(set(schemas) - {"ProblemAnswer"})  # an example shows errors
    for name in headings:
        section = TEXT.partition(f"#### {name}\n")[2].partition("\n<!-- end")[0].partition("\n#")[0]
        rows = re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", section, re.MULTILINE)
        assert [field for field, _ in rows] == list(schemas[name]["properties"]), name
        assert all(meaning.strip() for _, meaning in rows), name


def test_every_route_has_a_command() -> None:
    script = "\n".join(re.findall(r"^<!-- run -->\n```bash\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE))
    for operation in OPERATIONS:
        pattern = re.sub(r"\\\{\w+\\\}", "[^/ ]+", re.escape(path_format(operation)))
        command = rf"curl [^\n]*127\.0\.0\.1:8080{pattern}(?=[\s)]|$)"
        assert re.search(command, script, re.MULTILINE), operation.path


def test_links_to_types_resolve() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= anchors
