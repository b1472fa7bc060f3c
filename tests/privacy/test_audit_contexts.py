"""Contexts from earlier inputs match naive ones, and find reports that are raw after certain inputs."""

from __future__ import annotations

import numpy as np
import pytest
from audits import audited, judge_mutant
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import cli
from maskedbandits.privacy.audit import contexts, noise, statistics, text
from maskedbandits.privacy.audit.contexts import RunLines
from naive import audit_noise as naive

runs_of_lines = st.integers(12, 60).flatmap(
    lambda size: st.tuples(*[st.lists(st.integers(0, 1), min_size=size, max_size=size)] * 2)
)

# Programs that leak. Half of the lines are raw, the others are flipped with probability 0.54. In the runs that choose,
# a context has 500 lines of each input or more, where 134 flips are expected with a deviation of 10, and none or 269
# are seen: no other of 20,000 contexts comes close. In the runs that test, no flip in so many lines bounds epsilon by 2
# or more. So a miss is less likely than one in a million.


@pytest.mark.parametrize(
    ("name", "trials", "where"),
    [
        ("second0", 2000, "after input 0 2 back"),
        pytest.param("third0", 2000, "after input 0 3 back", marks=pytest.mark.slow),
        ("same2", 2000, "2 back"),
        pytest.param("same_last_two", 2000, "after inputs 1, 2 back with an even sum", marks=pytest.mark.slow),
        pytest.param("parity6", 2000, "after inputs 1, 2, 3, 4, 5, 6 back with an even sum", marks=pytest.mark.slow),
        ("parity8_of_every_second", 2000, "after inputs 2, 4, 6, 8 back with an even sum"),
        ("parity_of_100", 4000, "after the last 100 inputs with an even sum"),
        ("parity_of_all", 2000, "after all earlier inputs with an even sum"),
        ("three_hundred_back", 6000, "after input 1 300 back"),
        ("xor_of_11_and_29", 6000, "after input "),
    ],
)
def test_raw_reports_after_certain_inputs_are_refuted(name: str, trials: int, where: str) -> None:
    found = judge_mutant(name, trials)
    assert found.outcome == "refuted", text.format_verdict(found)
    assert found.noise is not None
    assert any(where in context.name for context in found.noise.uneven)
    assert max(event.epsilon for event in found.events) < 1.2 < found.epsilon  # all reports together are as stated


def test_distant_pairs_are_listed_as_undetectable() -> None:
    found = judge_mutant("xor_of_11_and_33", 6000)
    assert found.outcome == "not refuted"
    unseen = "noise that depends on two inputs of which one is further back than 32 lines"
    assert unseen in "\n".join(text.format_findings(found))
    assert unseen in text.as_json(found)["cannot_be_seen"]


def test_history_leak_is_refuted_by_cli() -> None:
    result, found = audited("second0", 1, 2000)
    assert (result.exit_code, found["outcome"]) == (cli.FAILED, "refuted")
    assert found["epsilon_at_least"] > 2


# Against the obvious


@given(runs_of_lines, st.sets(st.integers(1, 8), min_size=1), st.integers(0, 255), st.booleans())
def test_history_context_members_match_naive_ones(
    run: tuple[list[int], list[int]], lags: set[int], code: int, flip: bool
) -> None:
    bits, flips = run
    run_lines = RunLines(np.array(bits, dtype=np.uint8), np.array(flips, dtype=np.uint8))
    values = {lag: code >> lag & 1 for lag in lags}
    features = tuple(contexts.Feature(lag, flip and lag % 2 == 0) for lag in lags)
    fixed = {one: values[one.lag] for one in features}
    for context, obvious in [
        (
            contexts.build_after_features(fixed),
            naive.given(bits, flips, [(*one, value) for one, value in fixed.items()]),
        ),
        (contexts.build_parity(features, code & 1), naive.parity(bits, flips, features, code & 1)),
        (contexts.build_window_parity(len(lags), code & 1), naive.window(bits, len(lags), code & 1)),
        (contexts.build_window_parity(None, code & 1), naive.window(bits, None, code & 1)),
        (contexts.build_count(len(lags), 1, few=flip, of_flips=False), naive.flipped(bits, len(lags), 1, few=flip)),
    ]:
        assert context.members(run_lines).tolist() == obvious, context.name
        assert context.depends == ("flip" in context.name)


def test_history_candidate_counts_match_naive_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "BLOCK_LINES", 100)
    monkeypatch.setattr(contexts, "CONTEXTS_PER_KIND", 40)
    rng = np.random.default_rng(1)
    runs = [RunLines(*(rng.random((2, size)) < 0.4).astype(np.uint8)) for size in (2001, 2000, 1999)]
    rates = contexts.compute_flip_rates(runs)
    kinds = [
        *(
            contexts.search_cubes(runs, rates, features)
            for features in (contexts.LAST_INPUT_FEATURES, contexts.LAST_LINE_FEATURES)
        ),
        *(
            contexts.search_parities(runs, rates, features)
            for features in (contexts.LAST_INPUT_FEATURES, contexts.LAST_LINE_FEATURES)
        ),
        contexts.search_pairs(runs, rates),
        contexts.search_input_distances(runs, rates),
        contexts.search_windows(runs, rates),
        contexts.search_counts(runs, of_flips=False),
    ]
    found = [one for kind in kinds for one in kind]
    assert len({one.context.name for one in found}) > 200
    for one in found:
        seen = contexts.count_members(runs, one.context.members)
        assert (one.lines.tolist(), one.flips.tolist()) == (seen[0].tolist(), seen[1].tolist()), one.context.name


def test_short_run_has_no_distant_contexts() -> None:
    runs = [RunLines(np.array([0, 1] * 12, dtype=np.uint8), np.array([0, 1, 1] * 8, dtype=np.uint8))] * 8
    assert len(noise.choose_contexts(runs)) <= statistics.CONTEXT_KINDS * statistics.CONTEXTS_PER_KIND
