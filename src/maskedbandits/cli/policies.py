"""`maskedbandits policies`: the policies by name, or one of them with what each of its parameters means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.verb import Verb, as_json

if TYPE_CHECKING:
    from maskedbandits.policies import Kind


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits policies",
        "maskedbandits policies sw-klucb-cf",
        "maskedbandits policies auto --json",
    ],
)
@click.argument("name", required=False)
@as_json
def policies(name: str | None, json_wanted: bool) -> None:
    """List the policies, or explain each parameter of the one called NAME."""
    from maskedbandits.policies import kind_of, names

    known = [kind_of(one) for one in (names() if name is None else [name])]
    if json_wanted:
        documents = [as_document(policy) for policy in known]
        echo_json(documents if name is None else documents[0])
        return
    width = max(len(policy.name) for policy in known)
    for policy in known:
        for line in explained(policy) if name is not None else [listed(policy, width)]:
            echo(line)


def listed(policy: Kind, width: int) -> str:
    """Return a policy on one line."""
    parts = [key if one.required else f"{key}={one.default}" for key, one in policy.parameters.items()]
    return f"{policy.name:{width}}  {policy.summary}" + (f"  [{', '.join(parts)}]" if parts else "")


def explained(policy: Kind) -> list[str]:
    """Return the lines that explain a policy and each of its parameters."""
    lines = [f"{policy.name}: {policy.summary}"]
    lines.append(f"Learns from: {policy.learns_from}")
    if policy.reference:
        lines.append(f"Reference: {policy.reference}")
    for key, one in policy.parameters.items():
        default = "must be given" if one.required else f"default {default_text(one.default)}"
        lines += ["", f"  {key} ({default})", f"    {one.hint}", f"    allowed: {one.allowed}"]
    if not policy.parameters:
        lines += ["", "  It has no parameters."]
    return lines


def default_text(value: Any) -> str:
    """Return a default as an experiment file would write it; such a file leaves out what is none."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def as_document(policy: Kind) -> dict[str, Any]:
    """Return what a program needs to know of a policy."""
    from maskedbandits.experiments.canonical import plain

    parameters = {
        key: {
            "required": one.required,
            **({} if one.required else {"default": plain(one.default)}),
            "allowed": one.allowed,
            "meaning": one.hint,
        }
        for key, one in policy.parameters.items()
    }
    about = {"name": policy.name, "summary": policy.summary, "reference": policy.reference}
    return {**about, "learns_from": policy.learns_from, "parameters": parameters}
