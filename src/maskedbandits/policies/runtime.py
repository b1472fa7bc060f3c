"""The entry points of each kind of state: machine code once it is compiled, until then the same code interpreted.

Compiling takes seconds, and the machine code is stored (``_numba/cache.py``). Until it is stored, a live policy runs
interpreted while a child process compiles. Then it continues with machine code, with the same choices. A simulation
waits for its code. ``MASKEDBANDITS_COMPILE=now`` makes live policies wait, too.

The end of the module holds policies still while the process forks.
"""

import contextlib
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numba
import numpy as np

from maskedbandits._numba import cache
from maskedbandits._numba.internals import CAN_STORE
from maskedbandits._numba.internals import CAN_SWITCH as CAN_INTERPRET
from maskedbandits._numba.jit import INTERPRETED, interpret
from maskedbandits._numba.state import Layout
from maskedbandits.errors import UserError
from maskedbandits.math import rng
from maskedbandits.policies import groups, kernels

MODE = "MASKEDBANDITS_COMPILE"
# CPU seconds to compile the entry points of a live policy, and about as much for a simulation: for all policies that
# share a kernel, and for any other policy.
SHARED_COMPILE_S, SINGLE_COMPILE_S = 25, 10
CHILD_TIMEOUT_S = 600.0

Kernels = dict[str, tuple[Any, tuple[Any, ...]]]  # by name, each with the types of its arguments after the state

_LOG = (numba.int64[::1], numba.float64[::1])  # arms and feedbacks
_LIVE: Kernels = {
    "start": (kernels.start_live, ()),
    "choose": (kernels.choose_live, ()),
    "observe": (kernels.observe_live, (numba.int64, numba.float64)),
    "wait": (kernels.wait_live, (numba.int64, numba.int64)),
}
_MASKS = (numba.int64[::1], numba.float64[:, ::1], numba.float64)  # of reports, the lines, the share of honest ones
_MASKED: Kernels = {
    "tell_apart": (kernels.tell_apart_live, (numba.int64[::1], *_MASKS)),
    "observe_masked": (kernels.observe_masked_live, (*_LOG, *_MASKS)),
}
_SCORES: Kernels = {"scores": (kernels.scores_live, (numba.float64[::1],))}
_MANY: Kernels = {
    "choose_many": (kernels.choose_many_live, (numba.int64[::1],)),
    "observe_many": (kernels.observe_many_live, _LOG),
}
_AMONG: Kernels = {"choose_open": (kernels.choose_open_live, (numba.int64[::1], numba.int64))}
_SAMPLE: Kernels = {"sample": (kernels.sample_live, (numba.int64[::1],))}
_LEVELS, _ANSWERS = numba.typeof(groups.NO_LEVELS), numba.typeof(groups.NO_ANSWERS)
_GROUPS: Kernels = {
    "ask_groups": (groups.ask_groups, (_LEVELS, numba.int64[::1], numba.int64, numba.int64)),
    "take_in_answers": (groups.take_in_answers, (_LEVELS, _ANSWERS, numba.int64, numba.float64)),
}
# Kernels that are compiled together. Few policies need more than the first group.
_PARTS = {
    "": _LIVE,
    ".masked": _MASKED,
    ".scores": _SCORES,
    ".many": _MANY,
    ".sample": _SAMPLE,
    ".among": _AMONG,
    ".groups": _GROUPS,
}


def _compile_mode() -> str:
    """Return when live policies get machine code: now, or once it is compiled in the background."""
    mode = os.environ.get(MODE) or "background"
    if mode not in ("now", "background"):
        cache.say(f"{MODE} = {mode!r} is unknown, background is used: give now or background")
    return mode if CAN_INTERPRET else "now"


class Entries:
    """Some entry points of a kind of state, such as ``start``, ``choose`` and ``observe``."""

    def __init__(self, layout: Layout, part: str) -> None:
        self.layout = layout
        self.name = layout.storage.name + part
        self.title = layout.name  # for messages: the name of the first policy that uses it
        self.kernels = _PARTS[part]
        self.is_machine_code = False
        self._time = f"about {SHARED_COMPILE_S if layout.storage.choices else SINGLE_COMPILE_S} s of CPU"
        self._lock = threading.Lock()
        self._is_compiling = False
        for name, (kernel, _) in self.kernels.items():
            setattr(self, name, self._interpret(name, kernel))

    def _interpret(self, name: str, kernel: Any) -> Callable[..., Any]:
        """Return a function that interprets a kernel; every call but ``start`` has machine code prepared."""
        run = interpret(kernel)

        def call(*arguments: Any) -> Any:
            self.refuse_if_changed()
            if name != "start":
                self.prepare()
                if self.is_machine_code:
                    return getattr(self, name)(*arguments)
            out = run(*arguments)
            return None if out is None else int(out)  # Python's own type, as machine code returns it

        return call

    start: Callable[[Any], None]
    choose: Callable[[Any], int]
    observe: Callable[[Any, int, float], None]
    wait: Callable[[Any, int, int], int]
    tell_apart: Callable[[Any, Any, Any, Any, float], int]
    observe_masked: Callable[[Any, Any, Any, Any, Any, float], None]
    scores: Callable[[Any, Any], None]
    choose_many: Callable[[Any, Any], None]
    observe_many: Callable[[Any, Any, Any], None]
    sample: Callable[[Any, Any], None]
    choose_open: Callable[[Any, Any, int], None]
    ask_groups: Callable[[Any, Any, Any, int, int], int]
    take_in_answers: Callable[[Any, Any, Any, int, float], None]

    def refuse_if_changed(self) -> None:
        """Refuse a policy outside this package whose code has changed in this process."""
        self.layout.refuse_if_changed(self.title)

    def load(self) -> None:
        """Load machine code, or compile it."""
        with self._lock:
            if self.is_machine_code:
                return
            self.refuse_if_changed()
            for name, (kernel, others) in self.kernels.items():
                setattr(self, name, cache.load_entry(kernel, (self.layout.storage.numba_type, *others)))
            self._mark_stored(self.name)
            self.is_machine_code = True

    def prepare(self) -> None:
        """Load machine code if it is stored, or have it compiled."""
        if self.is_machine_code or self._is_compiling or INTERPRETED:
            return
        if cache.is_stored(self.name):
            self.load()
        elif _compile_mode() == "now":
            cache.say(f"compiling {self.title} for this machine{self._once}; this takes {self._time} ...")
            self.load()
        else:
            self._compile_in_background()

    def _compile_in_background(self) -> None:
        """Let a child process compile, then load its machine code."""
        with self._lock:
            if self._is_compiling:
                return
            self._is_compiling = True
        cache.say(
            f"compiling {self.title} for this machine in the background{self._once}, {self._time}; "
            "until then it decides more slowly"
        )
        threading.Thread(target=self._wait_and_load, name="maskedbandits-compile", daemon=True).start()

    def _wait_and_load(self) -> None:
        is_builtin = not self.layout.origin.digest  # a child process lacks the policies of this one
        if is_builtin and CAN_STORE:
            failures = contextlib.suppress(OSError, subprocess.SubprocessError)  # then this process compiles
            with failures, start_compiler([self.name]) as child:
                try:
                    child.wait(CHILD_TIMEOUT_S)
                finally:
                    child.kill()
        with contextlib.suppress(UserError):  # its code has changed: the next call raises the error
            self.load()

    @property
    def _once(self) -> str:
        return "" if self.layout.origin.doubt else ", once"

    def _mark_stored(self, name: str) -> None:
        """Note that machine code is stored, unless the policy's sources are unreliable."""
        if not self.layout.origin.doubt:
            cache.mark_stored(name)

    def compile_simulator(self, advance: Any, *arguments: Any) -> tuple[Callable[[Any], None], Callable[..., None]]:
        """Return compiled functions that start and advance a run, such as ``kernels.advance`` with such arguments."""
        first = groups.start_groups if advance is groups.advance_groups else kernels.start_live
        self.refuse_if_changed()
        if INTERPRETED:
            return first, advance
        if not self.has_simulator(advance):
            cache.say(f"compiling {self.title} for simulations{self._once}; this takes {self._time} ...")
        types = [numba.typeof(each) for each in arguments]
        with self._lock:
            start = cache.load_entry(first, (self.layout.storage.numba_type,))
            play = cache.load_entry(advance, (self.layout.storage.numba_type, *types))
        self._mark_stored(self._simulator_name(advance))
        if first is kernels.start_live:
            self.start = start  # also for policies that are created later
        return start, play

    def has_simulator(self, advance: Any) -> bool:
        """Tell whether the function that advances a run is compiled and stored."""
        return INTERPRETED or cache.is_stored(self._simulator_name(advance))

    def _simulator_name(self, advance: Any) -> str:
        return f"{self.layout.storage.name}.{advance.__name__}"


_all: dict[str, Entries] = {}


def get_entries(layout: Layout, title: str, part: str = "") -> Entries:
    """Return the entry points of a kind of state, which all its policies share."""
    name = layout.storage.name + part
    if name not in _all:
        found = _all.setdefault(name, Entries(layout, part))
        found.title = title
    return _all[name]


def list_parts(layout: Layout) -> list[str]:
    """Return the groups of entry points of a kind of state, after the first."""
    takes_masks = hasattr(layout.State.code, "observe_masked")
    return [part for part in _PARTS if part not in ("", ".groups") and (part != ".masked" or takes_masks)]


def compile_all(layout: Layout, title: str) -> None:
    """Compile all entry points of a kind of state, and its simulator."""
    found = get_entries(layout, title)
    if not INTERPRETED:
        found.load()
        for part in list_parts(layout):
            get_entries(layout, title, part).load()
        times, zeros = np.zeros(1, dtype=np.int64), np.zeros(1)
        world = kernels.World(times, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), dtype=np.bool_))
        tally = kernels.Tally(times, zeros, zeros, times, times, times, times[None, :], times)
        found.compile_simulator(kernels.advance, world, times, tally, 0)


def is_loaded(name: str) -> bool:
    """Tell whether this process uses machine code of this name: a storage's with a group's."""
    return name in _all and _all[name].is_machine_code


def compile_named(name: str) -> None:
    """Compile the entry points of this name: a storage's with a group's."""
    from maskedbandits.policies import KINDS, registry

    for kind in registry.list_all(KINDS):
        for part in _PARTS:
            if kind.layout.storage.name + part == name:
                get_entries(kind.layout, kind.name, part).load()
                return


def start_compiler(names: Iterable[str]) -> "subprocess.Popen[bytes]":
    """Start a process that compiles and stores the entry points of these names, if they are not stored yet."""
    return subprocess.Popen(  # noqa: S603 -- this program
        [sys.executable, "-P", "-m", __name__, *names],  # -P: import nothing from the present folder
        env=cache.child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt is meant for the parent
    )


if __name__ == "__main__":
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # the parent, which decides, comes first
    for each in sys.argv[1:]:
        if not cache.is_stored(each):
            compile_named(each)


_policies: "weakref.WeakSet[Any]" = weakref.WeakSet()
_groups: "weakref.WeakSet[Any]" = weakref.WeakSet()  # objects that hold several policies, and a lock of their own
_held_entries: list[Entries] = []  # during a fork
_held_policies: list[Any] = []  # during a fork
_forking = threading.RLock()  # one fork at a time, and no policy is registered meanwhile


def hold_during_forks(policy: Any) -> None:
    """Hold a policy still whenever the process forks."""
    with _forking:
        _policies.add(policy)


def hold_group_during_forks(group: Any) -> None:
    """Hold an object with policies still, before these; in a child process its ``draw_apart`` is called.

    An object that holds its lock may wait for the locks of its policies. It must not create policies meanwhile: that
    waits for a fork to end.
    """
    with _forking:
        _groups.add(group)


def _hold() -> None:
    """Wait until no policy is in the middle of a step, and nothing is being compiled."""
    _forking.acquire()
    _held_policies.extend([*_groups, *_policies])
    _held_entries.extend(_all.values())
    for each in (*_held_policies, *_held_entries):
        each._lock.acquire()


def _release(*, in_child: bool = False) -> None:
    """Continue after a fork; in a child, draw other random numbers, and expect no machine code from a thread."""
    while _held_entries:
        entries = _held_entries.pop()
        entries._lock.release()
        if in_child:
            entries._is_compiling = False
    while _held_policies:
        policy = _held_policies.pop()
        if in_child and policy in _groups:
            policy.draw_apart()
        elif in_child:
            policy._state.rng[:] = rng.seed_words()
        policy._lock.release()
    _forking.release()


def _release_in_child() -> None:
    _release(in_child=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release_in_child)
