"""`badgeia-composite/2026-07`: single rules, the stated counter-examples, and the property families."""

from __future__ import annotations

import json
import random
import re
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import run, run_lists, runs_with

from orchestrator import canonical
from scoring.composite import POLICY, READINGS, REASON_TEXT, Composite, NoComposite, outcome_consistency
from scoring.composite import score_composite as score
from scoring.curves import COST_CURVE, LATENCY_CURVE
from scoring.errors import MalformedInputError, MethodologyMixError
from scoring.facts import Provenance
from scoring.numbers import DASH
from scoring.runs import Run, RunStatus


def raw_of(successes: int, completed: int, **changes: Any) -> Fraction | None:
    return score(runs_with(successes, completed - successes, **changes)).raw


def as_bytes(made: Composite) -> bytes:
    return canonical.encode(made.as_data())


# --- the formula -----------------------------------------------------------------------------------------


def oracle(runs: list[Run]) -> Fraction | None:
    """S0-2 .. S0-11 once more, straight from the document."""
    done = [one for one in runs if one.status is RunStatus.COMPLETED]
    if not done:
        return None
    wins = [one for one in done if one.success]
    if not wins:
        return Fraction(0)
    if any(one.latency_ms is None or one.cost_usd is None for one in done):
        return None
    p = Fraction(len(wins), len(done))
    steady = 1 - 4 * p * (1 - p) if len(done) >= 5 else Fraction(1)
    latency = sum((one.latency_ms or Fraction(0) for one in done), Fraction(0)) / len(done)
    cost = sum((one.cost_usd or Fraction(0) for one in done), Fraction(0)) / len(done)
    parts = 40 * p, 30 * steady * LATENCY_CURVE.points(latency) / 100, 30 * COST_CURVE.points(cost) / 100
    return sum(parts, Fraction(0))


@given(run_lists())
def test_the_formula(runs: list[Run]) -> None:
    """S0-2 .. S0-14: exactly the document's sum, and within 0..100."""
    made = score(runs)
    assert made.raw == oracle(runs)
    assert (made.raw is None) == (made.reason is not None)
    assert made.raw is None or 0 <= made.raw <= 100


@given(st.integers(1, 40), st.data())
def test_consistency_is_neutral_below_five_runs(completed: int, data: st.DataObject) -> None:
    """S0-5, S0-6: 1 - 4p(1-p) from five completed runs on; symmetric in successes and failures."""
    successes = data.draw(st.integers(0, completed))
    value = outcome_consistency(successes, completed)
    assert value == outcome_consistency(completed - successes, completed)
    assert 0 <= value <= 1
    if completed < 5:
        assert value == 1
    else:
        assert (value == 1) == (successes in (0, completed))
        assert (value == 0) == (2 * successes == completed)


@pytest.mark.parametrize(("successes", "completed"), [(0, 0), (-1, 5), (6, 5)])
def test_consistency_refuses_impossible_counts(successes: int, completed: int) -> None:
    """Family 10: passes above tries."""
    with pytest.raises(MalformedInputError) as caught:
        outcome_consistency(successes, completed)
    assert caught.value.code == "pass-count"


def test_figures_are_averaged_before_the_curve() -> None:
    """S0-8: 400 and 9,600 ms average to 5,000 ms, 50 points; the curve first would give 52."""
    made = score([run(1, latency_ms=Fraction(400)), run(2, latency_ms=Fraction(9600))])
    assert made.avg_latency_ms == 5000
    assert made.latency_score == Fraction(1, 2)


def test_only_completed_runs_are_in_the_cohort() -> None:
    """S0-2: failed, timed-out and open runs change nothing but the printed count, whatever they hold."""
    base = runs_with(3, 2)
    outside = [
        run(90 + place, status=status, success=won, latency_ms=None, cost_usd=Fraction(9))
        for place, (status, won) in enumerate([(RunStatus.FAILED, None), (RunStatus.TIMEOUT, False)])
    ]
    outside.append(run(99, status=RunStatus.OPEN, success=None))
    alone, beside = score(base), score([*base, *outside])
    assert beside.runs_outside == 3 and alone.runs_outside == 0
    assert replace(beside, runs_outside=0, inputs_digest=alone.inputs_digest) == alone


def test_no_time_window() -> None:
    """S0-2: a run of long ago counts like one of today."""
    old = [run(1, success=False, finished_unix_s=0), *[run(n, finished_unix_s=10**9) for n in range(2, 300)]]
    assert score(old).completed == 299
    assert score(old).successes == 298


def test_a_completed_run_without_verdict_is_no_success() -> None:
    """READING run-outcome: completed counts in the denominator."""
    assert score([run(1), run(2, success=None)]).success_rate == Fraction(1, 2)


@pytest.mark.parametrize("missing", ["latency_ms", "cost_usd"])
def test_one_missing_figure_leaves_no_composite(missing: str) -> None:
    """S0-14: no renormalisation and no partial mean; the reason is there, and the dash."""
    made = score([*runs_with(4, 1), run(50, **{missing: None})])
    assert (made.raw, made.shown, made.reason) == (None, None, NoComposite.MISSING_LATENCY_OR_COST)
    assert made.success_rate == Fraction(5, 6)
    assert any(DASH in line and "missing_latency_or_cost" in line for line in made.arithmetic)
    assert made.as_data()["composite"]["display"] == DASH


@given(run_lists(complete=True), st.data())
def test_hiding_a_figure_never_helps(runs: list[Run], data: st.DataObject) -> None:
    """S0-14: leaving the worst latency or cost out cannot raise the composite."""
    if runs:
        at = data.draw(st.integers(0, len(runs) - 1))
        gap: dict[str, Any] = {data.draw(st.sampled_from(["latency_ms", "cost_usd"])): None}
        hidden = [replace(one, **gap) if place == at else one for place, one in enumerate(runs)]
        before, after = score(runs).raw, score(hidden).raw
        assert after is None or after == before


def test_no_completed_run_is_no_score() -> None:
    """S0-14: an empty cohort gives a dash, not 0."""
    for runs in ([], [run(1, status=RunStatus.FAILED)]):
        made = score(runs)
        assert (made.raw, made.reason) == (None, NoComposite.NO_COMPLETED_RUNS)
        assert (made.success_rate, made.consistency, made.avg_cost_usd) == (None, None, None)
        assert not made.zero_success_floor


@pytest.mark.parametrize("missing", ["latency_ms", "cost_usd", "task_id"])
def test_zero_success_floor(missing: str) -> None:
    """S0-11, S0-13: no success is 0 under the named policy, however fast and cheap, also with a gap."""
    gap = {} if missing == "task_id" else {missing: None}
    made = score(runs_with(0, 3, **gap))
    assert made.raw == 0 and made.reason is None and made.zero_success_floor
    assert made.shown == "0.00"
    assert made.policy == POLICY == "2026-07-zero-success-v1"
    assert any(POLICY in line for line in made.arithmetic)


def test_rounding_is_half_away_from_zero_once() -> None:
    """S0-12, G-2: 54.375 is shown as 54.38 (half even on the binary float would be luck)."""
    made = score(runs_with(6, 2, latency_ms=Fraction(3500), cost_usd=Fraction("0.03")))
    assert (made.raw, made.shown) == (Fraction(435, 8), "54.38")


# --- family 4: what must not be asserted, kept as regression tests ---------------------------------------


@pytest.mark.parametrize(
    ("fewer", "shown_fewer", "more", "shown_more"),
    [
        ((1, 20), "56.30", (7, 20), "46.70"),
        ((2, 4), "80.00", (3, 5), "55.20"),
        ((1, 1000), "59.92", (400, 1000), "47.20"),
    ],
)
def test_not_monotone_in_success(
    fewer: tuple[int, int], shown_fewer: str, more: tuple[int, int], shown_more: str
) -> None:
    """Section 2.2: the exact formula lets rare success stand above frequent success; the warning says so."""
    low, high = raw_of(*fewer), raw_of(*more)
    assert low is not None and high is not None and low > high
    assert score(runs_with(fewer[0], fewer[1] - fewer[0])).shown == shown_fewer
    assert score(runs_with(more[0], more[1] - more[0])).shown == shown_more
    assert any(line.startswith("warning: not monotone") for line in score(runs_with(*fewer)).arithmetic)


def test_the_cliff_of_the_floor() -> None:
    """Section 2.2: 0 of 1000 is 0, 1 of 1000 fast and cheap is 59.92."""
    assert raw_of(0, 1000) == 0
    assert score(runs_with(1, 999)).shown == "59.92"


# --- families 1, 9, 10, 15 -------------------------------------------------------------------------------


@given(run_lists(), st.randoms(use_true_random=False))
def test_order_changes_nothing(runs: list[Run], shuffler: random.Random) -> None:
    """Families 1, 15: any order gives an equal result, equal bytes and an equal digest."""
    mixed = list(runs)
    shuffler.shuffle(mixed)
    assert score(mixed) == score(runs)
    assert as_bytes(score(mixed)) == as_bytes(score(runs))


@given(run_lists(), st.randoms(use_true_random=False))
def test_names_change_no_figure(runs: list[Run], shuffler: random.Random) -> None:
    """Families 1, 12: renaming agent, runs and tasks leaves every figure equal."""
    numbers = list(range(len(runs)))
    shuffler.shuffle(numbers)
    named = [
        replace(one, run_id=f"new-{number}", agent_id="other", task_id=f"x-{one.task_id}")
        for number, one in zip(numbers, runs, strict=True)
    ]
    before, after = score(runs), score(named)
    for item in fields(Composite):
        if item.name not in ("agent_id", "inputs_digest"):
            assert getattr(before, item.name) == getattr(after, item.name)


@given(run_lists(max_size=6), st.data())
def test_the_digest_follows_every_input(runs: list[Run], data: st.DataObject) -> None:
    """Family 15: another run, or one changed figure, is another digest."""
    assert score([*runs, run(777)]).inputs_digest != score(runs).inputs_digest
    if runs:
        at = data.draw(st.integers(0, len(runs) - 1))
        slower = replace(runs[at], latency_ms=(runs[at].latency_ms or Fraction(0)) + 1)
        assert score([*runs[:at], slower, *runs[at + 1 :]]).inputs_digest != score(runs).inputs_digest


def refused(runs: list[Any]) -> str:
    with pytest.raises((MalformedInputError, MethodologyMixError)) as caught:
        score(runs)
    return caught.value.code


def test_what_no_cohort_can_hold() -> None:
    """Families 9, 10: doubles, other agents, other labels and other things are refused, never coerced."""
    assert refused([run(1), run(1)]) == "duplicate-run"
    assert refused([run(1), run(2, agent_id="agent-2")]) == "foreign-agent"
    mixed = [run(1, provenance=Provenance.INDEPENDENT), run(2, provenance=Provenance.PUBLISHER)]
    assert refused(mixed) == "provenance-mix"
    assert refused([run(1), "run"]) == "not-a-run"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"latency_ms": Fraction(-1)}, "range"),
        ({"cost_usd": Fraction(-1, 10**9)}, "range"),
        ({"steps": -1}, "range"),
        ({"finished_unix_s": -1}, "range"),
        ({"latency_ms": 500}, "number"),
        ({"latency_ms": 500.0}, "number"),
        ({"cost_usd": float("nan")}, "number"),
        ({"cost_usd": True}, "number"),
        ({"steps": True}, "number"),
        ({"steps": Fraction(3)}, "number"),
        ({"success": 1}, "run"),
        ({"success": "pass"}, "run"),
        ({"status": "completed"}, "run"),
    ],
)
def test_a_run_that_cannot_be(changes: dict[str, Any], code: str) -> None:
    """Family 10: NaN, negatives, floats, booleans as numbers, and words of another vocabulary."""
    with pytest.raises(MalformedInputError) as caught:
        run(1, **changes)
    assert caught.value.code == code


# --- what a result carries -------------------------------------------------------------------------------

TOTAL = re.compile(
    r"composite = 100 x \((\S+) x (\S+) \+ (\S+) x (\S+) x (\S+) \+ (\S+) x (\S+)\) = (\S+), shown"
)


@given(run_lists(complete=True))
def test_the_sum_can_be_redone_from_the_text(runs: list[Run]) -> None:
    """UI-3, UI-20: the weights, inputs and total stand in one line and agree."""
    made = score(runs)
    (line,) = [line for line in made.arithmetic if line.startswith("composite")]
    found = TOTAL.match(line)
    if made.raw is None or made.zero_success_floor:
        assert found is None
    else:
        assert found, line
        a, p, b, steady, latency, c, cost, total = map(Fraction, found.groups())
        assert 100 * (a * p + b * steady * latency + c * cost) == total == made.raw
        assert (a, b, c) == (Fraction(2, 5), Fraction(3, 10), Fraction(3, 10))
        assert made.execution == steady * latency


@given(run_lists())
def test_data_is_canonical_and_complete(runs: list[Run]) -> None:
    """G-4, S0-13: plain data without floats, with id, policy, readings, arithmetic and digest."""
    made = score(runs)
    data = made.as_data()
    assert json.loads(json.dumps(data)) == data == canonical.decode_strict(as_bytes(made))
    assert (data["methodology"], data["policy"]) == ("badgeia-composite/2026-07", POLICY)
    assert [reading["code"] for reading in data["readings"]] == [one.code for one in READINGS]
    assert len({one.code for one in READINGS}) == len(READINGS)
    assert re.fullmatch("[0-9a-f]{64}", data["inputs_digest"])


def test_every_reason_has_a_sentence() -> None:
    """G-5: no reason code without words."""
    assert set(REASON_TEXT) == set(NoComposite)
