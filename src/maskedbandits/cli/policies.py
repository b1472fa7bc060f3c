"""`maskedbandits policies`: the policies by name, or one of them with its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.verb import Verb, json_option

if TYPE_CHECKING:
    from maskedbandits._numba.state import Param
    from maskedbandits.policies import Kind

TIMES_ON_A_LOG = {  # by kind of time; see docs/data.md
    "position": "a row, at which it takes effect",
    "duration": "a number of rows; divided by the number of arms, as about so many rows go by for each that is played",
    "decay": "for a row; to the power of the number of arms, as about so many rows go by for each that is played",
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
    """List the policies, or explain each parameter of the one called NAME.

    NAME may be a policy over features, or a compiled policy of your own: module:name.
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
    width = max(len(policy.name) for policy in known)
    for policy in known:
        for line in explain(policy) if name is not None else [format_line(policy, width)]:
            echo(line)


def resolve_own(name: str) -> None:
    """Import the module of a compiled policy from outside, so that its name is known."""
    from maskedbandits.errors import UserError
    from maskedbandits.experiments.named_policy import find_policy

    if find_policy(name, Path.cwd()) is None:
        raise UserError(f"{name} is a function in plain Python: its own signature explains its parameters")


@dataclass(frozen=True)
class FeaturedKind:
    """The description of a policy over features, with the attributes of a ``Kind``."""

    name: str
    summary: str
    parameters: Mapping[str, Param]
    learns_from: str = "masked feedback, and features that everybody may see: make_featured"
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


def format_line(policy: Kind | FeaturedKind, width: int) -> str:
    """Return a policy on one line."""
    parts = [key if one.required else f"{key}={one.default}" for key, one in policy.parameters.items()]
    return f"{policy.name:{width}}  {policy.summary}" + (f"  [{', '.join(parts)}]" if parts else "")


def explain(policy: Kind | FeaturedKind) -> list[str]:
    """Return the lines that explain a policy and each of its parameters."""
    lines = [f"{policy.name}: {policy.summary}"]
    lines.append(f"Learns from: {policy.learns_from}")
    if supports_groups(policy):
        lines.append("Groups of people: may choose for each of them, by make_contextual")
    if policy.reference:
        lines.append(f"Reference: {policy.reference}")
    for key, one in policy.parameters.items():
        default = "must be given" if one.required else f"default {format_default(one.default)}"
        lines += ["", f"  {key} ({default})", f"    {one.hint}", f"    allowed: {one.allowed}"]
        lines += [f"    on a log: {TIMES_ON_A_LOG[one.time]}"] if one.time else []
    if not policy.parameters:
        lines += ["", "  It has no parameters."]
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
