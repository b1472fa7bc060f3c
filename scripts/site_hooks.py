"""Additions to the site beyond docs/: pages of the root, references, tutorials with outputs, sources, and MathML.

On GitHub a page links to files of the repository; the site holds pages alone. So every link is first resolved to a path
of the repository, and then leads to where the site shows that path.
"""

import html
import posixpath
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import griffe
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent.parent))  # mkdocs loads this file by its path

from scripts import tutorials
from scripts.reference import build_pages as build_all_pages

ROOT = Path(__file__).parent.parent
EXAMPLES = ("server_decisions", "static_page", "research_script")
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
    **{f"examples/{name}/README.md": f"examples/{name}.md" for name in EXAMPLES},
}
# Places in the menu of mkdocs.yml that are filled with generated pages.
GENERATED_MENUS = {"GENERATED COMMANDS": "reference/cli/", "GENERATED PYTHON": "reference/python/"}
MATH_FONT = "assets/STIXTwoMath-Regular.ttf"  # named in site.css
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
IMAGE = re.compile(r'(?<=[ ])(?P<name>src|srcset)="(?P<target>docs/[^"]+)"')
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
    """Fill the generated parts of the menu, and add pages that it does not name."""
    named = re.findall(r"[\w/-]+\.md", str(config.nav))
    forgotten = sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named)
    config.nav = fill_menu([*(config.nav or []), *([{"More": forgotten}] if forgotten else [])], build_pages())
    return config


def fill_menu(entry: Any, pages: dict[str, str]) -> Any:
    """Return a part of the menu with the generated pages in their places, the index of each folder first."""
    if isinstance(entry, list):
        return [fill_menu(each, pages) for each in entry]
    if isinstance(entry, dict):
        return {title: fill_menu(each, pages) for title, each in entry.items()}
    if entry not in GENERATED_MENUS:
        return entry
    return build_menu([path for path in pages if path.startswith(GENERATED_MENUS[entry])])


def build_menu(paths: list[str]) -> list[Any]:
    """Return the menu of generated pages: names of the package first, then those of each of its modules."""
    menu: list[Any] = []
    modules: dict[str, list[Any]] = {}
    for path in paths:
        module, _, name = posixpath.basename(path).removesuffix(".md").rpartition(".")
        entry = path if name == "index" else {name: path}
        (modules.setdefault(module, []) if module else menu).append(entry)
    return menu + [{module: entries} for module, entries in modules.items()]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the tutorials with their outputs."""
    pages: dict[str, str | bytes] = {}
    for name, site in ROOT_PAGES.items():
        pages[site] = (ROOT / name).read_text(encoding="utf-8")
    for origin in [*ROOT_PAGES, *(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]:
        pages |= {
            site_path(path): render_file(path) for path in list_links(origin) if site_path(path).startswith("source/")
        }
    for tutorial in tutorials.list_tutorials():
        page, figures = tutorials.render_page(tutorial.stem, tutorials.run_tutorial(tutorial))
        pages |= {f"tutorials/{tutorial.stem}.md": page, **{f"tutorials/{name}": png for name, png in figures.items()}}
    pages[MATH_FONT] = (resources.files("ziamath") / "fonts" / posixpath.basename(MATH_FONT)).read_bytes()
    for path, content in {**pages, **build_pages()}.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point every link to the place of its target on the site."""
    here = page.file.src_uri
    origin = {site: name for name, site in ROOT_PAGES.items()}.get(here, f"docs/{here}")

    def move_link(link: re.Match[str]) -> str:
        there = site_path(repository_path(origin, link["target"]))
        return posixpath.relpath(there, posixpath.dirname(here) or ".") + (link["anchor"] or "")

    is_generated = here.startswith(("source/", "reference/", "tutorials/"))
    if is_generated:
        return markdown
    images = IMAGE.sub(lambda image: f'{image["name"]}="{site_path(image["target"])}"', markdown)
    return LINK.sub(move_link, images)


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


@cache
def build_pages() -> dict[str, str]:
    """Return the reference pages, once for a build."""
    return build_all_pages()


class Doctests(griffe.Extension):
    """Show the examples of docstrings as code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence each paragraph that begins with a prompt."""
        if obj.docstring:
            paragraphs = obj.docstring.value.split("\n\n")
            fenced = (f"```pycon\n{text}\n```" if text.startswith(">>>") else text for text in paragraphs)
            obj.docstring.value = "\n\n".join(fenced)


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
    if posixpath.dirname(path) == "examples/tutorials":
        return f"tutorials/{posixpath.basename(path).removesuffix('.py')}.md"
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md"


def render_file(path: str) -> str:
    """Return a page with the contents of a file."""
    language = {".py": "python", ".toml": "toml"}.get(Path(path).suffix, "text")
    hidden = "---\nsearch:\n  exclude: true\n---\n"
    return f"{hidden}# `{path}`\n\n``````{language}\n{(ROOT / path).read_text(encoding='utf-8')}\n``````\n"
