"""`maskedbandits policies`: the policies by name, or one of them with its parameters."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util import safe_text
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.verb import Verb, json_option

if TYPE_CHECKING:
    from maskedbandits._numba.state import Param
    from maskedbandits.policies import Kind

RECOMMENDED = {  # the situation, and the policy for it
    "auto": "You do not know when or how the world changes. Needs no tuning.",
    "ts-cf": "You are sure that nothing changes.",
    "glr-klucb-cf": "A few abrupt changes; you want explicit change detection.",
    "sw-klucb-cf": "You know how often changes come, or reproduce the paper.",
    "logistic-ts-cf": "The best arm depends on public features of the context.",
}
FAMILIES = {  # by the beginning of a name; the first that fits
    "Restart after a detected change": ("glr-", "cusum-", "ph-", "m-"),
    "Forget gradually: sliding window or discount": ("sw-", "d-"),
    "Remember everything": ("klucb", "ucb", "ts-"),
    "Baselines that know the changes": ("oracle",),
    "Others": ("",),
}
NAME_WIDTH = 24
MAX_WIDTH = 100  # columns of a paragraph: longer lines are hard to read

TIMES_ON_A_LOG = {  # by kind of time; see docs/data.md
    "position": "a row, at which it takes effect",
    "duration": "a number of rows; divided by the number of arms, the expected number of rows per play",
    "decay": "per row; raised to the power of the number of arms, the expected number of rows per play",
}


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits policies",
        "maskedbandits policies sw-klucb-cf",
        "maskedbandits policies auto --json",
        "maskedbandits policies my_module:my-policy",
    ],
)
@click.argument("name", required=False)
@json_option
def policies(name: str | None, json_wanted: bool) -> None:
    """Recommend and list policies, or explain one of them.

    With NAME, each parameter of that policy is explained. NAME may also be a policy over features, or your own compiled
    policy, written as module:name.
    """
    from maskedbandits import features
    from maskedbandits.policies import kind_of, names

    if name and ":" in name:
        resolve_own(name)
    known: list[Kind | FeaturedKind]
    if name in features.NAMES:
        known = [describe_featured(name)]
    else:
        known = [kind_of(one) for one in (names() if name is None else [name])]
    if json_wanted:
        documents = [as_document(policy) for policy in known]
        echo_json(documents if name is None else documents[0])
        return
    for line in explain(known[0]) if name is not None else list_by_family(known):
        echo(line)


def resolve_own(name: str) -> None:
    """Import the module of a compiled policy from outside, so that its name is known."""
    from maskedbandits.errors import UserError
    from maskedbandits.experiments.named_policy import find_policy

    if find_policy(name, (Path.cwd(),)) is None:
        raise UserError(f"{name} is a function in plain Python: its own signature explains its parameters")


@dataclass(frozen=True)
class FeaturedKind:
    """The description of a policy over features, with the attributes of a ``Kind``."""

    name: str
    summary: str
    parameters: Mapping[str, Param]
    learns_from: str = "masked feedback, and public features: make_featured"
    reference: str = ""


def describe_featured(name: str) -> FeaturedKind:
    """Return the description of a policy over features, from its module."""
    from maskedbandits.features.policy import MODULES

    module = MODULES[name]
    _, _, summary = (module.__doc__ or "").splitlines()[0].partition(": ")
    return FeaturedKind(name, summary.rstrip("."), module.PARAMETERS)


def supports_groups(policy: Kind | FeaturedKind) -> bool:
    """Return whether a policy can choose for each group of people."""
    return not isinstance(policy, FeaturedKind) and policy.sees_corruption and not policy.sees_rewards


def list_by_family(known: Iterable[Kind | FeaturedKind]) -> list[str]:
    """Return recommendations, then all policies by family, in the width of the terminal."""
    width = min(shutil.get_terminal_size((80, 24)).columns, MAX_WIDTH)
    families: dict[str, list[Kind | FeaturedKind]] = {family: [] for family in FAMILIES}
    for policy in known:
        families[find_family(policy.name)].append(policy)
    lines = ["Recommended", *(line for name, why in RECOMMENDED.items() for line in wrap_entry(name, why, width))]
    for family, members in families.items():
        lines += ["", family]
        lines += [line for policy in members for line in wrap_entry(policy.name, summarize(policy), width)]
    return [*lines, "", "Parameters of a policy: maskedbandits policies NAME"]


def find_family(name: str) -> str:
    """Return the family of a policy."""
    return next(family for family, starts in FAMILIES.items() if name.startswith(starts))


def summarize(policy: Kind | FeaturedKind) -> str:
    """Return the summary of a policy and its required parameters."""
    required = ", ".join(key for key, one in policy.parameters.items() if one.required)
    return policy.summary + (f"; requires {required}" if required else "")


def wrap_entry(name: str, text: str, width: int) -> list[str]:
    """Return a name and its text in lines, with the text in a column of its own."""
    spelled = safe_text.spell(text, getattr(sys.stdout, "encoding", None) or "utf-8")
    start, later = f"  {name:{NAME_WIDTH - 2}}", " " * NAME_WIDTH
    return textwrap.wrap(
        spelled, max(width, 2 * NAME_WIDTH), initial_indent=start, subsequent_indent=later, break_on_hyphens=False
    )


def explain(policy: Kind | FeaturedKind) -> list[str]:
    """Return the lines that explain a policy and each of its parameters."""
    lines = [f"{policy.name}: {policy.summary}"]
    lines.append(f"Learns from: {policy.learns_from}")
    if supports_groups(policy):
        lines.append("Private groups: supported, by make_contextual")
    if policy.reference:
        lines.append(f"Reference: {policy.reference}")
    for key, one in policy.parameters.items():
        default = "required" if one.required else f"default {format_default(one.default)}"
        lines += ["", f"  {key} ({default})", f"    {one.hint}", f"    allowed: {one.allowed}"]
        lines += [f"    on a log: {TIMES_ON_A_LOG[one.time]}"] if one.time else []
    if not policy.parameters:
        lines += ["", "  No parameters."]
    return lines


def format_default(value: Any) -> str:
    """Return a default as an experiment file would write it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def as_document(policy: Kind | FeaturedKind) -> dict[str, Any]:
    """Return a policy as plain values for JSON."""
    from maskedbandits.experiments.canonical_json import to_plain

    parameters = {
        key: {
            "required": one.required,
            **({} if one.required else {"default": to_plain(one.default)}),
            "allowed": one.allowed,
            "meaning": one.hint,
            **({"time": one.time} if one.time else {}),
        }
        for key, one in policy.parameters.items()
    }
    about = {"name": policy.name, "summary": policy.summary, "reference": policy.reference}
    groups = supports_groups(policy)
    return {**about, "learns_from": policy.learns_from, "for_groups": groups, "parameters": parameters}
