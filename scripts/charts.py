"""Writes `packaging/kubernetes/maskedbandits.yaml`: the Helm chart of `packaging/helm`, rendered with its own values.

    python -m scripts.charts

So clusters without Helm get the same manifests, and tests check what the chart makes without Helm. The renderer knows
the part of Helm's templates that the chart uses, and refuses anything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "packaging" / "helm" / "maskedbandits"
MANIFESTS = ROOT / "packaging" / "kubernetes" / "maskedbandits.yaml"
HEAD = """\
# The service on Kubernetes with PostgreSQL, in the present namespace. Written by python -m scripts.charts from the Helm
# chart in packaging/helm. docs/deploy.md says what to do before: build and push the image and name it below, create the
# Secret, and create a key.
"""
ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s|()]+|[|()]')


class Node(NamedTuple):
    """A piece of a template: text, an expression, or a block with its two branches."""

    kind: str
    text: str
    inside: list[Node]
    otherwise: list[Node]


class Chart:
    """A chart that can be rendered."""

    def __init__(self, folder: Path = CHART) -> None:
        self.about = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
        self.values = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
        self.schema = json.loads((folder / "values.schema.json").read_text(encoding="utf-8"))
        self._templates = {path.name: _parse(path.read_text(encoding="utf-8")) for path in folder.glob("templates/*")}
        self._named: dict[str, list[Node]] = {}
        for nodes in self._templates.values():
            self._named |= {_unquote(node.text): node.inside for node in nodes if node.kind == "define"}

    def render(self, values: Mapping[str, Any] | None = None, release: str = "maskedbandits") -> dict[str, str]:
        """Return the text of each manifest by its file; values are merged into those of the chart."""
        scope = {
            "Values": merge(self.values, values or {}),
            "Release": {"Name": release, "Service": "Helm"},
            "Chart": {"AppVersion": self.about["appVersion"], "Name": self.about["name"]},
        }
        texts = {
            name: self._fill(nodes, scope, {}) for name, nodes in self._templates.items() if name.endswith(".yaml")
        }
        return {name: text for name, text in sorted(texts.items()) if text.strip()}

    def _fill(self, nodes: list[Node], dot: Any, names: Mapping[str, Any]) -> str:
        return "".join(self._fill_one(node, dot, names) for node in nodes)

    def _fill_one(self, node: Node, dot: Any, names: Mapping[str, Any]) -> str:
        if node.kind == "text":
            return node.text
        if node.kind == "show":
            return _show(self._evaluate(node.text, dot, names))
        if node.kind == "define":
            return ""
        if node.kind == "range":
            key, value, expression = re.fullmatch(r"(\$\w+), (\$\w+) := (.*)", node.text).groups()  # type: ignore[union-attr]
            listed = sorted(self._evaluate(expression, dot, names).items())
            return "".join(self._fill(node.inside, dot, {**names, key: one, value: two}) for one, two in listed)
        found = self._evaluate(node.text, dot, names)
        inner = found if node.kind == "with" else dot
        return self._fill(node.inside, inner, names) if found else self._fill(node.otherwise, dot, names)

    def _evaluate(self, expression: str, dot: Any, names: Mapping[str, Any]) -> Any:
        """Return the value of a pipeline: each step gets the result of the one before as its last argument."""
        value: list[Any] = []
        for step in " ".join(WORD.findall(expression)).split(" | "):
            first, *words = WORD.findall(step)
            arguments = [self._resolve(word, dot, names) for word in words]
            if first == "include":
                value = [self._fill(self._named[arguments[0]], arguments[1], names)]
            elif first in FUNCTIONS:
                value = [FUNCTIONS[first](*arguments, *value)]
            else:
                value = [self._resolve(first, dot, names)]
        return value[0]

    def _resolve(self, word: str, dot: Any, names: Mapping[str, Any]) -> Any:
        if word.startswith('"'):
            return _unquote(word)
        if word.isdigit():
            return int(word)
        if word.startswith("$"):
            return names[word]
        if not re.fullmatch(r"\.|(\.\w+)+", word):
            raise ValueError(f"{word}: not known to this renderer: use a function of {', '.join(FUNCTIONS)}")
        for part in word[1:].split(".") if word != "." else ():
            dot = dot[part]
        return dot


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with those of another set in their place, as Helm merges them."""
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = merge(merged[name], value) if both else value
    return merged


def _parse(text: str) -> list[Node]:
    """Return the nodes of a template."""
    pieces: list[tuple[str, str]] = []
    end, trims = 0, False
    for found in ACTION.finditer(text):
        before = text[end : found.start()]
        before = before.lstrip() if trims else before
        pieces.append(("text", before.rstrip() if found[1] else before))
        pieces.append(("action", found[2]))
        end, trims = found.end(), bool(found[3])
    pieces.append(("text", text[end:].lstrip() if trims else text[end:]))
    return _nest(iter(pieces))[0]


def _nest(pieces: Iterator[tuple[str, str]]) -> tuple[list[Node], str]:
    """Return nodes up to the end of a block, and the word that ended it."""
    nodes: list[Node] = []
    for kind, text in pieces:
        word, _, rest = text.partition(" ")
        if kind == "text":
            nodes.append(Node("text", text, [], []))
        elif word in ("end", "else"):
            return nodes, word
        elif word in ("if", "with", "range", "define"):
            inside, ended = _nest(pieces)
            otherwise = _nest(pieces)[0] if ended == "else" else []
            nodes.append(Node(word, rest, inside, otherwise))
        elif not text.startswith("/*"):
            nodes.append(Node("show", text, [], []))
    return nodes, ""


def _show(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def _unquote(word: str) -> str:
    return str(json.loads(word))


def _nindent(count: int, text: str) -> str:
    return "\n" + "\n".join(" " * count + line if line else line for line in text.splitlines())


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "default": lambda fallback, value: value or fallback,
    "nindent": _nindent,
    "not": lambda value: not value,
    "quote": lambda value: json.dumps(_show(value), ensure_ascii=False),
    "toYaml": lambda value: yaml.safe_dump(value, sort_keys=True).rstrip(),
    "upper": lambda value: str(value).upper(),
}


def build_manifests() -> str:
    """Return all manifests with the values of the chart, as one file that names no Helm."""
    texts = [text.strip() for text in Chart().render().values()]
    lines = "\n---\n".join(texts).splitlines()
    return "\n".join([HEAD + "---", *(line for line in lines if "managed-by" not in line), ""])


def main() -> None:
    """Write the manifests."""
    MANIFESTS.write_text(build_manifests(), encoding="utf-8")


if __name__ == "__main__":
    main()
