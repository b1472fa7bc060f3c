"""The reference pages of the site, derived from the code: commands, TOML keys, HTTP, settings, data sets, Python.

`tests/test_completeness.py` fails if a name on one of these pages has no description.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

import maskedbandits
from maskedbandits import cli
from maskedbandits.data.catalogue import DATA_SETS
from maskedbandits.experiments.config import TOP_KEYS
from maskedbandits.experiments.policy_spec import COMMON_KEYS
from maskedbandits.experiments.problem_spec import ALL_GENERATORS, MEANINGS
from maskedbandits.experiments.toml_table import Key
from maskedbandits.policies import kind_of, names
from maskedbandits.service.app import OPERATIONS
from maskedbandits.service.openapi import describe_service
from maskedbandits.service.server.metrics import METRICS
from maskedbandits.service.server.settings import OTHER_VARIABLES, PREFIX, list_fields

MODULES = ("data", "device", "planner", "privacy", "privacy.audit", "problems", "testing", "theory")
# Classes that functions of the package return, which are not listed in `__all__` of their package.
RETURNED = ("simulation.comparison.Comparison", "simulation.results.Summary")
PARAGRAPH = "\n\n"


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table in Markdown."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *([str(cell).replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(value: object) -> str:
    """Return a value as code."""
    return f"`{value}`"


# Commands


def list_commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every verb and every subcommand with its words, in the order of the help."""
    for verbs in cli.TOPICS.values():
        for verb in verbs:
            yield str(verb.name), verb
            if isinstance(verb, click.Group):
                for name, command in verb.commands.items():
                    yield f"{verb.name} {name}", command


def command_pages() -> dict[str, str]:
    """Return a page for each verb, and one that lists them."""
    pages: dict[str, list[str]] = {}
    for words, command in list_commands():
        verb, _, rest = words.partition(" ")
        heading = f"## {words}" if rest else f"# maskedbandits {verb}"
        pages.setdefault(f"reference/cli/{verb}.md", []).extend([heading, *describe_command(words, command)])
    made = {path: PARAGRAPH.join(parts) + "\n" for path, parts in pages.items()}
    topics = []
    for topic, verbs in cli.TOPICS.items():
        rows = [(f"[{code(verb.name)}]({verb.name}.md)", verb.get_short_help_str(200)) for verb in verbs]
        topics += [f"## {topic}", table(["verb", "does"], rows)]
    start = "# Commands\n\n`maskedbandits VERB --help` prints the same descriptions."
    return {"reference/cli/index.md": PARAGRAPH.join([start, *topics]) + "\n", **made}


def describe_command(words: str, command: click.Command) -> Iterator[str]:
    """Yield the paragraphs about a command."""
    context = click.Context(command, info_name=f"maskedbandits {words}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "")
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    if options:
        yield table(["option", "value", "meaning"], map(describe_option, options))
    examples = getattr(command, "examples", ())
    if examples:
        yield "Examples:"
        yield "```bash\n" + "\n".join(examples) + "\n```"


def describe_option(option: click.Option) -> tuple[str, str, str]:
    """Return the row of an option."""
    if option.is_flag:
        value = "flag"
    elif isinstance(option.type, click.Choice):
        value = ", ".join(code(choice) for choice in option.type.choices)
    else:
        value = (option.metavar or option.type.name).lower()
    limits = getattr(option.type, "_describe_range", lambda: "")()
    ends = ["Repeatable." if option.multiple else "", f"{limits.capitalize()}." if limits else ""]
    if option.show_default and not isinstance(option.show_default, bool):
        ends.append(f"Default: {option.show_default}.")
    elif option.default not in (None, False, ()) and isinstance(option.default, (str, int, float)):
        ends.append(f"Default: {code(option.default)}.")
    return (
        ", ".join(map(code, [*option.opts, *option.secondary_opts])),
        value,
        " ".join([option.help or "", *filter(None, ends)]).replace("<", "&lt;"),
    )


# Experiment files


def toml_page() -> str:
    """Return the page of all keys of experiment files."""
    parts = [
        "# Experiment files: all keys",
        "Keys that `maskedbandits run` accepts. The guide to experiment files shows how to use them.",
        "## Top level",
        describe_keys(TOP_KEYS),
        "## `[[problems]]`",
        describe_keys(MEANINGS),
        "## Generators",
        "`generator` names one of these. Its parameters are keys of the same table.",
    ]
    for name, generator in ALL_GENERATORS.items():
        parts += [f"### `{name}`", first_sentence(generator), describe_arguments(generator)]
    parts += [
        "## `[[policies]]`",
        describe_keys(COMMON_KEYS),
        "Each policy adds its own parameters, as `maskedbandits policies NAME` explains them:",
        table(["parameter", "meaning", "policies"], policy_parameters()),
    ]
    return PARAGRAPH.join(parts) + "\n"


def describe_keys(keys: dict[str, Key]) -> str:
    """Return the table of some keys."""
    return table(
        ["key", "type", "meaning", "default"],
        ((code(name), key.kind, key.meaning, key.default or "–") for name, key in keys.items()),
    )


def list_arguments(generator: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters of a generator with the descriptions of its docstring."""
    lines = (inspect.getdoc(generator) or "").split("Parameters\n----------\n", 1)[1].splitlines()
    described: dict[str, str] = {}
    current: list[str] = []
    for line in lines:
        if not line.strip() or line.startswith("---"):
            break
        if not line.startswith(" "):
            current = [name.strip() for name in line.split(" :")[0].split(",")]
        for name in current if line.startswith(" ") else ():
            described[name] = f"{described.get(name, '')} {line.strip()}".strip()
    return {name: described.get(name, "") for name in inspect.signature(generator).parameters if name != "corruption"}


def describe_arguments(generator: Callable[..., Any]) -> str:
    """Return the table of a generator's parameters."""
    known = inspect.signature(generator).parameters
    defaults = {name: "–" if each.default is each.empty else code(each.default) for name, each in known.items()}
    return table(
        ["key", "meaning", "default"],
        ((code(name), text, defaults[name]) for name, text in list_arguments(generator).items()),
    )


def policy_parameters() -> list[tuple[str, str, str]]:
    """Return a row for each parameter of policies: its meaning, and which policies take it."""
    rows: dict[tuple[str, str], list[str]] = {}
    for policy in names():
        for name, parameter in kind_of(policy).parameters.items():
            rows.setdefault((name, parameter.hint), []).append(policy)
    return [(code(name), hint, shorten(policies)) for (name, hint), policies in sorted(rows.items())]


def shorten(policies: list[str], most: int = 4) -> str:
    """Return some names of policies, and how many more there are."""
    shown = ", ".join(map(code, policies[:most]))
    return shown if len(policies) <= most else f"{shown} and {len(policies) - most} more"


# HTTP, settings, metrics, data sets


def http_page() -> str:
    """Return the page of all operations and fields."""
    document = describe_service(OPERATIONS)
    parts = [
        "# HTTP: all operations and fields",
        "A running service has the same description in machine-readable form at `/openapi.json`.",
    ]
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            parts += [f"### `{method.upper()} {path}`", *describe_operation(about)]
    parts.append("## Types")
    for name, schema in document["components"]["schemas"].items():
        parts += [f"### {name}", schema.get("description", ""), describe_fields(schema)]
    return PARAGRAPH.join(filter(None, parts)) + "\n"


def describe_operation(about: dict[str, Any]) -> Iterator[str]:
    """Yield the paragraphs about an operation."""
    yield f"{about['summary'].rstrip('.')}. {about.get('description', '')}".strip()
    body = about.get("requestBody")
    if body:
        yield f"Body: {describe_content(body['content'])}."
    yield table(
        ["status", "meaning", "reply"],
        (
            (status, reply["description"], describe_content(reply.get("content", {})))
            for status, reply in about["responses"].items()
        ),
    )


def describe_content(content: dict[str, Any]) -> str:
    """Return the types of a body, with links."""
    return ", ".join(
        describe_type(each["schema"]) if kind == "application/json" else code(kind) for kind, each in content.items()
    )


def describe_type(schema: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(describe_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(map(code, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {describe_type(schema.get('items') or schema.get('prefixItems', [{}])[0])}"
    return str(schema.get("type", "any"))


def describe_fields(schema: dict[str, Any]) -> str:
    """Return the table of a type's fields."""
    required = schema.get("required", ())
    return table(
        ["field", "type", "meaning", "default"],
        (
            (
                code(name),
                describe_type(field),
                field.get("description", ""),
                "required" if name in required else code(field["default"]) if "default" in field else "–",
            )
            for name, field in schema.get("properties", {}).items()
        ),
    )


def configuration_page() -> str:
    """Return the page of all settings and environment variables."""
    settings = (
        (
            code(name),
            code(PREFIX + name.upper()),
            format_flag(name),
            code(format_default(field.default)),
            field.description,
        )
        for name, field in list_fields().items()
    )
    return PARAGRAPH.join(
        [
            "# Settings and environment variables",
            "A flag of `maskedbandits serve` overrides the variable. The variable overrides the file that `--config` "
            "names.",
            table(["setting", "variable", "flag", "default", "meaning"], settings),
            "## Other variables",
            table(["variable", "meaning"], ((code(PREFIX + name), text) for name, text in OTHER_VARIABLES.items())),
        ]
    )


def format_flag(name: str) -> str:
    """Return the flag of a setting, if it has one."""
    return code(f"--{name.replace('_', '-')}") if list_fields()[name].extra.get("is_flag") else "–"


def format_default(value: object) -> str:
    """Return a default as a settings file writes it."""
    return code("[]" if value == () else str(value).lower() if isinstance(value, bool) else value)


def metrics_page() -> str:
    """Return the page of all metrics."""
    rows = (
        (code(name), metric.kind, ", ".join(map(code, metric.labels)) or "–", metric.help)
        for name, metric in METRICS.items()
    )
    start = "# Metrics\n\n`/metrics` has them in the format of Prometheus.\n\n"
    return start + table(["metric", "kind", "labels", "meaning"], rows) + "\n"


def data_page() -> str:
    """Return the page of the named data sets."""
    parts = ["# Data sets", "`maskedbandits data get NAME` downloads one, `data.load(name)` loads it."]
    for each in DATA_SETS:
        rows = [(name, getattr(each, name)) for name in ("round", "arm", "reward", "licence", "source")]
        parts += [f"## `{each.name}`", f"{each.title}.", table(["", ""], rows)]
    return PARAGRAPH.join(parts) + "\n"


# Python


def list_public_names() -> dict[str, list[str]]:
    """Return the public names of the package and its documented modules, each once."""
    listed: dict[str, list[str]] = {}
    seen: list[object] = []
    for module in ("", *MODULES):
        owner = importlib.import_module(f"maskedbandits.{module}".rstrip("."))
        for name in owner.__all__:
            value = getattr(owner, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and not any(value is one for one in seen):
                seen.append(value)
                listed.setdefault(module, []).append(name)
    return listed


def python_pages() -> dict[str, str]:
    """Return a page for each public class and function, and one that lists them."""
    pages = {}
    parts = ["# Python", "`import maskedbandits as mb` gives the names of the first table."]
    groups = [*list_public_names().items(), ("results", list(RETURNED))]
    for module, members in groups:
        heading = {"": "maskedbandits", "results": "Returned by functions"}.get(module, f"maskedbandits.{module}")
        rows = []
        for name in members:
            full = ".".join(filter(None, ["maskedbandits", "" if module == "results" else module, name]))
            path = f"{full.removeprefix('maskedbandits.')}.md"
            pages[f"reference/python/{path}"] = f"# {name.rpartition('.')[2]}\n\n::: {full}\n"
            rows.append((f"[{code(name.rpartition('.')[2])}]({path})", first_sentence(resolve(full))))
        parts += [f"## {heading}", table(["name", "does"], rows)]
    return {"reference/python/index.md": PARAGRAPH.join(parts) + "\n", **pages}


def resolve(full: str) -> Any:
    """Return the object with a dotted name."""
    owner, _, name = full.rpartition(".")
    return getattr(maskedbandits if owner == "maskedbandits" else importlib.import_module(owner), name)


def first_sentence(value: Any) -> str:
    """Return the summary of a docstring."""
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def build_pages() -> dict[str, str]:
    """Return all pages by their path on the site."""
    return {
        **command_pages(),
        "reference/experiment_keys.md": toml_page(),
        "reference/http.md": http_page(),
        "reference/settings.md": configuration_page(),
        "reference/metrics.md": metrics_page(),
        "reference/data_sets.md": data_page(),
        **python_pages(),
    }
