"""The imports in a source, as far as they can be read from it."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

ABSENT = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}  # errors that an absent module raises
LOADERS = {"import_module", "__import__"}
HIDDEN = {"exec_module", "load_module", "run_path", "run_module", "spec_from_file_location", "SourceFileLoader"}


@dataclass(frozen=True)
class Import:
    """An import: of a module, and of names in it that may be modules, too."""

    module: str
    names: tuple[str, ...] = ()
    level: int = 0  # how many dots there are before its name
    optional: bool = False  # whether the module may be absent
    unknown: str = ""  # why the module cannot be determined


@lru_cache(maxsize=1 << 12)
def read_imports(source: bytes) -> tuple[Import, ...]:
    """Return all imports in a source, also those inside functions."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return (Import("", unknown="is not Python"),)
    reader = _Reader()
    reader.visit(tree)
    return tuple(reader.found)


class _Reader(ast.NodeVisitor):
    """Visits the nodes of a source."""

    def __init__(self) -> None:
        self.found: list[Import] = []
        self._optional = 0
        self._loaders = set(LOADERS)

    def _visit_optional(self, nodes: Iterable[ast.AST], *, optional: bool) -> None:
        self._optional += optional
        for node in nodes:
            self.visit(node)
        self._optional -= optional

    def visit_Import(self, node: ast.Import) -> None:
        """Note ``import a.b``."""
        self.found += [Import(each.name, optional=bool(self._optional)) for each in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note ``from a import b``."""
        names = tuple(each.name for each in node.names)
        self.found.append(Import(node.module or "", names, node.level, bool(self._optional)))
        self._loaders |= {each.asname or each.name for each in node.names if each.name in LOADERS | HIDDEN}

    def visit_Try(self, node: ast.Try) -> None:
        """Look for handlers of the errors that an absent module raises."""
        handled = any(each.type is None or _names(each.type) & ABSENT for each in node.handlers)
        self._visit_optional(node.body, optional=handled)
        self._visit_optional([*node.handlers, *node.orelse, *node.finalbody], optional=False)

    def visit_With(self, node: ast.With) -> None:
        """Look for ``suppress(ImportError)``."""
        names = set[str]().union(*(_names(each.context_expr) for each in node.items))
        self._visit_optional([each.context_expr for each in node.items], optional=False)
        self._visit_optional(node.body, optional="suppress" in names and bool(names & ABSENT))

    def visit_If(self, node: ast.If) -> None:
        """Look for imports of type checkers alone."""
        self.visit(node.test)
        self._visit_optional(node.body, optional="TYPE_CHECKING" in _names(node.test))
        self._visit_optional(node.orelse, optional=False)

    def visit_Call(self, node: ast.Call) -> None:
        """Note modules that are imported by a call."""
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in HIDDEN or (called == "exec" and isinstance(node.func, ast.Name)):
            self.found.append(Import("", unknown=f"runs code that {called} finds"))
        elif called in self._loaders:
            self.found.append(self._read_call(node))
        self.generic_visit(node)

    def _read_call(self, node: ast.Call) -> Import:
        """Return the import of a call such as ``import_module("a.b")``."""
        first = node.args[0] if node.args else None
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str) or len(node.args) > 1:
            return Import("", unknown="imports a module whose name is not written in it")
        name = first.value.lstrip(".")
        return Import(name, level=len(first.value) - len(name), optional=bool(self._optional))


def _names(node: ast.AST) -> set[str]:
    """Return all names in an expression."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return found | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
