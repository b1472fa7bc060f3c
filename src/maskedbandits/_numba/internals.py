"""Everything that this package uses of numba beyond its public interface, and what replaces each part if it is missing.

How numba compiles, as far as you need to know it here:

1. ``njit`` returns a *dispatcher*. At the first call it looks at the types of the arguments and compiles for them.
2. *Typing* finds a type for every expression. For ``x.name`` numba asks the *attribute templates* of the type of x.
3. *Lowering* writes every expression in LLVM's language (``llvmlite.ir``).
4. LLVM optimises a *code library*: a function with everything that it calls. The result is machine code.
5. A dispatcher with ``cache=True`` stores machine code in a data file and lists it in an index file.

Numba's public interface is enough to run every kernel. Six features go beyond it to save time. A release of numba that
lacks one of them costs that time, and never changes a result:

    feature        what it does                                     without it
    ``pipeline``   stops before step 4 for functions that only      numba optimises them twice; compiling takes about
                   other kernels call: LLVM optimises them with     twice as long
                   their callers
    ``arrays``     types and lowers ``state.counts``, a slice of    ``overload_attribute`` compiles a small function for
                   one of the state's arrays, in a few              each name; compiling takes longer
                   instructions
    ``options``    options of ``njit`` that start with an           kernels count references, and some calls are not
                   underscore or are undocumented                   inlined; they run more slowly
    ``switch``     a subclass of the dispatcher that can run the    live policies wait until they are compiled
                   plain Python function instead, per thread
    ``files``      replaces the class that names cache files, so    machine code is not stored; every process compiles
                   that they depend on all sources (``cache.py``)   what it uses
    ``entry``      calls machine code without looking at the        each live call takes about 0.3 us longer
                   types of the arguments again

``NAMES`` lists what each feature needs. ``find`` returns it, or None if numba lacks any of it.
``tests/test_internals.py`` hides each feature in turn, and compares the results.

The features are independent, but for two rules. Functions without a wrapper for Python (one of the options) cannot be
interpreted in part, so these options need ``switch``. The replacement of ``arrays`` must count references.
"""

import functools
import importlib
import threading
from types import SimpleNamespace
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic, overload, overload_attribute

NAMES: dict[str, dict[str, str]] = {
    "pipeline": {
        "Library": "numba.core.codegen:JITCodeLibrary",
        "optimize": "numba.core.codegen:JITCodeLibrary._optimize_final_module",
        "finalize": "numba.core.codegen:JITCodeLibrary._finalize_final_module",
        "globals": "numba.core.codegen:JITCodeLibrary._finalize_dynamic_globals",
        "ensure": "numba.core.codegen:JITCodeLibrary._ensure_finalized",
        "Compiler": "numba.core.compiler:CompilerBase",
        "DefaultPasses": "numba.core.compiler:DefaultPassBuilder",
        "LoweringPass": "numba.core.compiler_machinery:LoweringPass",
        "register_pass": "numba.core.compiler_machinery:register_pass",
        "AnnotateTypes": "numba.core.typed_passes:AnnotateTypes",
    },
    "arrays": {
        "lower_getattr": "numba.core.imputils:lower_getattr",
        "borrow": "numba.core.imputils:impl_ret_borrowed",
        "AttributeTemplate": "numba.core.typing.templates:AttributeTemplate",
        "infer_getattr": "numba.core.typing.templates:infer_getattr",
        "populate_array": "numba.np.arrayobj:populate_array",
        "BaseNamedTuple": "numba.core.types:BaseNamedTuple",
        "ir": "llvmlite:ir",
    },
    "options": {"known": "numba.core.cpu:CPUTargetOptions"},
    "switch": {"Dispatcher": "numba.core.dispatcher:Dispatcher"},
    "files": {
        "NullCache": "numba.core.caching:NullCache",
        "Files": "numba.core.caching:IndexDataCacheFile",
        "save_index": "numba.core.caching:IndexDataCacheFile._save_index",
        "load_index": "numba.core.caching:IndexDataCacheFile._load_index",
        "save_data": "numba.core.caching:IndexDataCacheFile._save_data",
        "load_data": "numba.core.caching:IndexDataCacheFile._load_data",
        "dump": "numba.core.caching:IndexDataCacheFile._dump",
        "data_path": "numba.core.caching:IndexDataCacheFile._data_path",
        "folder": "numba:config.CACHE_DIR",
    },
    "entry": {"compile": "numba.core.dispatcher:Dispatcher.compile"},
}


@functools.cache
def find(feature: str) -> Any:
    """Return what a feature needs of numba, as attributes, or None if anything is missing."""
    found = SimpleNamespace()
    for key, location in NAMES[feature].items():
        module, _, path = location.partition(":")
        try:
            value: Any = importlib.import_module(module)
            for name in path.split("."):
                value = getattr(value, name)
        except (ImportError, AttributeError):
            return None
        setattr(found, key, value)
    return found if NAMES[feature] else None


# Step 1: dispatchers.

_thread = threading.local()


def interprets() -> bool:
    """Tell whether the present thread runs kernels as plain Python."""
    return getattr(_thread, "interprets", False)


def set_interprets(value: bool) -> None:
    """Let the present thread run kernels as plain Python, or as machine code."""
    _thread.interprets = value


def _switch_class() -> Any:
    """Return a class of dispatchers that run the plain function in threads which interpret."""
    base: Any = type(numba.njit(lambda: None))

    class Switch(base):  # type: ignore[misc]
        """A dispatcher that runs the plain function in threads which interpret."""

        plain: Any = None  # the function to interpret, if it is not the one that is compiled

        def __call__(self, *arguments: Any) -> Any:
            if interprets():
                return (self.plain or self.py_func)(*arguments)
            return base.__call__(self, *arguments)

    return Switch


IS_OFF = bool(getattr(numba.config, "DISABLE_JIT", 0))  # everything is interpreted: NUMBA_DISABLE_JIT=1
CAN_SWITCH = not IS_OFF and find("switch") is not None
_Switch: Any = _switch_class() if CAN_SWITCH else None


def add_switch(dispatcher: Any, plain: Any = None) -> None:
    """Let a dispatcher run its plain function, or another one, in threads that interpret."""
    if CAN_SWITCH:
        dispatcher.__class__ = _Switch
        dispatcher.plain = plain


def compile_entry(dispatcher: Any, signature: tuple[Any, ...]) -> Any:
    """Return the machine code for arguments of these types, loaded or compiled."""
    if find("entry") is None:
        return dispatcher
    return dispatcher.compile(signature)


def forget_compiled(dispatcher: Any) -> None:
    """Let a dispatcher compile again, since a value that it refers to may have changed."""
    reset = getattr(dispatcher, "_reset_overloads", None) or getattr(dispatcher, "recompile", None)
    if reset is not None:
        reset()


# Options of ``njit``.


def _select_known(options: dict[str, Any]) -> dict[str, Any]:
    """Return those of the options that this release of numba has."""
    found = find("options")
    return {} if found is None else {key: value for key, value in options.items() if hasattr(found.known, key)}


# Kernels allocate nothing, so they need not count references: that took two thirds of the time to compile. Functions
# that return an array must count them, as the replacement of ``arrays`` does.
NO_REFERENCES = _select_known({"_nrt": False}) if find("arrays") else {}
# Only other kernels call these functions: they need no wrapper for Python or C.
NO_WRAPPERS = _select_known({"no_cpython_wrapper": True, "no_cfunc_wrapper": True}) if CAN_SWITCH else {}
INLINE = _select_known({"forceinline": True})


# Step 4: functions that only other kernels call.


def _pipeline_class(known: Any) -> Any:
    """Return a compiler that leaves optimising a function to its callers."""

    class NoEnvironment:
        """The code generator without environments: kernels use none, and an unfinished library has no place for one."""

        def __init__(self, codegen: Any) -> None:
            self._codegen = codegen

        def __getattr__(self, name: str) -> Any:
            return getattr(self._codegen, name)

        def set_env(self, name: str, environment: Any) -> None:
            """Ignore the environment."""

    class Library(known.Library):  # type: ignore[misc]
        """The code of a function that is only linked into others."""

        @property
        def codegen(self) -> Any:
            """The code generator."""
            return NoEnvironment(self._codegen)

        def _optimize_final_module(self) -> None:
            """Leave this to the callers."""

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            """Return a null pointer: there is no machine code."""
            self._ensure_finalized()
            return 0

    @known.register_pass(mutates_CFG=False, analysis_only=True)
    class Link(known.LoweringPass):  # type: ignore[misc]
        """Puts a function into such a library."""

        _name = "maskedbandits_link"

        def __init__(self) -> None:
            known.LoweringPass.__init__(self)

        def run_pass(self, state: Any) -> bool:
            state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
            return False

    class Within(known.Compiler):  # type: ignore[misc]
        """Numba's passes, with this one before code is generated."""

        def define_pipelines(self) -> list[Any]:
            """Return the passes."""
            passes = known.DefaultPasses.define_nopython_pipeline(self.state)
            passes.add_pass_after(Link, known.AnnotateTypes)
            passes.finalize()
            return [passes]

    return Within


WITHIN: dict[str, Any] = dict(NO_WRAPPERS)  # options of functions that only other kernels call
if NO_WRAPPERS and find("pipeline") is not None:
    WITHIN["pipeline_class"] = _pipeline_class(find("pipeline"))


# Steps 2 and 3: arrays of a state.

_classes: dict[Any, type] = {}  # classes of states by their numba types
_taught: set[str] = set()


def register_state(state: Any, name: str) -> Any:
    """Return numba's type of a state, and give it a short name.

    Numba puts the names of types into those of all functions, and this one would list every number of the record. Types
    that are equal are one object as long as it lives, and ``_classes`` holds it.
    """
    found = numba.typeof(state)
    found.name = name
    _classes[found] = type(state)
    return found


def class_of(kind: Any) -> Any:
    """Return the class of a state by its numba type, or None for other types."""
    return getattr(kind, "instance_class", None) or _classes.get(kind)


def _storage_with(kind: Any, name: str) -> Any:
    """Return the storage behind a type of states that has an array of this name, or None."""
    storage = getattr(class_of(kind), "storage", None)
    return storage if storage is not None and name in storage.arrays else None


def _define(source: str, name: str, **known: Any) -> Any:
    """Return a function from its source."""
    exec(source, known)  # noqa: S102 -- names of fields cannot be variables in compiled code
    return known[name]


def teach_array(name: str) -> None:
    """Teach the compiler that ``state.name`` is a slice of one of the state's arrays."""
    if name not in _taught:
        _taught.add(name)
        _lower_array(find("arrays"), name) if find("arrays") else _overload_array(name)


_PUBLIC: Any = {"strict": False, "jit_options": {"error_model": "numpy"}}


def _overload_array(name: str) -> None:
    """Teach the compiler by numba's public interface."""

    @overload_attribute(types.NamedTuple, name, **_PUBLIC)
    def get(state: Any) -> Any:
        storage = _storage_with(state, name)
        if storage is None:  # a plain tuple with a field of this name
            index = state.fields.index(name)
            return lambda state: state[index]
        holder = state.fields.index(storage.holder(name))
        view = ".view(uint64)" if storage.is_of_words(name) else ""
        source = f"state[{holder}][state[0][0].{name}_begin : state[0][0].{name}_end]{view}"
        return _define(f"def get(state):\n    return {source}\n", "get", uint64=numba.uint64)


def _array_type(storage: Any, name: str) -> Any:
    if storage.is_of_words(name):
        return types.Array(types.uint64, 1, "C")
    return types.Array(types.float64 if storage.holder(name) == "floats" else types.int64, 1, "C")


def _lower_array(known: Any, name: str) -> None:
    """Teach the compiler by writing the few instructions themselves."""

    @known.lower_getattr(known.BaseNamedTuple, name)
    def get(context: Any, builder: Any, state: Any, value: Any) -> Any:
        storage = _storage_with(state, name)
        if storage is None:  # a plain tuple with a field of this name
            index = state.fields.index(name)
            return known.borrow(context, builder, state.types[index], builder.extract_value(value, index))
        begin, end = (_load_scalar(context, builder, state, value, f"{name}_{side}") for side in ("begin", "end"))
        index = state.fields.index(storage.holder(name))
        whole = context.make_array(state.types[index])(context, builder, builder.extract_value(value, index))
        part = context.make_array(_array_type(storage, name))(context, builder)
        data = builder.gep(whole.data, [begin], inbounds=True)
        itemsize = known.ir.Constant(known.ir.IntType(64), 8)
        known.populate_array(
            part,
            data=builder.bitcast(data, part.data.type),
            shape=[builder.sub(end, begin)],
            strides=[itemsize],
            itemsize=itemsize,
            meminfo=None,
        )
        return part._getvalue()


def _load_scalar(context: Any, builder: Any, state: Any, value: Any, name: str) -> Any:
    """Load a whole number of the record.

    These numbers never change, but LLVM need not know: if it does, it loads all of them before a loop and runs out of
    registers, which makes steps slower by up to 4 %.
    """
    ir = find("arrays").ir
    array = context.make_array(state.types[0])(context, builder, builder.extract_value(value, 0))
    start = builder.bitcast(array.data, ir.IntType(8).as_pointer())
    offset = class_of(state).storage.dtype.fields[name][1]
    address = builder.gep(start, [ir.Constant(ir.IntType(64), offset)], inbounds=True)
    return builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()))


if find("arrays") is not None:

    @find("arrays").infer_getattr
    class _ArrayTypes(find("arrays").AttributeTemplate):  # type: ignore[misc]
        """The types of a state's arrays."""

        key = find("arrays").BaseNamedTuple

        def generic_resolve(self, state: Any, name: str) -> Any:
            storage = _storage_with(state, name)
            return None if storage is None else _array_type(storage, name)


@functools.cache
def scalar_reader(name: str) -> Any:
    """Return a function for kernels that reads a whole number of a state's record."""
    if find("arrays") is None:
        return numba.njit(**NO_REFERENCES)(_define(f"def read(state):\n    return state[0][0].{name}\n", "read"))

    @intrinsic
    def read(typing: Any, state: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _load_scalar(context, builder, state, arguments[0], name)

        return types.int64(state), build

    return read


def overload_select(select: Any, options: Any) -> None:
    """Teach the compiler ``select(state, index)``: one of several states that are stacked (``state.py``)."""
    if find("arrays") is None:
        _overload_select(select, options)
        return
    lowered = _lowered_select(find("arrays"))

    @overload(select, strict=False, jit_options=options)
    def compiled_select(state: Any, index: Any) -> Any:
        return lambda state, index: lowered(state, index)


def _overload_select(select: Any, options: Any) -> None:
    """Teach the compiler by numba's public interface."""
    parts = [
        f"state[{one}][index * (state[{one}].size // n) : (index + 1) * (state[{one}].size // n)]" for one in (1, 2)
    ]
    source = f"""
def compiled(state, index):
    n = state[0].size
    return State(state[0][index : index + 1], {parts[0]}, {parts[1]})
"""

    @overload(select, strict=False, jit_options=options)
    def compiled_select(state: Any, index: Any) -> Any:
        return _define(source, "compiled", State=class_of(state))


def _lowered_select(known: Any) -> Any:
    """Return a function for kernels that returns the same arrays, shorter and further on."""

    @intrinsic
    def select(typing: Any, state: Any, index: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            whole, position = arguments
            out = whole
            first = context.make_array(state.types[0])(context, builder, builder.extract_value(whole, 0))
            states = builder.extract_value(first.shape, 0)
            for place, kind in enumerate(state.types):
                array = context.make_array(kind)(context, builder, builder.extract_value(whole, place))
                length = builder.udiv(builder.extract_value(array.shape, 0), states)
                part = context.make_array(kind)(context, builder)
                size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
                itemsize = known.ir.Constant(known.ir.IntType(64), size)
                known.populate_array(
                    part,
                    data=builder.gep(array.data, [builder.mul(position, length)], inbounds=True),
                    shape=[length],
                    strides=[itemsize],
                    itemsize=itemsize,
                    meminfo=None,
                )
                out = builder.insert_value(out, part._getvalue(), place)
            return out

        return state(state, index), build

    return select


# Step 5: stored machine code.

CAN_STORE = not IS_OFF and find("files") is not None
CacheFiles: Any = find("files").Files if CAN_STORE else object


def set_cache_files(dispatcher: Any, files: type) -> None:
    """Let a dispatcher with a cache read and write its files by this subclass of ``CacheFiles``."""
    if is_storing(dispatcher):
        dispatcher._cache._cache_file.__class__ = files
        dispatcher._cache._cache_file.kernel = dispatcher


def is_storing(dispatcher: Any) -> bool:
    """Tell whether a dispatcher stores its machine code."""
    return CAN_STORE and not isinstance(dispatcher._cache, find("files").NullCache)


def stop_storing(dispatcher: Any) -> None:
    """Let a dispatcher neither load nor store machine code from now on."""
    if CAN_STORE:
        dispatcher._cache = find("files").NullCache()
