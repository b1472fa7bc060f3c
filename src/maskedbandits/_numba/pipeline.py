"""A way through numba's compiler for functions that compiled code alone calls.

Numba makes machine code of every function on its own, also of those that are only ever linked into others, and
optimises them once on their own and once more in each of their callers. Here they stay in the compiler's own language,
to be optimised with whoever calls them: that takes less than half the time.
"""

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import AnnotateTypes


class _NoEnvironment:
    """The code generator, but for the environment of a function: kernels use none, and here it would have no place."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codegen, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Leave it unset."""


class _Library(JITCodeLibrary):
    """The code of a function that has no life of its own."""

    @property
    def codegen(self) -> Any:
        """The code generator."""
        return _NoEnvironment(self._codegen)

    def _optimize_final_module(self) -> None:
        """Leave that to the callers."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return that there is none."""
        self._ensure_finalized()
        return 0


@register_pass(mutates_CFG=False, analysis_only=True)
class _Linked(LoweringPass):
    """Puts the function into such a library."""

    _name = "maskedbandits_linked"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        codegen = state.targetctx.codegen()
        state.library = _Library(codegen, state.func_id.func_qualname)
        return False


class Within(CompilerBase):
    """Numba's passes, and that one before code is made."""

    def define_pipelines(self) -> list[Any]:
        """Return the passes."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_Linked, AnnotateTypes)
        passes.finalize()
        return [passes]
