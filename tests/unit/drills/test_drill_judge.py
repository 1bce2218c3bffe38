"""The judge of a drill says no to everything that is not as it must."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.drills.drill import Report
from orchestrator.drills.judge import SeenAttempt, SeenTry, judge
from orchestrator.drills.rows import Row
from orchestrator.drills.table import ROWS
from scoring.vocabulary import OUTCOME_OF, Outcome, Reason

BY_NAME = {row.name: row for row in ROWS}
KILLED, FOR_GOOD, LATE = (
    BY_NAME[name] for name in ("sandbox-killed", "image-missing-for-good", "work-too-late")
)


def ended(row: Row, reason: Reason) -> SeenAttempt:
    outcome = OUTCOME_OF[reason]
    observed: dict[str, Any] = {**dict.fromkeys(row.evidence, 1), **dict.fromkeys(row.seen, 1)}
    payer = "agent" if outcome in (Outcome.PASSED, Outcome.FAILED) else "platform"
    suspect = row.suspect and reason is row.reason
    return SeenAttempt(
        outcome, reason, suspect, observed, observed, (outcome.value, reason.value), frozenset({payer})
    )


def as_it_must(row: Row) -> SeenTry:
    reasons = [row.reason] * (row.attempts - 1) + [row.last_reason]
    attempts = [ended(row, reason) for reason in reasons]
    state = "uncountable" if row.uncountable else "recorded"
    return SeenTry(attempts, state, attempts[-1].outcome.value)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_the_row_promises_is_accepted(row: Row) -> None:
    """The judge can say yes."""
    landed = row.blows * row.tries if row.blow else None
    assert judge(row, [as_it_must(row)] * row.tries, landed).holds


def with_first(row: Row, **changes: Any) -> SeenTry:
    seen = as_it_must(row)
    return replace(seen, attempts=[replace(seen.attempts[0], **changes), *seen.attempts[1:]])


@pytest.mark.parametrize(
    ("row", "seen", "problem"),
    [
        (
            KILLED,
            replace(as_it_must(KILLED), attempts=[ended(KILLED, Reason.CRASH)]),
            "ended crash; expected",
        ),
        (KILLED, with_first(KILLED, reason=Reason.ENGINE_ERROR), "ended engine_error"),
        (KILLED, with_first(KILLED, named={}), "does not name agent_death"),
        (KILLED, with_first(KILLED, named={"agent_death": None}), "agent_death was not observed"),
        (KILLED, with_first(KILLED, suspect=True), "is suspect"),
        (KILLED, with_first(KILLED, certified=None), "certified as None"),
        (KILLED, with_first(KILLED, certified=("failed", "crash")), "certified as"),
        (KILLED, with_first(KILLED, payers=frozenset({"agent"})), "paid by the agent"),
        (KILLED, replace(as_it_must(KILLED), scored="platform_fault"), "handed to the scorer as"),
        (KILLED, replace(as_it_must(KILLED), scored=None), "handed to the scorer as None"),
        (KILLED, replace(as_it_must(KILLED), state="cancelled"), "the try is cancelled"),
        (FOR_GOOD, replace(as_it_must(FOR_GOOD), state="recorded"), "the try is recorded"),
        (LATE, with_first(LATE, payers=frozenset({"platform"})), "paid by the platform"),
        (
            LATE,
            replace(as_it_must(LATE), attempts=[ended(LATE, Reason.TIMEOUT)] * 2),
            "ended timeout, timeout; expected timeout",
        ),
        (KILLED, SeenTry([], "running", None), "ended never"),
    ],
)
def test_everything_else_is_a_problem(row: Row, seen: SeenTry, problem: str) -> None:
    """One departure each: class, evidence, doubt, certificate, payer, score, state, a re-run for free."""
    found = judge(row, [seen], 1 if row.blow == "kill-agent" else 3 if row.blow else None)
    assert not found.holds
    assert any(problem in one for one in found.problems), found.problems


def test_a_blow_that_did_not_hit_shows_nothing() -> None:
    """An attempt that ended rightly for another reason than the blow is no proof."""
    found = judge(KILLED, [as_it_must(KILLED)], 0)
    assert found.problems == ("0 of 1 blows hit",)


def test_the_sums_count_what_must_never_happen() -> None:
    """Issue 6: platform faults scored, and failures of agents that were run again."""
    fine = Report((judge(KILLED, [as_it_must(KILLED)], 1),), ())
    assert (fine.faults_scored, fine.failures_rerun, fine.differs) == (0, 0, False)
    scored = replace(as_it_must(FOR_GOOD), scored="failed")
    rerun = replace(as_it_must(LATE), attempts=[ended(LATE, Reason.TIMEOUT)] * 2)
    bad = Report((judge(FOR_GOOD, [scored], 3), judge(LATE, [rerun], None)), ())
    assert (bad.faults_scored, bad.failures_rerun, bad.differs) == (1, 1, True)
    assert Report((), ("container left",)).differs
