"""Checks of stored results: damaged files and files edited by hand raise an error before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import LARGEST, UserError, WrongValueError, abbreviate, check_int, check_line, check_number

ARRAYS = ("times", "regret", "pulls", "suboptimal_pulls")
OPTIONAL_ARRAYS = ("pulls_over_time", "group_regret")  # missing in older folders, or without groups
TEXTS = ("title", "version", "command", "file", "source")
ROUNDING = 1e-6  # relative difference allowed between sums of regrets
LABEL_KEYS = {"key", "problem", "policy", "epsilon", "window", "published"}

Arrays = Mapping[str, NDArray[Any]]


def describe_damage(error: BaseException) -> str:
    """Return what is wrong with a file, if one of our checks found it; messages of other readers say little."""
    return f": {error}" if isinstance(error, UserError) else ""


def check_manifest(facts: dict[str, Any]) -> None:
    """Raise an error unless a manifest has its texts, a list of labels and a provenance."""
    odd = sorted({*TEXTS, "labels"} ^ (set(facts) - {"provenance", "arms"}))
    if odd:
        raise UserError(f"{abbreviate(odd)} missing or not known")
    provenance = facts.get("provenance", {})
    if not isinstance(provenance, dict) or not all(isinstance(value, str) for value in provenance.values()):
        raise WrongValueError("provenance", provenance, "a table of texts")
    _check_arms(facts.get("arms", {}))
    for name in TEXTS:
        if not isinstance(facts[name], str):
            raise WrongValueError(name, facts[name], "a text")
    check_line("title", facts["title"])
    for entry in _check_list("labels", facts["labels"]):
        _check_label(entry)


def _check_arms(names: Any) -> None:
    """Raise an error unless the names of arms are lists of texts, by problem."""
    if not isinstance(names, dict):
        raise WrongValueError("arms", names, "a table of lists of names")
    for problem, arms in names.items():
        for arm in _check_list(f"arms of {abbreviate(problem)}", arms):
            check_line("arm", arm)


def _check_label(entry: Any) -> None:
    if not isinstance(entry, dict) or set(entry) != LABEL_KEYS:
        raise WrongValueError("labels", entry, f"tables of {', '.join(sorted(LABEL_KEYS))}")
    for name in ("key", "problem", "policy"):
        check_line(name, entry[name])
    if PurePath(entry["key"]).name != entry["key"]:  # a path could lead out of the folder
        raise WrongValueError("key", entry["key"], "the name of a file in cells/")
    if entry["window"] is not None:
        check_line("window", entry["window"])
    if entry["epsilon"] not in (None, "inf"):
        check_number("epsilon", entry["epsilon"], 0.0, above=True)
    if entry["published"] is not None:
        check_number("published", entry["published"], 0.0, above=True)


def count_bytes(spec: Any) -> int:
    """Return the size in bytes of the arrays of a cell, by its specification."""
    runs = check_int("runs", spec["runs"], 1, LARGEST)
    times = spec["checkpoints"]
    checkpoints = len(times) if isinstance(times, list) else check_int("checkpoints", times, 1, LARGEST)
    groups = len(spec.get("shares", ()))
    arms = len(spec["means"][0][0] if groups else spec["means"][0])
    means = max(groups, 1) * arms
    return 8 * (checkpoints + runs * (checkpoints * (1 + groups) + 2 * means) + checkpoints * means)


def check_outcome(spec: Any, seconds: Any, arrays: Arrays) -> None:
    """Raise an error if the numbers of a cell contradict each other or the specification."""
    check_number("seconds", seconds, 0.0)
    if not isinstance(spec, dict) or not isinstance(spec["parameters"], dict):
        raise WrongValueError("question", spec, "a table with a table of parameters")
    check_line("policy", spec["policy"])
    check_int("seed", spec["seed"], 0)
    horizon = check_int("horizon", spec["horizon"], 1, LARGEST)
    shape = _check_means(spec["means"], spec["starts"], horizon, has_groups="shares" in spec)
    arms = shape[-1]
    for name in ("p00", "p11"):
        _check_shares(name, spec[name], arms)
    _check_noise(spec, arms)
    _check_population(spec)
    _check_window(spec["parameters"].get("window"))
    _check_arrays(arrays, shape, horizon)
    if "record" not in spec:
        _check_sums(arrays, horizon)
    if "pulls_over_time" in arrays:
        _check_over_time(arrays)
    if "shares" in spec:
        _check_groups(spec, arrays, shape[0])
    elif "group_regret" in arrays:
        raise UserError("regret of groups, and there are none")


def _check_means(means: Any, starts: Any, horizon: int, *, has_groups: bool) -> tuple[int, ...]:
    """Check means and starts; return the number of arms, after that of groups if there are any."""
    table, begins = np.array(_check_list("means", means)), np.array(_check_list("starts", starts))
    inside = table.dtype.kind in "fi" and bool(np.all((table >= 0.0) & (table <= 1.0)))
    if table.ndim != 2 + has_groups or not table.size or not inside:
        raise WrongValueError("means", means, "a row of numbers in [0, 1] for each segment")
    rising = begins.dtype.kind == "i" and begins[0] == 0 and np.all(np.diff(begins) > 0) and begins[-1] < horizon
    if begins.shape != (len(table),) or not rising:
        raise WrongValueError("starts", starts, "increasing times from 0, one for each row of means")
    return table.shape[1:]


def _check_list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise WrongValueError(name, value, "a list that is not empty")
    return value


def _check_shares(name: str, shares: Any, count: int, of: str = "arm") -> None:
    """Raise an error unless there is a number in [0, 1] for each arm, or group."""
    if len(_check_list(name, shares)) != count:
        raise WrongValueError(name, shares, f"a number for each {of}")
    for share in shares:
        check_number(name, share, 0.0, 1.0)


def _check_noise(spec: dict[str, Any], arms: int) -> None:
    """Check the noise: a kind and a size for each arm, and the law of the rewards."""
    if "noise" not in spec:
        return
    each = _check_list("noise", spec["noise"])
    if len(each) != arms:
        raise WrongValueError("noise", each, "a kind and a size for each arm")
    for one in [*each, spec["rewards"]]:
        if not isinstance(one, list) or len(one) != 2:
            raise WrongValueError("noise", one, "a kind and a number")
        check_line("noise", one[0])
        check_number("noise", one[1], 0.0)


def _check_population(spec: dict[str, Any]) -> None:
    """Check the masks that people choose: as many of each of their numbers."""
    people = spec.get("population", {"p00": [1.0], "p11": [1.0], "shares": [1.0]})
    if not isinstance(people, dict) or set(people) != {"p00", "p11", "shares"}:
        raise WrongValueError("population", people, "a table of p00, p11 and shares")
    for name, values in people.items():
        _check_shares(name, values, len(_check_list("shares", people["shares"])), "choice")


def _check_window(window: Any) -> None:
    if window is not None and window != "inf":
        check_int("window", window)


def _check_arrays(arrays: Arrays, shape: tuple[int, ...], horizon: int) -> None:
    times, regret, pulls, wasted = (arrays[name] for name in ARRAYS)
    for name in ARRAYS:
        if arrays[name].dtype != (np.float64 if name == "regret" else np.int64):
            raise UserError(f"{name} are of type {arrays[name].dtype}")
    runs = len(regret)
    if runs < 1 or times.ndim != 1 or times.size < 1 or regret.shape != (runs, times.size):
        raise UserError(f"regret of shape {regret.shape} for {times.size} checkpoints")
    if times[0] < 1 or times[-1] != horizon or np.any(np.diff(times) <= 0):
        raise UserError(f"checkpoints do not rise to the horizon {horizon}")
    if pulls.shape != (runs, *shape) or wasted.shape != (runs, *shape):
        raise UserError(f"pulls of shapes {pulls.shape} and {wasted.shape} for {runs} runs of {shape[-1]} arms")
    if np.any(wasted < 0) or np.any(wasted > pulls) or np.any(pulls.reshape(runs, -1).sum(axis=1) > horizon):
        raise UserError(f"pulls that do not add up to the horizon {horizon}")
    if not np.all(np.isfinite(regret)):
        raise UserError("regret that is no number")


def _check_sums(arrays: Arrays, horizon: int) -> None:
    """Check the sums of pulls and regrets; they need not hold where recorded data are replayed."""
    if np.any(arrays["pulls"].reshape(len(arrays["pulls"]), -1).sum(axis=1) != horizon):
        raise UserError(f"pulls that do not add up to the horizon {horizon}")
    if np.any(arrays["regret"] < 0.0) or np.any(np.diff(arrays["regret"], axis=1) < 0.0):
        raise UserError("regret that is negative or falling")


def _check_over_time(arrays: Arrays) -> None:
    """Check that pulls at the checkpoints add up to the pulls of all runs."""
    times, pulls, over_time = arrays["times"], arrays["pulls"], arrays["pulls_over_time"]
    if over_time.dtype != np.int64 or over_time.shape != (times.size, *pulls.shape[1:]):
        raise UserError(f"pulls over time of type {over_time.dtype} and shape {over_time.shape}")
    added, total = np.diff(over_time, axis=0, prepend=0), over_time.reshape(times.size, -1).sum(axis=1)
    if np.any(added < 0) or np.any(total > len(pulls) * times) or np.any(over_time[-1] != pulls.sum(axis=0)):
        raise UserError("pulls over time that do not add up to all pulls")


def _check_groups(spec: dict[str, Any], arrays: Arrays, groups: int) -> None:
    """Check that the shares add up to 1, and the regrets of groups to the regret."""
    _check_shares("shares", spec["shares"], groups, "group")
    if abs(sum(spec["shares"]) - 1.0) > ROUNDING:
        raise WrongValueError("shares", spec["shares"], "numbers that add up to 1")
    flag = spec["parameters"].get("context")
    if not isinstance(flag, bool):
        raise WrongValueError("context", flag, "true or false")
    regret, by_group = arrays["regret"], arrays.get("group_regret")
    if by_group is None or by_group.dtype != np.float64 or by_group.shape != (*regret.shape, groups):
        raise UserError(f"no regret of {groups} groups at {regret.shape[1]} checkpoints")
    if not np.all(np.isfinite(by_group)) or np.any(np.diff(by_group, axis=1, prepend=0.0) < 0.0):
        raise UserError("regret of a group that is negative or falling")
    if not np.allclose(by_group.sum(axis=2), regret, rtol=ROUNDING, atol=ROUNDING):
        raise UserError("regret of groups that does not add up to the regret")
