"""Run the tutorials and write them as notebooks with their outputs: `python -m scripts.tutorials [FOLDER]`.

A tutorial is a Python script in the percent format of jupytext: `# %%` starts a cell of code, `# %% [markdown]` one of
text. Jupyter opens it as a notebook where jupytext is installed. The site shows the same cells with their outputs.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples" / "tutorials"
CELL_START = re.compile(r"^# %%(?P<text> \[markdown\])?[^\n]*\n", re.MULTILINE)
INCHES = (7.0, 3.6)  # a figure that can be read on a phone


class Cell(NamedTuple):
    """A cell with its outputs: what it prints, and the value of its last expression."""

    source: str
    is_text: bool
    printed: str = ""
    markup: str = ""
    figure: bytes = b""


def list_tutorials() -> list[Path]:
    """Return the tutorials in the order in which the site shows them."""
    names = ("first_bandit", "headline_test", "reproduce_paper", "private_groups", "own_policy")
    return [FOLDER / f"{name}.py" for name in names]


def split_cells(script: str) -> Iterator[Cell]:
    """Yield the cells of a script in the percent format, without its header."""
    starts = [*CELL_START.finditer(script)]
    ends = [start.start() for start in starts[1:]] + [len(script)]
    for start, end in zip(starts, ends, strict=True):
        source, is_text = script[start.end() : end].strip("\n"), start["text"] is not None
        yield Cell(re.sub(r"^# ?", "", source, flags=re.MULTILINE) if is_text else source, is_text)


def run_cell(cell: Cell, names: dict[str, Any]) -> Cell:
    """Return a cell with its outputs; errors are raised."""
    if cell.is_text:
        return cell
    tree, printed, value = ast.parse(cell.source), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 -- our own tutorials
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307 -- as above
    cell = cell._replace(printed=printed.getvalue())
    if value is None or cell.source.endswith(";"):
        return cell
    figure = getattr(value, "figure", None)
    if hasattr(figure, "savefig"):
        return cell._replace(figure=draw(figure))
    if hasattr(value, "_repr_html_"):
        return cell._replace(markup=value._repr_html_())
    return cell._replace(printed=f"{cell.printed}{value!r}\n")


def draw(figure: Any) -> bytes:
    """Return a figure as a PNG."""
    figure.set_size_inches(*INCHES)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120, bbox_inches="tight")
    return content.getvalue()


def run_tutorial(path: Path) -> list[Cell]:
    """Return the cells of a tutorial with their outputs."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [run_cell(cell, names) for cell in split_cells(path.read_text(encoding="utf-8"))]


def render_page(name: str, cells: list[Cell]) -> tuple[str, dict[str, bytes]]:
    """Return a page of the site, and its figures by file name."""
    parts, figures = [], {}
    for number, cell in enumerate(cells):
        parts.append(cell.source if cell.is_text else f"```python\n{cell.source}\n```")
        if cell.printed:
            parts.append(f"``` {{ .text .output }}\n{cell.printed.rstrip()}\n```")
        if cell.markup:
            parts.append(f'<div class="output" markdown="0">{cell.markup}</div>')
        if cell.figure:
            file = f"{name}_{number}.png"
            figures[file] = cell.figure
            parts.append(f"![Output of the code above]({file})")
    title, *rest = parts
    note = f"*This page is a notebook, run when the site was built: `examples/tutorials/{name}.py`.*"
    heading, _, introduction = title.partition("\n")
    return "\n\n".join([heading, note, introduction.strip(), *rest, ""]), figures


def render_notebook(cells: list[Cell]) -> dict[str, Any]:
    """Return a notebook in Jupyter's format 4.5."""
    written: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": cell.source}
        if cell.is_text
        else {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "execution_count": None,
            "source": cell.source,
            "outputs": list_outputs(cell),
        }
        for number, cell in enumerate(cells)
    ]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"language_info": {"name": "python"}}, "cells": written}


def list_outputs(cell: Cell) -> list[dict[str, Any]]:
    """Return the outputs of a cell in Jupyter's format."""
    outputs: list[dict[str, Any]] = []
    if cell.printed:
        outputs.append({"output_type": "stream", "name": "stdout", "text": cell.printed})
    shown = {"text/html": cell.markup} if cell.markup else {}
    if cell.figure:
        shown = {"image/png": base64.b64encode(cell.figure).decode()}
    if shown:
        outputs.append({"output_type": "display_data", "metadata": {}, "data": shown})
    return outputs


def main() -> None:
    """Write the notebooks."""
    folder = Path(sys.argv[1] if sys.argv[1:] else ROOT / "results" / "notebooks")
    folder.mkdir(parents=True, exist_ok=True)
    for path in list_tutorials():
        notebook = folder / f"{path.stem}.ipynb"
        notebook.write_text(json.dumps(render_notebook(run_tutorial(path)), indent=1) + "\n", encoding="utf-8")
        print(notebook)


if __name__ == "__main__":
    main()
