"""Count how easy the texts are to read: `python -m scripts.readability [--json] [ROOT]`.

A table lists every page, the help of every verb, and the docstrings of every package: words, mean sentence length, the
share of sentences over 20 words, how often "you" occurs, and words of the dialect that the style guide rules out.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).parent.parent
LONG_SENTENCE_WORDS = 20
# Words and turns that the style guide replaces.
DIALECT = (
    r"whoever|whatever",
    r"anew",
    r"awaited|awaits?",
    r"learnt",
    r"reckon\w*",
    r"told",
    r"so to speak",
    r"kept from",
    r"stands?",
    r"nobody|anybody|somebody",
    r"draws? (?:no )?lots",
    r"(?:that|which|what) (?:is|are) (?:none|no)",
    r"of which (?:nothing|nobody)",
    r"judges?",
    r"takes? in",
    r"put by|set aside",
)
DIALECT_PATTERN = re.compile(rf"\b(?:{'|'.join(DIALECT)})\b", re.IGNORECASE)
YOU = re.compile(r"\byou(?:r|rs|rself|'re|'ll|'ve)?\b", re.IGNORECASE)
WORD = re.compile(r"[^\W_][\w'’.,-]*")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*`]*[^\W_a-z])")
FENCE = re.compile(r"^( *)(`{3,}|~{3,})[^\n]*\n.*?^\1\2[^\n]*$", re.DOTALL | re.MULTILINE)
SECTION_RULE = re.compile(r"^[A-Z][\w ]*\n-{3,}$", re.MULTILINE)
EXAMPLE = re.compile(r"^>>> .*?(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Figures:
    """How easy a text is to read.

    Parameters
    ----------
    words, sentences
        How many there are. Headings and tables have words and no sentences.
    sentence_words
        Words in sentences.
    long_sentences
        Sentences of more than 20 words.
    you
        How often the reader is addressed.
    dialect
        Words that the style guide replaces.

    """

    words: int = 0
    sentences: int = 0
    sentence_words: int = 0
    long_sentences: int = 0
    you: int = 0
    dialect: int = 0

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    @property
    def mean_sentence(self) -> float:
        """Words in a sentence, on average."""
        return self.sentence_words / self.sentences if self.sentences else 0.0

    @property
    def long_share(self) -> float:
        """Share of sentences over 20 words."""
        return self.long_sentences / self.sentences if self.sentences else 0.0

    def to_dict(self) -> dict[str, float]:
        """Return the columns of the table."""
        return {
            "words": self.words,
            "mean_sentence": round(self.mean_sentence, 1),
            "long_share": round(self.long_share, 3),
            "you": self.you,
            "dialect": self.dialect,
        }


def measure(prose: Iterable[str], labels: Iterable[str] = ()) -> Figures:
    """Return the figures of paragraphs, and of headings and cells that are no sentences."""
    paragraphs = [" ".join(paragraph.split()) for paragraph in prose]
    lengths = [
        words
        for paragraph in paragraphs
        for sentence in SENTENCE_END.split(paragraph)
        if (words := len(WORD.findall(sentence)))
    ]
    text = " \n ".join([*paragraphs, *labels])
    return Figures(
        words=len(WORD.findall(text)),
        sentences=len(lengths),
        sentence_words=sum(lengths),
        long_sentences=sum(words > LONG_SENTENCE_WORDS for words in lengths),
        you=len(YOU.findall(text)),
        dialect=len(DIALECT_PATTERN.findall(text)),
    )


def measure_markdown(text: str) -> Figures:
    """Return the figures of a page, without its code, formulas and links."""
    text = FENCE.sub("", re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    text = re.sub(r"\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"\\\(.*?\\\)|\$[^$\n]+\$", "x", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^>\n]+>", "", text)
    prose, labels = [], []
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip("\n").splitlines()
        if not lines or all(line.startswith(("    ", "\t")) for line in lines):
            continue  # code
        if lines[0].startswith("#") and len(lines) == 1:
            labels.append(lines[0].lstrip("# "))
        elif lines[0].lstrip().startswith("|"):
            labels += [cell for line in lines for cell in line.split("|") if re.search(r"[a-z]", cell)]
        else:
            prose += re.split(r"\n(?=\s*(?:[-*+]|\d+\.) )", block)
    return measure((strip_marks(paragraph) for paragraph in prose), labels)


def strip_marks(paragraph: str) -> str:
    """Return a paragraph without the marks of lists and emphasis."""
    paragraph = re.sub(r"^\s*(?:[-*+]|\d+\.) +", "", paragraph)
    return re.sub(r"\*{1,2}|`", "", paragraph)


def measure_docstrings(sources: Iterable[str]) -> Figures:
    """Return the figures of the docstrings of Python sources."""
    prose: list[str] = []
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                prose += split_docstring(ast.get_docstring(node) or "")
    return measure(prose)


def split_docstring(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring, without section headings, names of parameters and examples."""
    text = SECTION_RULE.sub("\n", EXAMPLE.sub("\n", text))
    paragraph: list[str] = []
    lines = [*text.splitlines(), ""]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        is_name = line[:1].strip() and following.startswith("    ")  # its description follows
        if is_name or not line.strip():
            if paragraph:
                yield strip_marks(" ".join(paragraph))
            paragraph = []
        elif not line.startswith("        "):
            paragraph.append(line.strip())


def measure_help(command: click.Command, name: str) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of the help of a verb and of its subcommands."""
    texts = [command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)]
    prose = [strip_marks(paragraph) for text in texts for paragraph in re.split(r"\n\s*\n", text) if paragraph]
    yield name, measure(prose)
    if isinstance(command, click.Group):
        for verb, sub in command.commands.items():
            yield from measure_help(sub, f"{name} {verb}")


def measure_all(root: Path) -> dict[str, dict[str, Figures]]:
    """Return the figures of a source tree by kind and file; the help is that of the installed package."""
    from maskedbandits.cli import main as command

    pages = [root / "README.md", *sorted(root.glob("docs/**/*.md"))]
    read = {str(page.relative_to(root)): measure_markdown(page.read_text(encoding="utf-8")) for page in pages}
    package = root / "src" / "maskedbandits"
    sources: dict[str, list[str]] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        sources.setdefault(parts[0].removesuffix(".py"), []).append(path.read_text(encoding="utf-8"))
    return {
        "README": {"README.md": read.pop("README.md")},
        "docs": read,
        "help": dict(measure_help(command, "maskedbandits")),
        "docstrings": {name: measure_docstrings(texts) for name, texts in sources.items()},
    }


def format_table(figures: dict[str, dict[str, Figures]]) -> str:
    """Return the figures as a table with a total for each kind."""
    lines = [f"{'':44}{'words':>8}{'a sentence':>12}{'over 20':>9}{'you':>6}{'dialect':>9}"]
    totals = {kind: sum(files.values(), Figures()) for kind, files in figures.items()}
    for kind, files in figures.items():
        lines += ["", kind]
        rows = {**files, **({"total": totals[kind]} if len(files) > 1 else {})}
        lines += [_format_row(name, row) for name, row in rows.items()]
    return "\n".join([*lines, "", _format_row("all", sum(totals.values(), Figures()), "")])


def _format_row(name: str, row: Figures, margin: str = "  ") -> str:
    share = f"{100 * row.long_share:.0f} %"
    return f"{margin + name:44}{row.words:8,}{row.mean_sentence:12.1f}{share:>9}{row.you:6}{row.dialect:9}"


@click.command()
@click.argument("root", default=ROOT, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON document instead of a table.")
def main(root: Path, json_wanted: bool) -> None:
    """Count how easy the texts below ROOT are to read."""
    figures = measure_all(root)
    if json_wanted:
        plain = {kind: {name: row.to_dict() for name, row in files.items()} for kind, files in figures.items()}
        json.dump(plain, sys.stdout, indent=2)
        print()
    else:
        print(format_table(figures))


if __name__ == "__main__":
    main()
