"""From verified tries to runs: which tries are runs, with which status and outcome, and pack isolation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from scoring_builders import (
    FAIL,
    LOST_CERTIFICATE,
    PASS,
    VIEWS,
    Screening,
    Spec,
    attest,
    own_suite,
    plan_of,
    run_lists,
    screening,
    screenings,
)

from orchestrator import canonical
from scoring.classify import View
from scoring.composite import score_composite
from scoring.errors import MalformedInputError
from scoring.facts import Population, Provenance
from scoring.radar import score_radar
from scoring.repeatability import outcomes_of, score_repeatability
from scoring.runs import Run, RunStatus, runs_of
from scoring.tries import CertificateState, SandboxLevel
from scoring.vocabulary import Outcome, Reason

PLAN = plan_of({"t1": 3}, population=Population.OWN_SUITE)


def runs(made: Screening, view: View = View.PUBLIC) -> tuple[Run, ...]:
    return runs_of(made.plan, made.tries(), view)


def one_run(spec: Spec, view: View = View.PUBLIC, **changes: Any) -> Run | None:
    found = runs_of(PLAN, [attest(PLAN, ("t1", 1), spec, **changes)], view)
    return found[0] if found else None


COMPLETED = {Reason.ALL_CHECKS_PASSED, Reason.WRONG_OUTPUT, Reason.NO_VERDICT, Reason.TAMPERING}
TIMED_OUT = {Reason.TIMEOUT, Reason.DEADLINE_OVERRUN}


@pytest.mark.parametrize("reason", Reason)
def test_status_and_outcome_of_every_reason(reason: Reason) -> None:
    """READINGs run-status and run-outcome over the whole vocabulary: nothing falls between the words."""
    made = one_run(Spec(reason))
    if reason is Reason.NEVER_RECORDED:
        assert made is None
        return
    assert made is not None
    outcome = attest(PLAN, ("t1", 1), Spec(reason)).outcome
    want = RunStatus.FAILED
    if reason in COMPLETED:
        want = RunStatus.COMPLETED
    elif reason in TIMED_OUT:
        want = RunStatus.TIMEOUT
    assert made.status is want
    known = {Outcome.PASSED: True, Outcome.FAILED: False}.get(outcome)
    assert made.success is (None if reason is Reason.NO_VERDICT else known)
    assert made.terminal


def test_a_platform_fault_never_enters_the_composite_or_a_pass_rate() -> None:
    """S0-2, section 2.3: outside the cohort; it enters the radar's window with an unknown outcome."""
    made = own_suite(screening("PPX"))
    composite, radar = score_composite(runs(made)), score_radar(runs(made))
    assert (composite.completed, composite.successes, composite.runs_outside) == (2, 2, 1)
    assert (radar.window_runs, radar.axes[0].evidence) == (3, 2)
    assert radar.axes[0].value == 100


@pytest.mark.parametrize(
    ("spec", "view"),
    [
        (replace(PASS, public=False), View.PUBLIC),
        (replace(FAIL, public=False), View.PUBLIC),
        (replace(PASS, level=SandboxLevel.UNVERIFIED), View.OWNER),
        (replace(FAIL, level=SandboxLevel.SIMULATED), View.OWNER),
        (LOST_CERTIFICATE, View.PUBLIC),
        (replace(PASS, certificate=CertificateState.INVALID), View.OWNER),
        (Spec(Reason.NEVER_RECORDED), View.OWNER),
    ],
)
def test_what_is_no_run(spec: Spec, view: View) -> None:
    """READING one-classifier: hidden, unverified, without its certificate, never recorded."""
    assert one_run(spec, view) is None


def test_an_owner_sees_private_runs() -> None:
    """S3-10, S3-11 by the one classifier: a private pass without a certificate is a run for its owner."""
    private = replace(LOST_CERTIFICATE, public=False)
    made = one_run(private, View.OWNER)
    assert made is not None and made.success is True
    assert one_run(private) is None


def test_figures_are_taken_exactly() -> None:
    """Latency is wall time in ms, cost the whole known cost in USD, unknown stays None."""
    facts: dict[str, Any] = {
        "wall_ms": 1234,
        "cost_nusd": 12_300_000,
        "paid_tool_calls_nusd": 700_000,
        "metered": True,
        "steps": 4,
        "finished_unix_s": 77,
        "provenance": Provenance.INDEPENDENT,
    }
    made = one_run(PASS, **facts)
    assert made is not None
    assert (made.latency_ms, made.cost_usd) == (Fraction(1234), Fraction("0.013"))
    assert (made.steps, made.finished_unix_s, made.provenance) == (4, 77, Provenance.INDEPENDENT)
    unknown = one_run(PASS, cost_nusd=None, metered=None)
    assert unknown is not None
    assert (unknown.cost_usd, unknown.steps, unknown.finished_unix_s) == (None, None, None)
    tools_unknown = one_run(PASS, paid_tool_calls_nusd=None)
    assert tools_unknown is not None and tools_unknown.cost_usd is None


@pytest.mark.parametrize("population", [None, Population.BENCHMARK_PACK])
@given(made=screenings(), recorded=run_lists(), view=VIEWS)
def test_pack_runs_change_no_byte(
    population: Population | None, made: Screening, recorded: list[Run], view: View
) -> None:
    """Family 9, S3-5: composite, radar and repeatability are byte-identical with and without pack runs, also
    of packs of which the population is not said."""
    packed = Screening(replace(made.plan, population=population), made.slots)
    with_pack = [*recorded, *runs(packed, view)]
    for score in (score_composite, score_radar, lambda all_: score_repeatability(outcomes_of(all_))):
        assert canonical.encode(score(with_pack).as_data()) == canonical.encode(score(recorded).as_data())


@given(screenings(), VIEWS)
def test_the_order_of_tries_changes_nothing(made: Screening, view: View) -> None:
    """Family 1: runs come out in the order of their slots."""
    whole = own_suite(made)
    assert runs_of(whole.plan, whole.tries()[::-1], view) == runs(whole, view)


@given(screenings())
def test_the_public_view_is_a_function_of_public_tries(made: Screening) -> None:
    """Family 11: private tries change nothing in public."""
    whole = own_suite(made)
    public = [one for one in whole.tries() if one.public]
    assert runs_of(whole.plan, public, View.PUBLIC) == runs(whole)


def test_screenings_of_one_agent_are_one_cohort() -> None:
    """S0-2: runs of several screenings add up; the same screening twice is refused."""
    first = own_suite(screening("PPF"))
    second = own_suite(screening("PF", screening_id="scr-2"))
    again = [
        attest(second.plan, slot, spec, certificate_digest=f"{slot[0]}-{slot[1]}".ljust(64, "0"))
        for slot, spec in second.slots.items()
        if spec is not None
    ]
    both = [*runs(first), *runs_of(second.plan, again, View.PUBLIC)]
    assert (score_composite(both).completed, score_composite(both).successes) == (5, 3)
    with pytest.raises(MalformedInputError) as caught:
        score_composite([*runs(first), *runs(first)])
    assert caught.value.code == "duplicate-run"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"screening_id": "other"}, "foreign-screening"),
        ({"agent_id": "other"}, "foreign-agent"),
        ({"pack_digest": "c" * 64}, "foreign-pack"),
        ({"index": 9}, "unplanned-slot"),
    ],
)
def test_foreign_tries_are_refused(changes: dict[str, Any], code: str) -> None:
    """Family 10: the same checks of a try against its plan as for the Pack Score."""
    with pytest.raises(MalformedInputError) as caught:
        one_run(PASS, **changes)
    assert caught.value.code == code


def test_doubled_slots_and_certificates_are_refused() -> None:
    """Family 10: one record per slot, one certificate per record."""
    first = attest(PLAN, ("t1", 1), PASS)
    again = attest(PLAN, ("t1", 2), PASS, certificate_digest=first.certificate_digest)
    for tries, code in (([first, first], "duplicate-slot"), ([first, again], "duplicate-certificate")):
        with pytest.raises(MalformedInputError) as caught:
            runs_of(PLAN, tries, View.PUBLIC)
        assert caught.value.code == code
