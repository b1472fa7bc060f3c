"""Writes the tables of docs/http_api.md from the routes and types in the code: `python -m docs.http_api`.

Each route has a block named after its operation: the role, statuses, and the types that no earlier block shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs import blocks
from maskedbandits.service.app import OPERATIONS
from maskedbandits.service.http import QueryParameter
from maskedbandits.service.openapi import ERRORS, describe_operation, describe_service, path_format
from maskedbandits.service.problems import PROBLEMS
from maskedbandits.service.report_status import REPORT_STATUSES
from maskedbandits.service.server.metrics import METRICS

PAGE = Path(__file__).with_suffix(".md")
SCHEMAS: dict[str, Any] = describe_service(OPERATIONS)["components"]["schemas"]
REFERENCE = "#/components/schemas/"
ORDER = (  # of the page
    *("createExperiment", "listExperiments", "showExperiment", "changeExperiment", "addArm", "changeArm", "retireArm"),
    *("deleteExperiment", "listChanges"),
    *("decide", "report", "reportTo", "showState", "followState", "followExperiments"),
    *("health", "readiness", "metrics", "description", "describeError", "client", "clientRelease", "reportWorker"),
    *("start", "dashboard", "dashboardFile"),
)
BY_ID = {operation.id: operation for operation in OPERATIONS}


def find_references(node: Any) -> Iterator[str]:
    """Yield the names of the types that a part of a schema refers to, each followed by those within it."""
    if isinstance(node, dict):
        if (target := node.get("$ref", "")).startswith(REFERENCE):
            name = target.removeprefix(REFERENCE)
            yield name
            yield from find_references(SCHEMAS[name])
        for value in node.values():
            yield from find_references(value)
    elif isinstance(node, list):
        for value in node:
            yield from find_references(value)


def list_types(which: str) -> list[str]:
    """Return the types of a route's body and reply that no earlier route has."""
    seen: dict[str, str] = {}
    for each in ORDER:
        about = describe_operation(BY_ID[each])
        success = about["responses"][str(BY_ID[each].status)]
        for name in find_references([about.get("requestBody"), success]):
            seen.setdefault(name, each)
    return [name for name, first in seen.items() if first == which]


def link(name: str) -> str:
    """Return a link to the table of a type."""
    return f"[{name}](#{name.lower()})"


def format_type(schema: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "$ref" in schema:
        return link(schema["$ref"].removeprefix(REFERENCE))
    if "anyOf" in schema:
        return " or ".join(map(format_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind: str = schema.get("type", "any JSON")
    if kind == "array":
        count = format_range(schema.get("minItems"), schema.get("maxItems"), " entries")
        return f"list of {format_type(schema['items'])}{count}"
    if kind == "object" and isinstance(inner := schema.get("additionalProperties"), dict) and inner:
        return f"object of {format_type(inner)}"
    if kind == "string":
        return "text" + format_range(schema.get("minLength"), schema.get("maxLength"), " characters")
    words = {"integer": "whole number", "boolean": "`true` or `false`"}
    return words.get(kind, kind) + format_number_range(schema)


def format_number_range(schema: dict[str, Any]) -> str:
    """Return the limits of a number."""
    if "exclusiveMinimum" in schema:
        return f" (above {schema['exclusiveMinimum']:,}, up to {schema['maximum']:,})"
    if "exclusiveMaximum" in schema:
        return f" (from {schema['minimum']:,}, below {schema['exclusiveMaximum']:,})"
    return format_range(schema.get("minimum"), schema.get("maximum"))


def format_range(low: float | None, high: float | None, unit: str = "") -> str:
    """Return two limits, if there are any."""
    return "" if low is None or high is None else f" ({low:,} to {high:,}{unit})"


def format_default(name: str, schema: dict[str, Any], required: list[str]) -> str:
    """Return the default of a field of a request."""
    if name in required:
        return "required"
    if "default" not in schema:
        return "unchanged"
    value = schema["default"]
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def format_fields(name: str, is_request: bool) -> str:
    """Return the fields of a type as a table below its name."""
    schema = SCHEMAS[name]
    about = " ".join(schema.get("description", "").split())
    heading = "| field | type | default | meaning |" if is_request else "| field | type | meaning |"
    lines = [f"#### {name}", "", about, "", heading, "|---" * heading.count(" | ") + "|---|"]
    for field, inner in schema["properties"].items():
        cells = [f"`{field}`", format_type(inner)]
        if is_request:
            cells.append(format_default(field, inner, schema.get("required", [])))
        lines.append(f"| {' | '.join([*cells, inner.get('description', '')])} |")
    return "\n".join(lines)


def format_route(which: str) -> str:
    """Return the table of a route, and those of types that no earlier route has."""
    operation = BY_ID[which]
    about = describe_operation(operation)
    success = about["responses"][str(operation.status)]
    body = list(dict.fromkeys(_direct(about.get("requestBody"))))
    reply = list(dict.fromkeys(_direct(success)))
    media = ", ".join(f"`{kind.partition(';')[0]}`" for kind in operation.media_types)
    sent = " or ".join(map(link, reply)) or media or ("JSON" if operation.replies else "no body")
    errors = [code for code in about["responses"] if int(code) >= 400]
    rows = [
        ("route", f"`{operation.method} {path_format(operation)}`"),
        ("role", f"`{operation.role}`" if operation.role else "none"),
        *(("query", format_parameter(each)) for each in operation.query),
        *(("header", format_parameter(each)) for each in operation.headers),
        *([("body", " or ".join(map(link, body)))] if body else []),
        ("reply", f"{operation.status}: {sent}"),
        *([("[errors](#errors)", ", ".join(errors))] if errors else []),
    ]
    table = "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows)])
    requests = set(find_references(about.get("requestBody")))
    return "\n\n".join([table, *(format_fields(name, name in requests) for name in list_types(which))])


def format_parameter(parameter: QueryParameter) -> str:
    """Return a parameter of a route in one line."""
    return f"`{parameter.name}`, {format_type(dict(parameter.schema))}: {parameter.description}"


def _direct(node: Any) -> Iterator[str]:
    """Yield the types that a body or a reply names itself."""
    content = (node or {}).get("content", {}).get("application/json", {}).get("schema", {})
    for each in content.get("anyOf", [content]):
        if "$ref" in each:
            yield each["$ref"].removeprefix(REFERENCE)


def errors() -> str:
    """Return what each error status means."""
    return "\n".join(["| status | meaning |", "|---|---|", *(f"| {code} | {text} |" for code, text in ERRORS.items())])


def codes() -> str:
    """Return the codes of all errors."""
    ordered = sorted(PROBLEMS.items(), key=lambda each: each[1].status)
    rows = [f"| {problem.status} | `{code}` | {problem.title} |" for code, problem in ordered]
    return "\n".join(["| status | `code` | meaning |", "|---|---|---|", *rows])


def statuses() -> str:
    """Return the statuses of reports."""
    rows = [
        f"| `{name}` | {status.code} | {'yes' if not status.is_final else 'no'} | {status.error or 'none'} |"
        for name, status in REPORT_STATUSES.items()
    ]
    return "\n".join(["| status | HTTP status | send again | `detail` |", "|---|---|---|---|", *rows])


def metrics() -> str:
    """Return the metrics."""
    rows = [
        f"| `{name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |"
        for name, each in METRICS.items()
    ]
    return "\n".join(["| metric | type | labels | meaning |", "|---|---|---|---|", *rows])


def tables() -> dict[str, str]:
    """Return all blocks of the page by name."""
    return {
        **{each: format_route(each) for each in ORDER},
        "errors": errors(),
        "codes": codes(),
        "statuses": statuses(),
        "metric-names": metrics(),
    }


def main() -> None:
    """Write the tables into the page."""
    blocks.fill(PAGE, tables())


if __name__ == "__main__":
    main()
