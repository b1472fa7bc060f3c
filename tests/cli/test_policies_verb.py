"""`maskedbandits policies`: all names, and what each parameter of one means."""

from __future__ import annotations

import json

import pytest

from commands import call, refused
from maskedbandits import features
from maskedbandits.cli.policies import RECOMMENDED
from maskedbandits.policies import COMMON_NAMES, KINDS, names


def test_list_has_all() -> None:
    listed = call("policies").stdout
    document = json.loads(call("policies", "--json").stdout)
    assert [entry["name"] for entry in document] == names()
    for name in names():
        assert f"\n  {name} " in listed
    assert listed.count("\n  auto ") == 2  # recommended, and in its family


def test_list_recommends_first_and_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (80, 60):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = call("policies").stdout.splitlines()
        assert lines[0] == "Recommended"
        assert lines[1].startswith("  auto ")
        assert max(map(len, lines)) <= columns
    assert set(RECOMMENDED) <= {*names(), *features.NAMES}
    assert "sliding window x KL index; requires" in call("policies").stdout


def test_required_parameters_are_marked() -> None:
    document = {entry["name"]: entry for entry in json.loads(call("policies", "--json").stdout)}
    parameters = document["sw-klucb-cf"]["parameters"]
    assert parameters["window"]["required"]
    assert "default" not in parameters["window"]
    assert (parameters["c"]["required"], parameters["c"]["default"]) == (False, 3.0)


@pytest.mark.parametrize("name", names())
def test_every_parameter_is_explained(name: str) -> None:
    printed = call("policies", name).stdout
    policy = KINDS[name]
    assert printed.splitlines()[0] == f"{name}: {policy.summary}"
    for key, one in policy.parameters.items():
        assert one.allowed
        assert one.hint
        default = "required" if one.required else f"default {str(one.default).lower()}"
        assert f"  {key} ({default})\n    {one.hint}\n    allowed: {one.allowed}\n" in printed
    assert ("  No parameters." in printed) == (not policy.parameters)


def test_one_policy_is_one_document() -> None:
    document = json.loads(call("policies", "glr-klucb-cf", "--json").stdout)
    assert (document["name"], document["reference"][:13]) == ("glr-klucb-cf", "Besson et al.")
    assert document["parameters"]["horizon"] == {
        "required": False,
        "default": None,
        "allowed": "a whole number, 1 or more; leave out if unknown",
        "meaning": "number of steps",
        "time": "duration",
    }


def test_times_say_what_they_are_on_a_log() -> None:
    printed = call("policies", "sw-klucb-cf").stdout
    assert "    on a log: a number of rows; divided by the number of arms" in printed
    assert "    on a log: a row, at which it takes effect\n" in printed
    assert printed.count("on a log: ") == 2
    assert "on a log: per row; raised to the power of the number of arms" in call("policies", "d-ucb-cf").stdout


@pytest.mark.parametrize(("name", "paper"), [("klucb", "Cappé et al. 2013"), ("ldp-ucb-b", "Ren et al. 2020")])
def test_references_name_the_right_paper(name: str, paper: str) -> None:
    assert f"Reference: {paper}\n" in call("policies", name).stdout


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("sw-klucbcf", "no policy is called 'sw-klucbcf'; did you mean 'sw-klucb-cf'?"),
        ("thompson", "did you mean 'ts-cf'?"),
        ("Thompson sampling", "did you mean 'ts-cf'?"),
        ("ucb1", "did you mean 'ucb-cf'?"),
        ("d-ucb", "did you mean 'd-ucb-cf'?"),
        ("kl-ucb", "did you mean 'klucb-cf'?"),
        ("AUTO", "no policy is called 'AUTO'; did you mean 'auto'?"),
        ("", "no policy is called ''; known are auto, "),
        ("zzzzzz", "no policy is called 'zzzzzz'; known are auto, "),
    ],
)
def test_unknown_name_suggests_the_nearest(name: str, complaint: str) -> None:
    result = call("policies", name)
    refused(result, complaint)
    assert result.stderr.count("\n") == 1


def test_common_names_lead_to_policies() -> None:
    assert set(COMMON_NAMES.values()) <= set(names())
    assert not set(COMMON_NAMES) & set(names())


def test_featured_policy_is_explained() -> None:
    printed = call("policies", "d-linucb-cf").stdout
    assert printed.startswith("d-linucb-cf: discounted linear UCB")
    assert "  gamma (required)\n" in printed
    document = json.loads(call("policies", "logistic-ts-cf", "--json").stdout)
    assert (document["parameters"]["prior"]["default"], document["for_groups"]) == (1.0, False)


def test_support_for_groups_is_shown() -> None:
    assert "make_contextual" in call("policies", "auto").stdout
    document = {entry["name"]: entry["for_groups"] for entry in json.loads(call("policies", "--json").stdout)}
    assert (document["auto"], document["uniform"], document["dp-ucb"]) == (True, False, False)
