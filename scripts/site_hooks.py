"""Additions to the site beyond docs/: the pages of the root, a Python reference, sources, and formulas as MathML.

On GitHub a page links to files of the repository; the site holds pages alone. So every link is first resolved to a path
of the repository, and then leads to where the site shows that path.
"""

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)

# What the converter to MathML does not read, and how it does.
SPELLINGS = {
    r"\\(big|Big)\\lfloor": r"\\\1⌊",
    r"\\(big|Big)\\rfloor": r"\\\1⌋",
    r"\\(big|Big)(?=\\[lr]brace)": "",
    r"\\mathbb (\w)": r"\\mathbb{\1}",
    r"\\log(?=[ \\])": r"\\log\\thinspace ",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add pages that the menu does not name, and the reference."""
    named = re.findall(r"[\w/-]+\.md", str(config.nav))
    forgotten = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named)
    config.nav = [*(config.nav or []), *([{"More": forgotten}] if forgotten else []), {"Python": [*reference()]}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {site: (ROOT / name).read_text(encoding="utf-8") for name, site in ROOT_PAGES.items()}
    for origin in [*ROOT_PAGES, *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]:
        pages |= {
            site_path(path): render_file(path) for path in list_links(origin) if site_path(path).startswith("source/")
        }
    for path, content in {**pages, **reference()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point every link to the place of its target on the site."""
    here = page.file.src_uri
    origin = {site: name for name, site in ROOT_PAGES.items()}.get(here, f"docs/{here}")

    def move_link(link: re.Match[str]) -> str:
        there = site_path(repository_path(origin, link["target"]))
        return posixpath.relpath(there, posixpath.dirname(here) or ".") + (link["anchor"] or "")

    return markdown if here.startswith(("source/", "reference/")) else LINK.sub(move_link, markdown)


def on_page_content(html_text: str, **_: Any) -> str:
    """Turn formulas into MathML."""
    return FORMULA.sub(lambda found: mathml(html.unescape(found[2]).strip(), found[1] == "div"), html_text)


def mathml(latex: str, displayed: bool) -> str:
    """Return a formula as MathML."""
    for pattern, better in SPELLINGS.items():
        latex = re.sub(pattern, better, latex)
    markup: str = convert(latex, display="block" if displayed else "inline")
    for name, width in (("thin", "0.17em"), ("thick", "0.28em")):
        markup = markup.replace(f'"{name}mathspace"', f'"{width}"')  # browsers have dropped the names
    return markup


class Doctests(griffe.Extension):
    """Show the examples of docstrings as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence each paragraph that begins with a prompt."""
        if obj.docstring:
            paragraphs = obj.docstring.value.split("\n\n")
            fenced = (f"```pycon\n{text}\n```" if text.startswith(">>>") else text for text in paragraphs)
            obj.docstring.value = "\n\n".join(fenced)


def reference() -> dict[str, str]:
    """Return a page for the public names of the package, and one for each public module."""
    package = griffe.load("maskedbandits", search_paths=[ROOT / "src"])
    names = [str(name) for name in package.exports or []]
    modules = [name for name in names if package[name].is_module]
    things = sorted((name for name in names if name not in modules), key=lambda name: not package[name].is_function)
    start = "# maskedbandits\n\nWhat `import maskedbandits as mb` gives, from its docstrings.\n\n"
    pages = {"reference/index.md": start + "\n\n".join(f"::: maskedbandits.{name}" for name in things)}
    for name in modules:
        options = "    options:\n      show_root_heading: false\n"  # the page has a heading already
        pages[f"reference/{name}.md"] = f"# maskedbandits.{name}\n\n::: maskedbandits.{name}\n{options}"
    return pages


def list_links(origin: str) -> Iterator[str]:
    """Return the paths of the repository to which a page links."""
    text = (ROOT / origin).read_text(encoding="utf-8")
    return (repository_path(origin, link["target"]) for link in LINK.finditer(text))


def repository_path(origin: str, target: str) -> str:
    """Return the path in the repository that a link of a page points to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def site_path(path: str) -> str:
    """Return the place on the site of a path of the repository."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md"


def render_file(path: str) -> str:
    """Return a page with the contents of a file."""
    language = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
    hidden = "---\nsearch:\n  exclude: true\n---\n"
    return f"{hidden}# `{path}`\n\n``````{language}\n{(ROOT / path).read_text(encoding='utf-8')}\n``````\n"
