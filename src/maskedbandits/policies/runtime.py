"""The entry points of each kind of state: machine code as soon as there is some, until then the same code interpreted.

Machine code takes seconds to make, and is kept (``cache.py``). Where it is not there yet, a live policy starts at once,
interpreted, while a child process fills the cache; then it goes on with machine code, and chooses the same. A
simulation waits for its code. ``MASKEDBANDITS_COMPILE=now`` makes live policies wait, too.
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
from maskedbandits._numba.jit import INTERPRETED, interpreted
from maskedbandits._numba.state import Layout
from maskedbandits.errors import UserError
from maskedbandits.math import rng
from maskedbandits.policies import kernels
from maskedbandits.policies.groups import kernels as group_kernels
from maskedbandits.policies.groups.levels import NO_GRAINS

MODE = "MASKEDBANDITS_COMPILE"
# Seconds of CPU that it takes to compile what a live policy needs, and as much again for a simulation: of all policies
# that share a kernel, or of one that stands alone.
SHARED_SECONDS, ALONE_SECONDS = 25, 10
PATIENCE = 600.0  # seconds that the child may take

Kernels = dict[str, tuple[Any, tuple[Any, ...]]]  # by name, each with the types of what it takes beside the state

_LOG = (numba.int64[::1], numba.float64[::1])  # arms and feedbacks
_LIVE: Kernels = {
    "start": (kernels.start_live, ()),
    "choose": (kernels.choose_live, ()),
    "observe": (kernels.observe_live, (numba.int64, numba.float64)),
    "wait": (kernels.wait_live, (numba.int64, numba.int64)),
}
_MASKS = (numba.int64[::1], numba.float64[:, ::1], numba.float64)  # those of reports, the lines, how many are honest
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
_GRAINS, _ANSWERS = numba.typeof(NO_GRAINS), numba.typeof(group_kernels.NO_ANSWERS)
_GROUPS: Kernels = {
    "ask_groups": (group_kernels.ask_groups, (_GRAINS, numba.int64[::1], numba.int64, numba.int64)),
    "take_in_answers": (group_kernels.take_in_answers, (_GRAINS, _ANSWERS, numba.int64, numba.float64)),
}
# What is compiled together: few need more than the first.
_PARTS = {
    "": _LIVE,
    ".masked": _MASKED,
    ".scores": _SCORES,
    ".many": _MANY,
    ".sample": _SAMPLE,
    ".among": _AMONG,
    ".groups": _GROUPS,
}


def _mode() -> str:
    """Return how live policies get their code: now, or in the background."""
    asked = os.environ.get(MODE) or "background"
    if asked not in ("now", "background"):
        cache.say(f"{MODE} = {asked!r} is taken for background: give now or background")
    return asked


class Entries:
    """The entry points of a kind of state; ``start``, ``choose``, ``observe`` and the others, or some of them."""

    def __init__(self, layout: Layout, part: str) -> None:
        self.layout = layout
        self.name = layout.storage.name + part
        self.title = layout.name  # what people call it: the first policy that uses it
        self.kernels = _PARTS[part]
        self.is_machine_code = False
        self._time = f"about {SHARED_SECONDS if layout.storage.choices else ALONE_SECONDS} s of CPU"
        self._lock = threading.Lock()
        self._helped = False
        for name, (kernel, _) in self.kernels.items():
            setattr(self, name, self._plain(name, kernel))

    def _plain(self, name: str, kernel: Any) -> Callable[..., Any]:
        """Return a kernel interpreted; when first used, it gets machine code ready, unless it only starts a state."""
        run = interpreted(kernel)

        def call(*arguments: Any) -> Any:
            self.refuse_if_changed()
            if name != "start":
                self.get_ready()
                if self.is_machine_code:
                    return getattr(self, name)(*arguments)
            out = run(*arguments)
            return None if out is None else int(out)  # a plain number, as from machine code

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
        """Refuse to go on if it is a policy of your own whose code has changed in this process."""
        self.layout.refuse_if_changed(self.title)

    def load(self) -> None:
        """Load machine code, or compile it."""
        with self._lock:
            if self.is_machine_code:
                return
            self.refuse_if_changed()
            for name, (kernel, others) in self.kernels.items():
                setattr(self, name, cache.entry_point(kernel, (self.layout.storage.numba_type, *others)))
            self._note(self.name)
            self.is_machine_code = True

    def get_ready(self) -> None:
        """Have machine code now if it is kept, or see to it that there will be some."""
        if self.is_machine_code or self._helped or INTERPRETED:
            return
        if cache.is_marked(self.name):
            self.load()
        elif _mode() == "now":
            cache.say(f"compiling {self.title} for this machine{self._once}; this takes {self._time} ...")
            self.load()
        else:
            self._get_help()

    def _get_help(self) -> None:
        """Let a child process compile, and go on with what it has made."""
        with self._lock:
            if self._helped:
                return
            self._helped = True
        cache.say(
            f"compiling {self.title} for this machine in the background{self._once}, {self._time}; "
            "until then it decides more slowly"
        )
        threading.Thread(target=self._wait_for_help, name="maskedbandits-compile", daemon=True).start()

    def _wait_for_help(self) -> None:
        if not self.layout.origin.digest:  # a child does not know a policy of your own
            failing = contextlib.suppress(OSError, subprocess.SubprocessError)  # then it is compiled here
            with failing, start_child([self.name]) as child:
                try:
                    child.wait(PATIENCE)
                finally:
                    child.kill()
        with contextlib.suppress(UserError):  # its code has changed: the next call says so
            self.load()

    @property
    def _once(self) -> str:
        return "" if self.layout.origin.doubt else ", once"

    def _note(self, name: str) -> None:
        """Note that machine code is kept, if it may be."""
        if not self.layout.origin.doubt:
            cache.mark(name)

    def simulator(self, advance: Any, *arguments: Any) -> tuple[Callable[[Any], None], Callable[..., None]]:
        """Return what starts a run and what plays it on (such as ``kernels.advance``, of such arguments), compiled."""
        first = group_kernels.start_groups if advance is group_kernels.advance_groups else kernels.start_live
        self.refuse_if_changed()
        if INTERPRETED:
            return first, advance
        if not self.simulates(advance):
            cache.say(f"compiling {self.title} for simulations{self._once}; this takes {self._time} ...")
        types = [numba.typeof(each) for each in arguments]
        with self._lock:
            start = cache.entry_point(first, (self.layout.storage.numba_type,))
            made = cache.entry_point(advance, (self.layout.storage.numba_type, *types))
        self._note(self._mark(advance))
        if first is kernels.start_live:
            self.start = start  # also for policies that are made from now on
        return start, made

    def simulates(self, advance: Any) -> bool:
        """Tell whether what plays a run on is compiled, and kept."""
        return INTERPRETED or cache.is_marked(self._mark(advance))

    def _mark(self, advance: Any) -> str:
        return f"{self.layout.storage.name}.{advance.__name__}"


_all: dict[str, Entries] = {}


def entries(layout: Layout, title: str, part: str = "") -> Entries:
    """Return the entry points of a kind of state: the same for all policies of the kind."""
    name = layout.storage.name + part
    if name not in _all:
        found = _all.setdefault(name, Entries(layout, part))
        found.title = title
    return _all[name]


def parts(layout: Layout) -> list[str]:
    """Return the parts that a kind of state has, beside the first."""
    takes_masks = hasattr(layout.State.code, "observe_masked")
    return [part for part in _PARTS if part not in ("", ".groups") and (part != ".masked" or takes_masks)]


_held: list[Entries] = []  # during a fork


def hold_still() -> None:
    """Let nothing be in the middle of being compiled when the process forks."""
    _held.extend(list(_all.values()))
    for each in _held:
        each._lock.acquire()


def go_on(*, in_child: bool) -> None:
    """Go on after a fork; a child has no thread that waits for its code."""
    while _held:
        each = _held.pop()
        each._lock.release()
        if in_child:
            each._helped = False


def compile_all(layout: Layout, title: str) -> None:
    """Compile all that live policies of a kind need, and simulations of them."""
    found = entries(layout, title)
    if not INTERPRETED:
        found.load()
        for part in parts(layout):
            entries(layout, title, part).load()
        times, zeros = np.zeros(1, dtype=np.int64), np.zeros(1)
        world = kernels.World(times, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), dtype=np.bool_))
        tally = kernels.Tally(times, zeros, zeros, times, times, times, times[None, :])
        found.simulator(kernels.advance, world, times, tally, 0)


def is_loaded(name: str) -> bool:
    """Tell whether machine code of this name, a layout's and a part's, is at work in this process."""
    return name in _all and _all[name].is_machine_code


def fill_cache(name: str) -> None:
    """Compile some of what live policies of a layout need."""
    from maskedbandits.policies import KINDS, registry

    for kind in registry.every(KINDS):
        for part in _PARTS:
            if kind.layout.storage.name + part == name:
                entries(kind.layout, kind.name, part).load()
                return


def start_child(names: Iterable[str]) -> "subprocess.Popen[bytes]":
    """Start a process that compiles what is not kept yet, beside those who decide."""
    return subprocess.Popen(  # noqa: S603 -- this program
        [sys.executable, "-P", "-m", __name__, *names],  # -P: nothing in the present folder is imported
        env=cache.for_children(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt is meant for the program that decides
    )


if __name__ == "__main__":
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # those who decide come first
    for each in sys.argv[1:]:
        if not cache.is_marked(each):
            fill_cache(each)


_alive: "weakref.WeakSet[Any]" = weakref.WeakSet()
_around: "weakref.WeakSet[Any]" = weakref.WeakSet()  # which hold some of those, and wait for them with their own lock
_held_policies: list[Any] = []  # during a fork
_forking = threading.RLock()  # forks do not meet, and nobody joins those alive meanwhile


def look_after(policy: Any) -> None:
    """Hold a policy still whenever the process forks."""
    with _forking:
        _alive.add(policy)


def look_after_group(policies: Any) -> None:
    """Hold an object still that has policies, before these; in a child it is told to draw apart.

    While it has its lock, it may wait for those of its policies, and must make none: that waits for a fork to end.
    """
    with _forking:
        _around.add(policies)


def _hold_still() -> None:
    """Let no policy be in the middle of a step when the process forks."""
    _forking.acquire()
    _held_policies.extend([*_around, *_alive])
    for policy in _held_policies:
        policy._lock.acquire()
    hold_still()


def _go_on(*, in_child: bool = False) -> None:
    go_on(in_child=in_child)
    while _held_policies:
        policy = _held_policies.pop()
        if in_child and policy in _around:
            policy.draw_apart()
        elif in_child:  # or parent and child would draw the same
            policy._state.lots[:] = rng.seeded()
        policy._lock.release()
    _forking.release()


def _go_on_apart() -> None:
    _go_on(in_child=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_still, after_in_parent=_go_on, after_in_child=_go_on_apart)
