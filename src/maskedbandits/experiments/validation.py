"""What stored results must be like: a file that is damaged, or was edited by hand, is refused before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import LARGEST, UserError, WrongValueError, check_int, line, number, shown

ARRAYS = ("times", "regret", "pulls", "suboptimal_pulls")
LATER = ("pulls_over_time", "group_regret")  # arrays that older folders do not have, or problems without groups
TEXTS = ("title", "version", "command", "file", "source")
ROUNDING = 1e-6  # by which sums of regrets may differ, of their size
LABEL_KEYS = {"key", "problem", "policy", "epsilon", "window", "published"}

Arrays = Mapping[str, NDArray[Any]]


def reason(error: BaseException) -> str:
    """Return what is wrong with a file, where we know better than the reader of its format."""
    return f": {error}" if isinstance(error, UserError) else ""


def check_plan(facts: dict[str, Any]) -> None:
    """Refuse a plan that is not one: texts, a list of labels, and where it comes from."""
    odd = sorted({*TEXTS, "labels"} ^ (set(facts) - {"provenance", "arms"}))
    if odd:
        raise UserError(f"{shown(odd)} missing or not known")
    told = facts.get("provenance", {})
    if not isinstance(told, dict) or not all(isinstance(value, str) for value in told.values()):
        raise WrongValueError("provenance", told, "a table of texts")
    _check_arms(facts.get("arms", {}))
    for name in TEXTS:
        if not isinstance(facts[name], str):
            raise WrongValueError(name, facts[name], "a text")
    line("title", facts["title"])
    for entry in _rows("labels", facts["labels"]):
        _check_label(entry)


def _check_arms(named: Any) -> None:
    """Refuse names of arms that are no lists of texts, by problem."""
    if not isinstance(named, dict):
        raise WrongValueError("arms", named, "a table of lists of names")
    for problem, arms in named.items():
        for arm in _rows(f"arms of {shown(problem)}", arms):
            line("arm", arm)


def _check_label(entry: Any) -> None:
    if not isinstance(entry, dict) or set(entry) != LABEL_KEYS:
        raise WrongValueError("labels", entry, f"tables of {', '.join(sorted(LABEL_KEYS))}")
    for name in ("key", "problem", "policy"):
        line(name, entry[name])
    if PurePath(entry["key"]).name != entry["key"]:  # else it could lead out of the folder
        raise WrongValueError("key", entry["key"], "the name of a file in cells/")
    if entry["window"] is not None:
        line("window", entry["window"])
    if entry["epsilon"] not in (None, "inf"):
        number("epsilon", entry["epsilon"], 0.0, above=True)
    if entry["published"] is not None:
        number("published", entry["published"], 0.0, above=True)


def bytes_of(question: Any) -> int:
    """Return how many bytes the numbers take up that answer a question."""
    runs = check_int("runs", question["runs"], 1, LARGEST)
    told = question["checkpoints"]
    checkpoints = len(told) if isinstance(told, list) else check_int("checkpoints", told, 1, LARGEST)
    groups = len(question.get("shares", ()))
    arms = len(question["means"][0][0] if groups else question["means"][0])
    means = max(groups, 1) * arms
    return 8 * (checkpoints + runs * (checkpoints * (1 + groups) + 2 * means) + checkpoints * means)


def check_outcome(question: Any, seconds: Any, arrays: Arrays) -> None:
    """Refuse the numbers of a cell that are none, or contradict each other or the question."""
    number("seconds", seconds, 0.0)
    if not isinstance(question, dict) or not isinstance(question["parameters"], dict):
        raise WrongValueError("question", question, "a table with a table of parameters")
    line("policy", question["policy"])
    check_int("seed", question["seed"], 0)
    horizon = check_int("horizon", question["horizon"], 1, LARGEST)
    shape = _check_means(question["means"], question["starts"], horizon, grouped="shares" in question)
    arms = shape[-1]
    for name in ("p00", "p11"):
        _check_shares(name, question[name], arms)
    _check_noise(question, arms)
    _check_window(question["parameters"].get("window"))
    _check_arrays(arrays, shape, horizon)
    if "record" not in question:
        _check_sums(arrays, horizon)
    if "pulls_over_time" in arrays:
        _check_over_time(arrays)
    if "shares" in question:
        _check_groups(question, arrays, shape[0])
    elif "group_regret" in arrays:
        raise UserError("regret of groups, and there are none")


def _check_means(means: Any, starts: Any, horizon: int, *, grouped: bool) -> tuple[int, ...]:
    """Refuse means and starts that are no problem; return the number of arms, after that of groups if there are any."""
    table, begins = np.array(_rows("means", means)), np.array(_rows("starts", starts))
    inside = table.dtype.kind in "fi" and bool(np.all((table >= 0.0) & (table <= 1.0)))
    if table.ndim != 2 + grouped or not table.size or not inside:
        raise WrongValueError("means", means, "a row of numbers in [0, 1] for each segment")
    rising = begins.dtype.kind == "i" and begins[0] == 0 and np.all(np.diff(begins) > 0) and begins[-1] < horizon
    if begins.shape != (len(table),) or not rising:
        raise WrongValueError("starts", starts, "increasing times from 0, one for each row of means")
    return table.shape[1:]


def _rows(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise WrongValueError(name, value, "a list that is not empty")
    return value


def _check_shares(name: str, shares: Any, count: int, of: str = "arm") -> None:
    """Refuse what is not a number in [0, 1] for each arm, or group."""
    if len(_rows(name, shares)) != count:
        raise WrongValueError(name, shares, f"a number for each {of}")
    for share in shares:
        number(name, share, 0.0, 1.0)


def _check_noise(question: dict[str, Any], arms: int) -> None:
    """Refuse noise that is none: a kind and a size for each arm, and what rewards it is added to."""
    if "noise" not in question:
        return
    each = _rows("noise", question["noise"])
    if len(each) != arms:
        raise WrongValueError("noise", each, "a kind and a size for each arm")
    for one in [*each, question["rewards"]]:
        if not isinstance(one, list) or len(one) != 2:
            raise WrongValueError("noise", one, "a kind and a number")
        line("noise", one[0])
        number("noise", one[1], 0.0)


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
    """Refuse what can be where something recorded is replayed, and nowhere else."""
    if np.any(arrays["pulls"].reshape(len(arrays["pulls"]), -1).sum(axis=1) != horizon):
        raise UserError(f"pulls that do not add up to the horizon {horizon}")
    if np.any(arrays["regret"] < 0.0) or np.any(np.diff(arrays["regret"], axis=1) < 0.0):
        raise UserError("regret that is negative or falling")


def _check_over_time(arrays: Arrays) -> None:
    """Refuse pulls at the checkpoints that are not those of all runs together."""
    times, pulls, found = arrays["times"], arrays["pulls"], arrays["pulls_over_time"]
    if found.dtype != np.int64 or found.shape != (times.size, *pulls.shape[1:]):
        raise UserError(f"pulls over time of type {found.dtype} and shape {found.shape}")
    added, total = np.diff(found, axis=0, prepend=0), found.reshape(times.size, -1).sum(axis=1)
    if np.any(added < 0) or np.any(total > len(pulls) * times) or np.any(found[-1] != pulls.sum(axis=0)):
        raise UserError("pulls over time that do not add up to all pulls")


def _check_groups(question: dict[str, Any], arrays: Arrays, groups: int) -> None:
    """Refuse shares that are none, and regret of groups that is not the regret of all."""
    _check_shares("shares", question["shares"], groups, "group")
    if abs(sum(question["shares"]) - 1.0) > ROUNDING:
        raise WrongValueError("shares", question["shares"], "numbers that add up to 1")
    flag = question["parameters"].get("context")
    if not isinstance(flag, bool):
        raise WrongValueError("context", flag, "true or false")
    regret, found = arrays["regret"], arrays.get("group_regret")
    if found is None or found.dtype != np.float64 or found.shape != (*regret.shape, groups):
        raise UserError(f"no regret of {groups} groups at {regret.shape[1]} checkpoints")
    if not np.all(np.isfinite(found)) or np.any(np.diff(found, axis=1, prepend=0.0) < 0.0):
        raise UserError("regret of a group that is negative or falling")
    if not np.allclose(found.sum(axis=2), regret, rtol=ROUNDING, atol=ROUNDING):
        raise UserError("regret of groups that does not add up to the regret")
