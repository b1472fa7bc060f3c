"""How kernels are compiled: decorators, code that the kind of a state chooses, and running without the compiler.

A *kernel* is a function of arrays and scalars. There are five decorators:

    compiled    machine code that is kept on disk (``cache.py``) and can be called from anywhere
    entry       the same for what a live policy calls
    inner       compiled for each kind of state anew, and callable from other kernels alone: half the time to compile
    inlined     compiled into its callers, where a call that hands over a state would cost more than its work
    dispatch    code that the kind of a state may bring along, chosen when its caller is compiled

Every kernel can also be interpreted, with the same results: all of them under ``NUMBA_DISABLE_JIT=1``, and those that
``interpreted`` runs in the present thread while machine code is still being made.
"""

import functools
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.extending import overload

from maskedbandits._numba import cache
from maskedbandits._numba.pipeline import Within
from maskedbandits._numba.sections import reader

INTERPRETED = bool(getattr(numba.config, "DISABLE_JIT", 0))

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

# Without counting references, as kernels allocate nothing and the counting took two thirds of the time; without the
# interpreter's lock; and with a division by zero that gives an infinity.
SETTINGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
WITHIN: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": Within}
LINKED: Any = {**SETTINGS, **WITHIN}
FORCED: Any = {**SETTINGS, **WITHIN, "forceinline": True}


class Choice(NamedTuple):
    """Several modules for one part of a policy: a number in the state's record says which of them plays it."""

    number: str  # its name in the record
    modules: tuple[ModuleType | None, ...]  # None where a policy does without

    def code_of(self, name: str, default: Callable[..., Any]) -> list[Callable[..., Any]]:
        """Return what each module does under a name."""
        return [getattr(module, name, default) for module in self.modules]


HOOKS: set[str] = set()  # names of all functions that the kind of a state may bring along

_thread = threading.local()


class _Interpretable(type(numba.njit(lambda: None)) if not INTERPRETED else Dispatcher):  # type: ignore[misc]
    """A compiled function that is interpreted in threads that ask for it."""

    plain: Any = None  # what to interpret in its place

    def __call__(self, *arguments: Any) -> Any:
        if getattr(_thread, "interprets", False):
            return (self.plain or self.py_func)(*arguments)
        return super().__call__(*arguments)


def _compile(kernel: Kernel, **options: Any) -> Kernel:
    if INTERPRETED:
        return kernel
    with cache.in_its_folder():
        dispatcher = numba.njit(**{**SETTINGS, **options})(kernel)
    dispatcher.__class__ = _Interpretable
    return cast("Kernel", dispatcher)


def _kept(kernel: Kernel, **options: Any) -> Kernel:
    is_in_file = Path(kernel.__code__.co_filename).is_file()  # numba keeps what has no file in a place of its own
    made = _compile(kernel, cache=is_in_file and cache.folder() is not None, **options)
    if not INTERPRETED:
        cache.keep(made)
    return made


def entry(kernel: Kernel) -> Kernel:
    """Compile a function that a live policy calls, and keep its machine code.

    It holds the interpreter's lock, so that no thread finds a state in the middle of a step; letting go of it takes
    longer than most steps.
    """
    return _kept(kernel, nogil=False)


def compiled(kernel: Kernel) -> Kernel:
    """Compile a function of arrays and scalars, and keep its machine code."""
    return _kept(kernel)


def inner(kernel: Kernel) -> Kernel:
    """Compile a function that compiled code alone calls, for each kind of state anew."""
    return _compile(kernel, **WITHIN)


def inlined(kernel: Kernel, plain: Kernel | None = None) -> Kernel:
    """Compile a small function into its callers: a call that hands over a policy's state costs more than its work.

    A plain one may be given for the interpreter.
    """
    made = _compile(kernel, **WITHIN, forceinline=True)
    if plain is not None:
        if INTERPRETED:
            return plain
        made.plain = plain  # type: ignore[attr-defined]
    return made


def dispatch(part: str, *, inline: bool = True) -> Callable[[Kernel], Kernel]:
    """Let the class of a state say what a function does: its attribute ``part`` is a module that may have its own.

    The function below the decorator is what is done where the module has none of this name. Where the attribute is a
    choice between modules, all of their functions are compiled, and the state's record says which is called.
    """

    def decorate(default: Kernel) -> Kernel:
        name = default.__name__
        HOOKS.add(name)
        options = FORCED if inline else LINKED

        @functools.wraps(default)
        def interpret(state: Any, *arguments: Any) -> Any:
            module = getattr(type(state), part)
            if isinstance(module, Choice):
                module = module.modules[int(state.own[0][module.number])]
            code = getattr(module, name, default)
            return getattr(code, "py_func", code)(state, *arguments)

        @overload(interpret, strict=False, jit_options=options)
        def pick(state: Any, *arguments: Any) -> Any:
            module = getattr(state.instance_class, part)
            if isinstance(module, Choice):
                return _branching(module, name, default, options)
            code = getattr(module, name, default)
            return getattr(code, "py_func", code)

        return cast("Kernel", interpret)

    return decorate


def _branching(choice: Choice, name: str, default: Callable[..., Any], options: Any) -> Callable[..., Any]:
    """Return a function that calls what the record chooses; what most modules share is tried last."""
    by_code: dict[Any, list[int]] = {}
    for place, code in enumerate(choice.code_of(name, default)):
        by_code.setdefault(code, []).append(place)
    if len(by_code) == 1:
        code = next(iter(by_code))
        return cast("Callable[..., Any]", getattr(code, "py_func", code))
    *rare, (usual, _) = sorted(by_code.items(), key=lambda item: len(item[1]))
    arguments = ", ".join(inspect.signature(default).parameters)
    lines = [f"def {name}({arguments}):", "    number = read(state)"]
    called = {"usual": usual}
    for place, (code, numbers) in enumerate(rare):
        called[f"rare_{place}"] = code
        lines.append(f"    if {' or '.join(f'number == {number}' for number in numbers)}:")
        lines.append(f"        return rare_{place}({arguments})")
    lines.append(f"    return usual({arguments})")
    for key, code in called.items():
        if not hasattr(code, "py_func"):
            called[key] = _compile(code, **options)
    called["read"] = reader(choice.number)
    exec("\n".join(lines), called)  # noqa: S102 -- numba compiles calls by name, not from a list of functions
    return cast("Callable[..., Any]", called[name])


def interpreted(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel as the interpreter runs it, and all that it calls; what overflows is infinite, in silence."""
    function = getattr(kernel, "py_func", kernel)

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        before = getattr(_thread, "interprets", False)
        _thread.interprets = True
        try:
            with np.errstate(all="ignore"):
                return function(*arguments)
        finally:
            _thread.interprets = before

    return run
