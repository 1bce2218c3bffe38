"""What the scorer's input takes over from certificates besides outcomes, and what it leaves unknown."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from orchestrator import handover
from orchestrator.certificates import bundle, rules, statements
from scoring.classify import View
from scoring.errors import MalformedInputError
from scoring.facts import Conditions, Difficulty, Population, PriceSheet, Provenance, TaskTags
from scoring.pack_score import score_pack
from scoring.tries import CertificateState, VerifiedTry


def take(world: Any, shot: Any, **known: Any) -> handover.Handover:
    files = bundle.decode_screening(shot.pack())
    return handover.from_files(files, world.trust, pack_is_current=True, **known)


def slot(given: handover.Handover, task: str, index: int) -> VerifiedTry:
    (one,) = [one for one in given.tries if (one.task_id, one.index) == (task, index)]
    return one


def test_every_stated_fact_is_taken(world: Any, lab: Any, tape: Any) -> None:
    """Reward, times, versions, provenance and usage are the certificate's own words."""
    call = tape.settled(250, 100, 50, 1_230_000, standard_nusd=1_200_000, fees_nusd=20_000)
    shot = world.screening()
    raw = tape.transcript(call, call, call, call, attempt_id=shot.attempt_id("alpha", 1))
    shot.run("alpha", 1, lab.PASS, usage=tape.usage_of(raw), extra=tape.files_of(raw))
    shot.run("alpha", 2, lab.WRONG)
    one = slot(take(world, shot), "alpha", 1)
    assert (one.reward, one.checks_passed, one.checks_total) == (Fraction(1), None, None)
    assert (one.metered, one.requests, one.paid_tool_calls_nusd) == (True, 4, 80_000)
    assert (one.input_tokens, one.cached_input_tokens, one.output_tokens) == (1000, 400, 200)
    assert (one.list_cost_nusd, one.run_date_cost_nusd) == (4_800_000, 5_000_000)
    assert one.price_sheet == PriceSheet("list", "2026-09-01", lab.hex_of("prices"))
    assert (one.pack_version, one.agent_version, one.runner_version) == ("2026.9", "3.2.1", "0.1.0")
    assert (one.provenance, one.models) == (Provenance.INDEPENDENT, ())
    started_s = lab.OPENED_MS // 1000 + 60
    assert (one.handed_off_unix_s, one.finished_unix_s) == (started_s, started_s + 12)
    assert slot(take(world, shot), "alpha", 2).reward == 0


def test_steps_are_in_no_certificate_and_stay_unknown(world: Any) -> None:
    """Model requests are not execution steps: what is not stated is not made up."""
    given = take(world, world.screening().usual())
    assert {one.steps for one in given.tries} == {None}
    assert {one.requests for one in given.tries} == {0}


def test_an_attempt_without_a_reward_has_none(world: Any) -> None:
    """A timeout was never graded: no reward, which is not a reward of 0."""
    given = take(world, world.screening().usual())
    assert slot(given, "beta", 1).reward is None
    assert slot(given, "gamma", 3).reward == 0


def test_unmetered_usage_is_unknown(world: Any, lab: Any) -> None:
    """No metering: every figure is None, never 0 (S3-35)."""
    shot = world.screening()
    shot.run("alpha", 1, lab.PASS, level="unverified", usage=statements.Usage.unmetered())
    one = slot(take(world, shot), "alpha", 1)
    assert one.metered is False
    counts = ("requests", "input_tokens", "cached_input_tokens", "output_tokens")
    money = ("cost_nusd", "standard_cost_nusd", "paid_tool_calls_nusd")
    assert {getattr(one, name) for name in (*counts, *money)} == {None}
    assert one.run_date_cost_nusd is None


def test_the_plan_states_its_conditions(world: Any, lab: Any) -> None:
    """S4-28, S4-33: the opening's conditions, field by field."""
    plan = take(world, world.screening().usual()).plan
    assert plan.conditions == Conditions(
        suite_version="coding-core@2026.9",
        timeouts_ms=tuple((task, 600_000) for task in sorted(lab.TASKS)),
        step_limit=None,
        network_policy=lab.hex_of("none"),
        permitted_tools=None,
        hardware_class="c1m1",
        runtime="runc",
        repeats=3,
        provenance=Provenance.INDEPENDENT,
    )
    assert (plan.agent_version, plan.models) == ("3.2.1", ())


def test_equal_conditions_are_equal_comparability_digests(world: Any, lab: Any) -> None:
    """The scorer's conditions and the certificate's comparability digest tell the same screenings apart."""

    def both(**changes: Any) -> tuple[Conditions | None, str]:
        shot = world.screening("x", **changes)
        body = lab.payload_of(shot.opening.envelope)["predicate"]
        return handover.plan_of(body, pack_is_current=True).conditions, rules.comparability(body)

    usual, again, other = both(), both(), both(version="2026.10")
    assert usual == again
    assert usual[0] != other[0] and usual[1] != other[1]


def test_tags_and_population_come_from_the_caller_only(world: Any) -> None:
    """No certificate states them: unknown unless the pack's manifest is at hand; foreign tags are refused."""
    shot = world.screening().usual()
    assert (take(world, shot).plan.tags, take(world, shot).plan.population) == (None, None)
    tags = {"alpha": TaskTags(("testing",), Difficulty.HARD)}
    plan = take(world, shot, tags=tags, population=Population.OWN_SUITE).plan
    assert (plan.tags, plan.population) == (tags, Population.OWN_SUITE)
    with pytest.raises(MalformedInputError, match="not in the pack"):
        take(world, shot, tags={"delta": TaskTags((), None)})


def spoiled(world: Any, lab: Any, *change: Any) -> handover.Handover:
    """The usual screening, with the first certificate signed over a contradiction."""
    shot = world.screening().usual()
    files = bundle.decode_screening(shot.pack())
    signed, _ = shot.certificates[0]
    raw = bundle.encode_try(lab.resign(lab.changed(signed.envelope, "predicate", *change)), signed.manifest)
    changed = bundle.ScreeningFiles(files.opening, ((1, raw), *files.tries[1:]), files.summary)
    return handover.from_files(changed, world.trust, pack_is_current=True)


@pytest.mark.parametrize(
    "change",
    [
        ("agent", "version", "9.9"),
        ("pack", "version", "1999.1"),
        ("provenanceLabel", "publisher-reported"),
        ("usage", "metered", False),
        ("usage", "cachedInputTokens", 7),
        ("time", "finishedAt", "2026-01-01T00:00:00Z"),
        ("result", "checksPassed", 7),
    ],
    ids=lambda change: ".".join(map(str, change[:-1])),
)
def test_a_certificate_that_does_not_hold_gives_no_figure(world: Any, lab: Any, change: Any) -> None:
    """It fills its slot as invalid under the opening's names and cannot stop the scoring of the rest."""
    given = spoiled(world, lab, *change)
    first = given.tries[0]
    assert (first.task_id, first.index, first.certificate) == ("alpha", 1, CertificateState.INVALID)
    assert (first.agent_version, first.pack_version) == ("3.2.1", "2026.9")
    assert first.provenance is Provenance.INDEPENDENT
    figures = ("cost_nusd", "metered", "reward", "checks_passed", "finished_unix_s", "input_tokens")
    assert {getattr(first, name) for name in figures} == {None}
    card = score_pack(given.plan, given.tries, view=View.PUBLIC, do_nothing_floor=None)
    assert card.counts.left_out_certificate == 1
