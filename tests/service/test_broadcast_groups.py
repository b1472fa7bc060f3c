"""Experiments with groups are refreshed, streamed and listed as all others are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from registries import config, until
from streaming import reading
from test_broadcast import open_app
from web import Client

from maskedbandits.service.app import App
from maskedbandits.service.dashboard import broadcast
from maskedbandits.service.dashboard.view import build_groups, describe_group_leader
from maskedbandits.service.registry import ExperimentRegistry

pytest_plugins = ["service_fixtures"]
pytestmark = pytest.mark.usefixtures("quick_broadcasts")

KINDS = "/v1/experiments/kinds"
GROUPS = ["young", "old", "<script>"]
LIKED = ["arm 0", "arm 1", "arm 1"]


async def ask(app: App, path: str, body: Any, method: str = "POST") -> Any:
    reply = await Client(app).ask(method, path, body)
    assert reply.status in (200, 201), reply
    return reply.json


async def send_answers(app: App, registry: ExperimentRegistry, visitors: int) -> None:
    """Create an experiment whose answers are one of many, and let visitors of all groups answer, unmasked."""
    await registry.create(config("kinds", arms=2, groups=GROUPS, epsilon=10.0))
    for visitor in range(visitors):
        question = await ask(app, f"{KINDS}/decisions", {})
        group = visitor % len(GROUPS)
        answer = 2 * group + int(question["arms"][group] == LIKED[group])
        assert (await ask(app, f"{KINDS}/reports", {"token": question["token"], "answer": answer}))["status"] == (
            "accepted"
        )


def test_group_stream_has_estimates_by_group(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_app(tmp_path) as (app, registry):
            await send_answers(app, registry, 90)
            async with reading(app, f"{KINDS}/live") as reader:
                history = await reader.event("history")
                assert (history["arms"], len(history["at"])) == ([], len(history["reports"]))
                while (state := await reader.event("state"))["sums"]["reports"] < 90 or state["sums"]["pending"]:
                    pass
                live = registry.get("kinds")
                assert live is not None
                view = await registry.view(live)
                assert [group["name"] for group in state["groups"]] == GROUPS
                assert [group["share"] for group in state["groups"]] == view["shares"]
                for place, group in enumerate(state["groups"]):
                    assert [arm["estimate"] for arm in group["arms"]] == view["estimates"][place]
                    assert [[arm["low"], arm["high"]] for arm in group["arms"]] == view["intervals"][place]
                    assert [arm["probability"] for arm in group["arms"]] == view["probabilities"][place]
                    assert group["best"]["name"] == LIKED[place]
                assert "one of 6 answers, masked, that hides group, arm and reward together" in state["meaning"]
                assert state["lead"] == describe_group_leader(build_groups(view, [0, 1]), 90)
                assert (state["point"]["arms"], state["point"]["reports"]) == ([], [90])
                assert state["concerns"] == []

    asyncio.run(use())


def test_grouped_experiment_is_refreshed_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broadcast, "IDLE_INTERVAL_S", 0.0)

    async def use() -> None:
        async with open_app(tmp_path) as (app, registry):
            await send_answers(app, registry, 5)
            seen = app.broadcaster.feeds
            await until(lambda: len(seen) == 2)
            await until(lambda: all(each.number > 2 for each in seen.values()))
            async with reading(app, "/v1/live") as reader:
                while (state := (await reader.event("experiments"))["experiments"])[1]["reports"] < 5:
                    pass
            assert [(one["name"], one["arms"], one["alarms"]) for one in state] == [("headline", 3, 0), ("kinds", 2, 0)]
        assert "could not be viewed" not in capsys.readouterr().err

    asyncio.run(use())


def test_group_stream_follows_changes_of_arms(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_app(tmp_path) as (app, registry):
            await registry.create(config("kinds", arms=2, groups=GROUPS))  # at epsilon = 1 answers are bits
            async with reading(app, f"{KINDS}/live") as reader:
                state = await reader.event("state")
                assert state["lead"] == "No reports received yet."
                assert "a masked bit that hides group, arm and reward together: it is true 73.1 %" in state["meaning"]
                assert "treats all groups as one with a probability of 12 %" in state["note"]  # exp(-2) to 1
                await ask(app, f"{KINDS}/arms", {"name": "third"})
                await ask(app, f"{KINDS}/arms/arm%201/retire", b"")
                while [arm["name"] for arm in state["arms"]] != ["arm 0", "third"]:
                    state = await reader.event("state")
                assert [[arm["name"] for arm in group["arms"]] for group in state["groups"]] == [["arm 0", "third"]] * 3
                assert (state["open"], state["retired"]) == (2, 1)
                await ask(app, KINDS, {"status": "paused"}, "PATCH")
                while state["status"] != "paused":
                    state = await reader.event("state")

    asyncio.run(use())
