"""The command line in tests, and small experiments for it."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from click.testing import CliRunner, Result

from maskedbandits import cli

SMALL = """
title = "Small"
runs = 3
checkpoints = 5
epsilons = [1, inf]

[[problems]]
name = "swap"
horizon = 400
starts = [0, 200]
means = [[0.9, 0.1], [0.1, 0.9]]

[[policies]]
name = "sw-klucb-cf"
window = "paper"

[[policies]]
name = "klucb-cf"
"""

MORE = """
[[policies]]
name = "klucb-cf"
c = 0

[[policies]]
name = "klucb-cf"
c = 1
"""

# A name with control characters, which are an error in a file.
ORDERS = "a\x1b[2J\x07\nb\x9b2J\u202ec ε é 滑"
# Names in letters that few encodings have.
LETTERS = "a ε é 滑"
ODD = SMALL.replace('"swap"', f'"swap {LETTERS}"') + f'\n[[policies]]\nname = "klucb-cf"\nlabel = "{LETTERS}"\nc = 1\n'


def call(*arguments: object, encoding: str = "utf-8") -> Result:
    return CliRunner(charset=encoding).invoke(cli.main, [str(argument) for argument in arguments])


def refused(result: Result, complaint: str, code: int = cli.USAGE) -> None:
    assert result.exit_code == code, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def small_file(folder: Path, text: str = SMALL) -> Path:
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def gives_no_orders(text: str) -> bool:
    """Return whether a text has no control characters but line ends, and no changes of direction."""
    return all(letter == "\n" or unicodedata.category(letter) not in ("Cc", "Cs") for letter in text) and not (
        set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    )
