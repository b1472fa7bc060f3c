import json

import pytest
from click.testing import CliRunner
from scripts import readability

PAGE = """# A heading that has no sentence

You read this page. Whoever reads it has [told](https://told.example) *nobody*.

```python
you = "whoever"
```

    you awaited

| a cell | 1.5 |
|---|--:|
| your cell | 2 |

- One item
- Another of one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen.
"""
DOCSTRING = '''"""Return the sum.

Parameters
----------
you, awaited
    The summands. Both are numbers.

Examples
--------
>>> whoever(1)
1

The last paragraph.
"""
'''


def test_markdown_counts_prose_and_not_code() -> None:
    figures = readability.measure_markdown(PAGE)
    assert figures.sentences == 4
    assert figures.sentence_words == 4 + 6 + 2 + 19
    assert figures.words == figures.sentence_words + 6 + 4  # the heading; cells that are numbers alone are left out
    assert (figures.you, figures.dialect) == (2, 3)
    assert figures.long_share == 0


def test_share_of_long_sentences() -> None:
    figures = readability.measure_markdown(f"{'word ' * 20}. {'Word ' * 21}.")
    assert figures.long_share == 0.5
    assert figures.mean_sentence == 20.5


def test_docstrings_count_descriptions_and_not_names() -> None:
    figures = readability.measure_docstrings([DOCSTRING])
    assert figures.words == 3 + 2 + 3 + 3
    assert (figures.sentences, figures.you, figures.dialect) == (4, 0, 0)


@pytest.mark.parametrize("word", ["Whoever", "learnt", "reckoned", "so to\nspeak", "kept from"])
def test_dialect_is_counted(word: str) -> None:
    assert readability.measure([f"This is {word} it."]).dialect == 1


def test_totals_add_up() -> None:
    table = CliRunner().invoke(readability.main)
    assert table.exit_code == 0, table.output
    plain = CliRunner().invoke(readability.main, ["--json"])
    figures = json.loads(plain.output)
    assert set(figures) == {"README", "docs", "help", "docstrings"}
    assert "maskedbandits key create" in figures["help"]
    words = sum(row["words"] for files in figures.values() for row in files.values())
    assert table.output.splitlines()[-1].split()[:2] == ["all", f"{words:,}"]
