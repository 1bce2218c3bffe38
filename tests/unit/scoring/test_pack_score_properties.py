"""Property families of the scoring reference, section 6, as far as they concern `pack-score/1`."""

from __future__ import annotations

import json
import random
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoring_builders import (
    FAIL,
    FAULT,
    LOST_CERTIFICATE,
    PASS,
    TIMEOUT,
    VIEWS,
    Screening,
    Spec,
    attest,
    screening,
    screenings,
    specs,
)

from scoring.classify import TryClass, View, classify
from scoring.explain import as_data, lines
from scoring.numbers import DASH
from scoring.pack_card import PackScoreCard, PartialCause, Status
from scoring.pack_score import score_pack
from scoring.passk import pass_hat_k
from scoring.tries import CertificateState, SandboxLevel
from scoring.vocabulary import Outcome, Reason

NO_SCORE = Fraction(-1)


def rank(value: Fraction | None) -> Fraction:
    """A missing figure stands below every number."""
    return NO_SCORE if value is None else value


def digest(card: PackScoreCard) -> str:
    return json.dumps(as_data(card), sort_keys=True)


def extend(data: st.DataObject, made: Screening, spec: Spec) -> tuple[Screening, tuple[str, int]]:
    """The screening with one more planned slot, holding `spec`, on a drawn task; and that slot."""
    task = data.draw(st.sampled_from(sorted(made.plan.pack_tasks)))
    return made.add(task, spec), (task, made.plan.planned[task] + 1)


# --- family 1 and 15: order, recomputation ------------------------------------------------------------


@given(screenings(), VIEWS, st.randoms(use_true_random=False))
def test_order_of_tries_changes_nothing(made: Screening, view: View, shuffler: random.Random) -> None:
    """Families 1, 15: a shuffled export gives an equal card, equal data and equal explanations."""
    tries = made.tries()
    shuffler.shuffle(tries)
    mixed = score_pack(made.plan, tries, view=view, do_nothing_floor=None)
    assert mixed == made.card(view)
    assert digest(mixed) == digest(made.card(view))
    assert lines(mixed) == lines(made.card(view))


@given(screenings(), VIEWS, st.randoms(use_true_random=False))
def test_order_and_names_of_tasks_change_no_figure(
    made: Screening, view: View, shuffler: random.Random
) -> None:
    """Family 1: permuting the pack's tasks and renaming them leaves every figure exactly equal."""
    names = list(made.plan.pack_tasks)
    shuffler.shuffle(names)
    new = {name: f"renamed-{name}" for name in names}
    plan = replace(
        made.plan,
        pack_tasks=tuple(new[name] for name in names),
        planned={new[name]: count for name, count in made.plan.planned.items()},
        withheld_tasks=frozenset(new[name] for name in made.plan.withheld_tasks),
    )
    other = Screening(plan, {(new[task], k): spec for (task, k), spec in made.slots.items()}).card(view)
    named = {"tasks", "certificate_digests", "inputs_digest"}
    for item in fields(PackScoreCard):
        if item.name not in named:
            assert getattr(other, item.name) == getattr(made.card(view), item.name)


@given(screenings(), VIEWS)
def test_the_inputs_digest_follows_every_input(made: Screening, view: View) -> None:
    """Family 15: the stored digest changes with a try, the plan or the do-nothing floor."""
    tries = made.tries()
    base = made.card(view).inputs_digest
    other_plan = replace(made.plan, judge="gpt-4.1-mini@2025-04-14")
    assert base != score_pack(other_plan, tries, view=view, do_nothing_floor=None).inputs_digest
    assert base != score_pack(made.plan, tries, view=view, do_nothing_floor=Fraction(0)).inputs_digest
    seen_tries = [t for t in tries if view is View.OWNER or t.public]
    for gone in seen_tries[:3]:
        left = [t for t in tries if t is not gone]
        assert base != score_pack(made.plan, left, view=view, do_nothing_floor=None).inputs_digest


# --- family 2: the floor never rises; the three counter-examples ----------------------------------------


@given(screenings(), VIEWS, specs(), st.data())
def test_deleting_any_try_never_raises_the_floor(
    made: Screening, view: View, spec: Spec, data: st.DataObject
) -> None:
    """Family 2, rule b: whatever is deleted, lost or unfinished, the floor stays or falls."""
    made, slot = extend(data, made, spec)
    assert rank(made.put(slot, None).card(view).floor) <= rank(made.card(view).floor)


@given(screenings(), VIEWS, specs(), st.data())
def test_losing_a_certificate_never_raises_floor_or_score(
    made: Screening, view: View, spec: Spec, data: st.DataObject
) -> None:
    """Family 2: "leaving out a certificate can lower a score but never raise it" holds for pass^1 too."""
    made, slot = extend(data, made, replace(spec, certificate=CertificateState.VALID))
    worse = data.draw(st.sampled_from([CertificateState.MISSING, CertificateState.INVALID]))
    after = made.put(slot, replace(spec, certificate=worse)).card(view)
    assert rank(after.floor) <= rank(made.card(view).floor)
    assert rank(after.pack_score) <= rank(made.card(view).pack_score)


@given(screenings(), VIEWS, specs(), st.data())
def test_turning_a_pass_into_anything_never_raises_the_floor(
    made: Screening, view: View, spec: Spec, data: st.DataObject
) -> None:
    """Family 2: pass -> anything, a fault and a private try included."""
    made, slot = extend(data, made, PASS)
    assert rank(made.put(slot, spec).card(view).floor) <= rank(made.card(view).floor)


@given(screenings(), VIEWS, st.data())
def test_planning_less_never_raises_the_floor(made: Screening, view: View, data: st.DataObject) -> None:
    """Rule b: dropping the last slot of a task, or a whole task, from the plan gains nothing."""
    task = data.draw(st.sampled_from(sorted(made.plan.pack_tasks)))
    left = data.draw(st.integers(0, made.plan.planned[task]))
    made = Screening(replace(made.plan, declared_tries=5), made.slots)
    plan = replace(made.plan, planned={**made.plan.planned, task: left})
    slots = {slot: spec for slot, spec in made.slots.items() if slot[0] != task or slot[1] <= left}
    assert rank(Screening(plan, slots).card(view).floor) <= rank(made.card(view).floor)


@pytest.mark.parametrize(
    ("before", "after", "score_before", "score_after", "floor"),
    [
        # A failed try is deleted: task (P,F) 50 -> (P) 100.
        (screening("PF", declared=2), screening("P-", declared=2), "50", "100", "50"),
        # Two losing tries are never recorded: 83.33 -> 100.
        (
            screening("PFF", "PPP", "PPP", "PPP"),
            screening("P--", "PPP", "PPP", "PPP"),
            "250/3",
            "100",
            "250/3",
        ),
        # The hard task is skipped: 75 -> 100.
        (screening("FFF", "PPP", "PPP", "PPP"), screening("", "PPP", "PPP", "PPP"), "75", "100", "75"),
    ],
)
def test_the_score_of_the_seed_rises_when_losses_vanish_but_the_floor_does_not(
    before: Screening, after: Screening, score_before: str, score_after: str, floor: str
) -> None:
    """Family 2, kept counter-examples: 003's own claim about tries is false, so it is never asserted."""
    assert before.card().pack_score == Fraction(score_before)
    assert after.card().pack_score == Fraction(score_after)
    assert before.card().floor == after.card().floor == Fraction(floor)
    assert not before.card().labels.partial_screen
    assert after.card().labels.partial_screen


def test_losing_a_certificate_may_make_pass3_appear() -> None:
    """Section 6, kept side effect: P | PPP has no pass^3; without P's certificate its task vanishes."""
    before, after = screening("P", "PPP").card(), screening("C", "PPP").card()
    assert before.pass3 is None
    assert after.pass3 == 1


def test_exhaustively_over_two_small_tasks() -> None:
    """Section 6: all pairs of a two- and a three-slot task in five states, every single change of a slot.

    Certificates lost never raise the score or the floor; deletions never raise the floor, but do raise the
    score in many cases; a fault in a new slot changes neither pass^1 nor pass^3.
    """
    raised = 0
    for word in product("PCFUX", repeat=5):
        base = screening("".join(word[:2]), "".join(word[2:]))
        card = base.card()
        for slot, spec in base.slots.items():
            deleted = base.put(slot, None).card()
            assert rank(deleted.floor) <= rank(card.floor)
            raised += rank(deleted.pack_score) > max(rank(card.pack_score), Fraction(0))
            if spec == PASS:
                lost = base.put(slot, LOST_CERTIFICATE).card()
                assert rank(lost.pack_score) <= rank(card.pack_score)
                assert rank(lost.floor) <= rank(card.floor)
        faulty = base.add("t1", FAULT).card()
        assert (faulty.pack_score, faulty.pass3) == (card.pack_score, card.pass3)
    assert raised > 1000


# --- family 3: faults and unfinished tries ---------------------------------------------------------------


@given(screenings(), VIEWS, st.data())
def test_a_platform_fault_is_shown_and_changes_no_score(
    made: Screening, view: View, data: st.DataObject
) -> None:
    """Family 3: score, pass^3 and cost as before; could_not_be_counted + 1; Partial screen on."""
    reason = data.draw(
        st.sampled_from([reason for reason in Reason if classify_reason(reason) is TryClass.PLATFORM_FAULT])
    )
    task = data.draw(st.sampled_from(sorted(made.plan.pack_tasks)))
    before, after = made.card(view), made.add(task, Spec(reason)).card(view)
    same = ["pack_score", "pass3", "usd_per_task", "unfinished_spend_nusd", "interval", "noise"]
    same += ["tasks_scored", "tries_min", "tries_max"]
    if before.counts.recorded:
        assert [getattr(before, n) for n in same] == [getattr(after, n) for n in same]
    assert after.pack_score == before.pack_score
    assert after.counts.could_not_be_counted == before.counts.could_not_be_counted + 1
    assert dict(after.counts.could_not_be_counted_by_kind)[reason.value] >= 1
    assert PartialCause.COULD_NOT_BE_COUNTED in after.labels.partial_causes


def classify_reason(reason: Reason) -> TryClass:
    return classify(attest(screening("P").plan, ("t1", 1), Spec(reason)), View.PUBLIC)


@given(screenings(), VIEWS, st.data())
def test_an_unfinished_try_never_raises_the_score(made: Screening, view: View, data: st.DataObject) -> None:
    """Family 3: added to a task with counted tries it is one more failure and one more in the count."""
    made, (task, _) = extend(data, made, data.draw(st.sampled_from([PASS, FAIL])))
    before, after = made.card(view), made.add(task, TIMEOUT).card(view)
    assert rank(after.pack_score) <= rank(before.pack_score)
    assert rank(after.floor) <= rank(before.floor)
    assert after.counts.unfinished == before.counts.unfinished + 1
    assert dict(after.counts.unfinished_by_kind)["timeout"] >= 1


# --- families 4, 5, 6 ------------------------------------------------------------------------------------


@given(screenings(), VIEWS, st.data())
def test_a_failure_that_passes_lowers_no_figure(made: Screening, view: View, data: st.DataObject) -> None:
    """Family 4: finished failure, no verdict or unfinished -> certified pass."""
    failure = data.draw(st.sampled_from([FAIL, TIMEOUT, Spec(Reason.NO_VERDICT), Spec(Reason.TAMPERING)]))
    made, slot = extend(data, made, failure)
    before, after = made.card(view), made.put(slot, PASS).card(view)
    assert rank(after.pack_score) >= rank(before.pack_score)
    assert rank(after.pass3) >= rank(before.pass3)
    assert rank(after.floor) >= rank(before.floor)
    if before.ceiling is not None:
        assert rank(after.ceiling) >= before.ceiling


@given(screenings(gaps=False), VIEWS, st.data())
def test_repeating_every_try_of_a_task_keeps_pass1(made: Screening, view: View, data: st.DataObject) -> None:
    """Family 5: the mean over tasks of shares does not move (a pooled success rate would)."""
    task = data.draw(st.sampled_from(sorted(made.plan.pack_tasks)))
    again = [made.slots[task, k] for k in range(1, made.plan.planned[task] + 1)]
    assert made.add(task, *again).card(view).pack_score == made.card(view).pack_score


@given(screenings(), VIEWS)
def test_figures_stay_in_range_and_in_order(made: Screening, view: View) -> None:
    """Families 6, 14: 0 <= floor <= score <= ceiling <= 100; pass^1 >= pass^3; score in its interval."""
    card = made.card(view)
    if card.pack_score is None or card.floor is None or card.ceiling is None:
        return
    assert 0 <= card.floor <= card.pack_score <= card.ceiling <= 100
    if card.pass3 is not None:
        scored = [row for row in card.tasks if row.counted]
        pass5 = sum((pass_hat_k(row.passes, row.counted, 5) for row in scored), Fraction(0)) / len(scored)
        assert card.pack_score / 100 >= card.pass3 >= pass5 >= 0
    if card.interval is not None:
        share = float(card.pack_score / 100)
        assert 0 <= card.interval.interval.low <= share <= card.interval.interval.high <= 1


@given(screenings(), VIEWS)
def test_nothing_missing_means_floor_score_and_ceiling_agree(made: Screening, view: View) -> None:
    """The brackets close exactly when every slot of every task is a counted try."""
    card = made.card(view)
    if card.pack_score is not None and all(row.counted == row.slots for row in card.tasks):
        assert card.floor == card.pack_score == card.ceiling
        assert not {PartialCause.TASKS_UNSCORED, PartialCause.COULD_NOT_BE_COUNTED} & {
            *card.labels.partial_causes
        }


# --- family 11 and 12: who looks, who pays ------------------------------------------------------------------


@given(screenings(), specs(public=st.just(False)), st.data())
def test_private_tries_never_change_the_public_card(made: Screening, spec: Spec, data: st.DataObject) -> None:
    """Family 11: put into an empty slot, over a slot outside the plan, or removed: the same bytes."""
    public = digest(made.card(View.PUBLIC))
    outside = attest(made.plan, ("t1", made.plan.planned["t1"] + 1), spec)
    more = [*made.tries(), outside]
    assert digest(score_pack(made.plan, more, view=View.PUBLIC, do_nothing_floor=None)) == public
    only_public = [t for t in made.tries() if t.public]
    assert digest(score_pack(made.plan, only_public, view=View.PUBLIC, do_nothing_floor=None)) == public
    empty = [slot for slot, have in made.slots.items() if have is None]
    if empty:
        slot = data.draw(st.sampled_from(sorted(empty)))
        assert digest(made.put(slot, spec).card(View.PUBLIC)) == public


@given(screenings())
def test_the_owner_view_says_how_much_is_not_public(made: Screening) -> None:
    """Family 11, S3-10: the owner's count is exact, and its card says so; the public card never has any."""
    card = made.card(View.OWNER)
    private = sum(not t.public for t in made.tries())
    assert card.counts.non_public == private
    assert card.includes_non_public is (private > 0)
    assert any("not public" in line for line in lines(card)) is (private > 0)
    assert not made.card(View.PUBLIC).includes_non_public


@given(screenings(public=st.just(True)))
def test_both_views_agree_when_everything_is_public(made: Screening) -> None:
    """Family 11: the owner sees no better number for public runs."""
    owner, public = made.card(View.OWNER), made.card(View.PUBLIC)
    assert replace(owner, view=View.PUBLIC, inputs_digest=public.inputs_digest) == public


@given(screenings(), VIEWS)
def test_names_have_no_effect_on_any_number(made: Screening, view: View) -> None:
    """Family 12: agent, pack and screening names change the key only; there is no funder to pass in."""
    plan = replace(made.plan, screening_id="zzz", agent_id="acme", pack_id="other", pack_version="9")
    other = Screening(plan, made.slots).card(view)
    same = replace(other, key=made.card(view).key, inputs_digest=made.card(view).inputs_digest)
    assert same == made.card(view)


# --- an independent second computation --------------------------------------------------------------------


def oracle(made: Screening, view: View) -> tuple[Fraction | None, Fraction | None, Status]:
    """Score, pooled cost and status from the words of the document, sharing no code with the scorer."""
    task_shares: dict[str, list[bool]] = {}
    costs: list[tuple[str, int | None]] = []
    recorded = 0
    for (task, _), spec in made.slots.items():
        if spec is None or (view is View.PUBLIC and not spec.public):
            continue
        recorded += 1
        outcome = str(spec.reason)
        if outcome in ("timeout", "deadline_overrun", "cost_cap", "step_cap", "network_violation"):
            task_shares.setdefault(task, []).append(False)
            continue
        fault = {str(r) for r in Reason} - {"all_checks_passed", "no_verdict"}
        completed = outcome not in fault or str(attest(made.plan, (task, 1), spec).outcome) == "failed"
        if not completed or spec.level != SandboxLevel.VERIFIED:
            continue
        passed = outcome == "all_checks_passed"
        allowed_without = not spec.public and spec.certificate == CertificateState.MISSING
        if passed and spec.certificate != CertificateState.VALID and not allowed_without:
            continue
        task_shares.setdefault(task, []).append(passed)
        costs.append((task, spec.cost_nusd))
    if not recorded:
        return None, None, Status.NO_RESULTS
    if not costs:
        return None, None, Status.NONE_VERIFIED
    shares = [Fraction(sum(p), len(p)) for p in task_shares.values()]
    known = [cost for task, cost in costs if cost is not None and task not in made.plan.withheld_tasks]
    cost = Fraction(sum(known), len(known)) / 10**9 if len(known) == len(costs) else None
    return 100 * sum(shares, Fraction(0)) / len(shares), cost, Status.SCORED


@given(screenings(), VIEWS)
def test_against_a_second_computation(made: Screening, view: View) -> None:
    """S3-23 .. S3-35: score, cost and status equal those of an oracle written from the document."""
    card = made.card(view)
    assert (card.pack_score, card.usd_per_task, card.status) == oracle(made, view)


@given(screenings(), VIEWS)
def test_a_missing_figure_always_has_its_reason_and_no_number(made: Screening, view: View) -> None:
    """G-5: value and reason exclude each other everywhere; the display of None is a dash."""
    card = made.card(view)
    pairs = [
        (card.pack_score, card.pack_score_reason),
        (card.floor, card.pack_score_reason),
        (card.ceiling, card.pack_score_reason),
        (card.interval, card.interval_reason),
        (card.pass3, card.pass3_reason),
        (card.usd_per_task, card.usd_per_task_reason),
        (card.unfinished_spend_nusd, card.unfinished_spend_reason),
        (card.noise.rerun, card.noise.rerun_reason),
        (card.noise.other_tasks, card.noise.other_tasks_reason),
        (card.noise.detectable, card.noise.detectable_reason),
    ]
    assert all((value is None) is (reason is not None) for value, reason in pairs)
    data = as_data(card)
    for name in ("pack_score", "floor", "ceiling", "pass3", "usd_per_task", "do_nothing_floor"):
        figure = data[name]
        assert (figure["exact"] is None) is (figure["reason"] is not None) is (figure["display"] == DASH)


@given(screenings(), VIEWS)
def test_every_visible_slot_is_somewhere_on_the_card(made: Screening, view: View) -> None:
    """Nothing is hidden: counted + could not be counted + left out = planned, per task and in sum."""
    card = made.card(view)
    for row in card.tasks:
        assert row.counted + row.could_not_be_counted + row.left_out == row.planned
    counts = card.counts
    assert counts.could_not_be_counted == sum(row.could_not_be_counted for row in card.tasks)
    assert counts.could_not_be_counted == sum(n for _, n in counts.could_not_be_counted_by_kind)
    assert counts.unfinished == sum(n for _, n in counts.unfinished_by_kind)
    assert all(n > 0 for _, n in (*counts.unfinished_by_kind, *counts.could_not_be_counted_by_kind))


def test_outcomes_of_the_letters() -> None:
    """The letters used above mean what their names say."""
    made = screening("PFUXC")
    assert [t.outcome for t in made.tries()] == [
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.FAILED,
        Outcome.PLATFORM_FAULT,
        Outcome.PASSED,
    ]
    assert made.slots["t1", 2] == FAIL
