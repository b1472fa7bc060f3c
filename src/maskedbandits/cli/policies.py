"""`maskedbandits policies`: the policies by name, or one of them with what each of its parameters means."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.verb import Verb, as_json
from maskedbandits.errors import UserError


class Parameter(NamedTuple):
    """What there is to know of a parameter; its default is ``...`` where it must be given."""

    default: Any
    allowed: str
    hint: str

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is ...


class Described(NamedTuple):
    """What there is to know of a policy."""

    name: str
    summary: str
    reference: str
    parameters: Mapping[str, Parameter]


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
    known = [described(one) for one in known_names()] if name is None else [described(name)]
    if json_wanted:
        documents = [as_document(policy) for policy in known]
        echo_json(documents if name is None else documents[0])
        return
    width = max(len(policy.name) for policy in known)
    for policy in known:
        for line in explained(policy) if name is not None else [listed(policy, width)]:
            echo(line)


def listed(policy: Described, width: int) -> str:
    """Return a policy on one line."""
    parts = [key if one.required else f"{key}={one.default}" for key, one in policy.parameters.items()]
    return f"{policy.name:{width}}  {policy.summary}" + (f"  [{', '.join(parts)}]" if parts else "")


def explained(policy: Described) -> list[str]:
    """Return the lines that explain a policy and each of its parameters."""
    lines = [f"{policy.name}: {policy.summary}"]
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


def as_document(policy: Described) -> dict[str, Any]:
    """Return what a program needs to know of a policy."""
    from maskedbandits.experiments.results import plain

    parameters = {
        key: {
            "required": one.required,
            **({} if one.required else {"default": plain(one.default)}),
            "allowed": one.allowed,
            "meaning": one.hint,
        }
        for key, one in policy.parameters.items()
    }
    return {**policy._asdict(), "parameters": parameters}


# The adapter: everything above knows policies by what these two functions say.


def known_names() -> list[str]:
    """Return all names."""
    from maskedbandits.recipes import names

    return names()


def described(name: str) -> Described:
    """Return what there is to know of a policy; a name that nobody has is refused, with the nearest one."""
    from maskedbandits.recipes import REGISTRY

    if name not in REGISTRY:
        close = difflib.get_close_matches(name.lower(), REGISTRY, n=1)
        hint = f"did you mean {close[0]}?" if close else "`maskedbandits policies` lists all names"
        raise UserError(f"no policy is called {name!r}: {hint}")
    recipe = REGISTRY[name]
    parameters = {key: Parameter(default, *explanation(key, default)) for key, default in recipe.parameters.items()}
    return Described(name, recipe.summary, recipe.reference, parameters)


def explanation(key: str, default: Any) -> tuple[str, str]:
    """Return what a parameter may be and what it means."""
    allowed, hint = _EXPLAINED[key]
    return f"{allowed}, or none" if default is None else allowed, hint


_COUNT = "a whole number, 1 or more"
_SIZE = "a number, 0 or more"
_EXPLAINED = {
    "window": (
        "a whole number, at least the number of arms, or inf",
        "how many of the last steps it remembers; a file may name a rule instead, such as corrected",
    ),
    "gamma": ("a number above 0 and below 1", "the weight that a step leaves to what came before, such as 0.999"),
    "c": (_SIZE, "how much exploration log log t adds to log t: 3 in the proofs, 0 in published experiments"),
    "xi": (_SIZE, "the width of confidence intervals, sqrt(xi f(t) / N) with N observations"),
    "horizon": (_COUNT, "how many steps will be played"),
    "restarts": (
        "increasing times from 0, such as [0, 5000], or doubling",
        "when to forget everything: at given times, or on a schedule that doubles",
    ),
    "best": ("one arm for each of the restarts, such as [0, 2]", "the best arm of every segment"),
    "changes": (_COUNT, "how many segments to be ready for; a world that never changes has 1"),
    "variation": (_SIZE, "by how much the means move in all, such as problem.variation"),
    "epsilon": ("a number above 0, or inf for no noise", "the privacy loss of a reward, such as 1.0"),
    "strictness": (_SIZE, "how much evidence it takes to evict an arm: 16 in the proof, 2 plays better"),
    "finest": (
        "a number, 2 or more",
        "an evicted arm is checked for changes down to its gap divided by this: 16 in the proof",
    ),
    "contamination": ("a number from 0 to below 1", "the share of reports that may be lies"),
    "delta": (
        "a number from 1e-300 to 1",
        "how readily it raises an alarm: less means fewer false ones, and later true ones",
    ),
    "exploration": (_SIZE, "how often an arm that is not pulled is looked at all the same; 0 is never"),
    "follow_up": (_SIZE, "the evidence from which a look at an idle arm is followed by another at once; 0 is never"),
    "prior_changes": (_SIZE, "how many changes to assume before the first alarm: more means more looks"),
    "local": ("true or false", "whether an alarm makes it forget one arm alone, in place of all"),
    "drift": ("a number from 0 to 1", "how far a mean may move without counting as changed"),
    "threshold": (_SIZE, "the evidence of a change that raises the alarm"),
    "samples": (_COUNT, "how many observations make the mean that later ones are held against"),
    "width": (_COUNT, "how many observations the two windows hold together"),
}
