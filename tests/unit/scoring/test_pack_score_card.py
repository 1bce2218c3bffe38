"""Single rules of the Pack Score card that the golden vectors do not reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction
from typing import Any, ClassVar

import pytest
from scoring_builders import (
    FAIL,
    FAULT,
    PASS,
    TIMEOUT,
    USD,
    Screening,
    Spec,
    attest,
    plan_of,
    screening,
)

from scoring.classify import View
from scoring.errors import MalformedInputError, MethodologyMixError, ScoringError
from scoring.pack_card import Missing, PackScoreCard, PartialCause, Status, require_comparable
from scoring.pack_score import score_pack
from scoring.results import MethodologyResult, Reading
from scoring.tries import CertificateState, SandboxLevel, VerifiedTry
from scoring.vocabulary import Outcome, Reason

UNMETERED = replace(PASS, cost_nusd=None)


def one(*specs: Spec | None, **changes: Any) -> Screening:
    """A one-task screening."""
    plan = plan_of({"t1": len(specs)}, **changes)
    return Screening(plan, {("t1", i): spec for i, spec in enumerate(specs, 1)})


# --- score, status ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "status", "reason"),
    [
        (one(None, None), Status.NO_RESULTS, Missing.NOTHING_RECORDED),  # S3-26
        (one(TIMEOUT, TIMEOUT), Status.NONE_VERIFIED, Missing.NONE_VERIFIED),  # S3-25
        (one(FAULT, TIMEOUT), Status.NONE_VERIFIED, Missing.NONE_VERIFIED),
        (one(replace(FAIL, level=SandboxLevel.UNVERIFIED)), Status.NONE_VERIFIED, Missing.NONE_VERIFIED),
        (one(replace(PASS, level=SandboxLevel.SIMULATED)), Status.NONE_VERIFIED, Missing.NONE_VERIFIED),
        (
            one(replace(PASS, certificate=CertificateState.MISSING)),
            Status.NONE_VERIFIED,
            Missing.ALL_LEFT_OUT,
        ),  # S3-28
        (
            one(replace(PASS, certificate=CertificateState.INVALID), TIMEOUT),
            Status.NONE_VERIFIED,
            Missing.ALL_LEFT_OUT,
        ),
        (one(Spec(Reason.AGENT_NOT_STARTABLE)), Status.NONE_VERIFIED, Missing.NOT_EVALUABLE),  # S4-3
        (one(Spec(Reason.AGENT_NOT_INSTALLABLE), FAULT), Status.NONE_VERIFIED, Missing.NONE_VERIFIED),
    ],
)
def test_no_score_without_a_finished_verified_try(made: Screening, status: Status, reason: Missing) -> None:
    """S3-25 .. S3-28: which sentence stands instead of the score, and no number anywhere near it."""
    card = made.card()
    assert (card.status, card.pack_score_reason) == (status, reason)
    missing = (card.pack_score, card.floor, card.ceiling, card.pass3, card.usd_per_task, card.interval)
    assert missing == (None,) * 6


@pytest.mark.parametrize("reason", [Reason.WRONG_OUTPUT, Reason.NO_VERDICT, Reason.CRASH, Reason.TAMPERING])
def test_failures_that_finished_show_zero(reason: Reason) -> None:
    """S3-27, S3-18: one verified finished failure is enough for a 0, and 0 is not a dash."""
    card = one(Spec(reason), TIMEOUT, TIMEOUT).card()
    assert card.status is Status.SCORED
    assert card.pack_score == card.floor == Fraction(0)
    assert card.counts.no_verdict == (reason is Reason.NO_VERDICT)


def test_the_task_mean_is_not_the_pooled_rate() -> None:
    """S3-23: (1/1 + 1/5) / 2 = 60, where pooling would give 2/6."""
    assert screening("P", "PFFFF").card().pack_score == 60


def test_every_part_of_a_mixed_card() -> None:
    """S3-13 .. S3-40 on one card: each count, each kind, tries, floor and ceiling by hand."""
    plan = plan_of({"t1": 4, "t2": 3, "t3": 2, "t4": 0}, pack_is_current=False)
    filled: dict[tuple[str, int], Spec | None] = {
        ("t1", 1): PASS,
        ("t1", 2): Spec(Reason.COST_CAP, cost_nusd=7 * USD),
        ("t1", 3): Spec(Reason.NO_VERDICT),
        ("t1", 4): Spec(Reason.STEP_CAP, cost_nusd=USD),
        ("t2", 1): PASS,
        ("t2", 2): replace(PASS, certificate=CertificateState.INVALID),
        ("t2", 3): replace(PASS, level=SandboxLevel.SIMULATED),
        ("t3", 1): Spec(Reason.WORKER_LOST),
        ("t3", 2): None,
    }
    card = Screening(plan, filled).card()
    assert card.pack_score == 100 * (Fraction(1, 4) + 1) / 2
    assert card.floor == 100 * (Fraction(1, 4) + Fraction(1, 3)) / 4
    assert card.ceiling == 100 * (Fraction(1, 4) + 1 + 1 + 1) / 4
    assert (card.pass3, card.pass3_reason) == (None, Missing.FEWER_THAN_THREE)
    assert (card.tasks_scored, card.tasks_in_pack, card.tries_min, card.tries_max) == (2, 4, 1, 4)
    counts = card.counts
    assert counts.recorded == 8
    assert (counts.unfinished, counts.unfinished_by_kind) == (2, (("cost_cap", 1), ("step_cap", 1)))
    assert dict(counts.could_not_be_counted_by_kind) == dict.fromkeys(
        ("never_recorded", "simulated", "worker_lost"), 1
    )
    assert (counts.no_verdict, counts.left_out_certificate, counts.simulated) == (1, 1, 1)
    assert set(card.labels.partial_causes) == set(PartialCause)
    assert card.labels.short_screen and card.labels.older_pack_version and card.labels.simulated
    assert card.usd_per_task == Fraction(1, 10)
    assert card.unfinished_spend_nusd == 8 * USD


@pytest.mark.parametrize(
    ("made", "causes"),
    [
        (screening("PPP", "PPP"), set()),
        (screening("PPP", ""), {PartialCause.TASKS_UNSCORED}),
        (screening("PPP", "PPPP"), {PartialCause.TRIES_DIFFER}),
        (screening("PPPX", "PPPX"), {PartialCause.COULD_NOT_BE_COUNTED}),
        (screening("PPP-", "PPP-"), {PartialCause.COULD_NOT_BE_COUNTED}),
        (screening("PPPC", "PPPC"), set()),  # left out for certificate is not one of the three causes
        (screening("UUU", "PPP"), set()),  # unfinished tries are counted tries
    ],
)
def test_each_cause_of_partial_screen_alone(made: Screening, causes: set[PartialCause]) -> None:
    """S3-37 .. S3-39, literally these three."""
    assert set(made.card().labels.partial_causes) == causes
    assert made.card().labels.partial_screen is bool(causes)
    assert made.card().labels.short_screen is any(row.counted < 3 for row in made.card().tasks)


def test_short_screen_is_our_own_label() -> None:
    """S3-40: two tries everywhere are not a Partial screen by the letter, and are a Short screen."""
    labels = screening("PP", "PF").card().labels
    assert (labels.partial_screen, labels.short_screen) == (False, True)


def test_older_pack_version() -> None:
    """S3-3: also on a card without results."""
    assert screening("PPP", pack_is_current=False).card().labels.older_pack_version
    assert screening("---", pack_is_current=False).card().labels.older_pack_version
    assert not screening("PPP").card().labels.older_pack_version


def test_an_unfinished_simulated_try_is_a_failure_and_reads_as_simulated() -> None:
    """S3-13 before S3-22: a stalling agent gains nothing by avoiding the relay."""
    card = one(PASS, replace(TIMEOUT, level=SandboxLevel.SIMULATED)).card()
    assert card.pack_score == 50
    assert (card.counts.unfinished, card.counts.simulated) == (1, 1)
    assert card.labels.simulated


def test_pass3_needs_three_counted_tries_on_every_scored_task() -> None:
    """S3-29, S3-30: an unscored task does not stop it, a short one does."""
    assert screening("PPP", "PPFP", "XXX").card().pass3 == (1 + Fraction(1, 4)) / 2
    assert screening("PPP", "PP-").card().pass3_reason is Missing.FEWER_THAN_THREE
    assert screening("PPUP", "PPP").card().pass3 == (Fraction(1, 4) + 1) / 2


# --- money -----------------------------------------------------------------------------------------------


def test_cost_is_pooled_over_finished_counted_tries() -> None:
    """S3-31, S3-32: three tries of one task and one of another weigh by try; nothing else is in it."""
    plan = plan_of({"t1": 3, "t2": 4})
    cheap, dear = replace(PASS, cost_nusd=1), replace(FAIL, cost_nusd=USD)
    left_out = replace(PASS, certificate=CertificateState.INVALID)
    outside = [replace(spec, cost_nusd=None) for spec in (FAULT, TIMEOUT, left_out)]
    slots = {("t1", i): cheap for i in (1, 2, 3)} | {("t2", 1): dear}
    slots |= {("t2", i): spec for i, spec in enumerate(outside, 2)}
    assert Screening(plan, slots).card().usd_per_task == Fraction(USD + 3, 4 * USD)


def test_cost_dashes() -> None:
    """S3-33 .. S3-35: one unmetered or withheld finished try is enough; a metered 0 is a real 0."""
    assert one(PASS, UNMETERED).card().usd_per_task_reason is Missing.UNMETERED
    withheld = one(PASS, FAIL, withheld_tasks=frozenset({"t1"})).card()
    assert (withheld.usd_per_task, withheld.usd_per_task_reason) == (None, Missing.WITHHELD)
    both = one(UNMETERED, withheld_tasks=frozenset({"t1"})).card()
    assert both.usd_per_task_reason is Missing.UNMETERED
    free = one(replace(PASS, cost_nusd=0)).card()
    assert (free.usd_per_task, free.usd_per_task_reason) == (Fraction(0), None)


def test_unfinished_spend_follows_the_same_rules() -> None:
    """Section 2.2: the money burned by unfinished tries is shown; unknown or withheld is a dash."""
    assert one(PASS).card().unfinished_spend_nusd == 0
    assert one(PASS, TIMEOUT, TIMEOUT).card().unfinished_spend_nusd == USD
    unknown = one(PASS, TIMEOUT, replace(TIMEOUT, cost_nusd=None)).card()
    assert (unknown.unfinished_spend_nusd, unknown.unfinished_spend_reason) == (None, Missing.UNMETERED)
    assert unknown.usd_per_task == Fraction(1, 10)
    withheld = one(PASS, TIMEOUT, withheld_tasks=frozenset({"t1"})).card()
    assert withheld.unfinished_spend_reason is Missing.WITHHELD


# --- chance figures ----------------------------------------------------------------------------------------


def test_chance_figures_of_a_full_pack() -> None:
    """ST-3, ST-5 on the card: 20 x 3 all passing is 82.0..100, and 29.5 points cannot be told apart."""
    card = screening(*["PPP"] * 20).card()
    assert card.interval is not None
    assert 100 * card.interval.interval.low == pytest.approx(82.03, abs=0.01)
    assert card.noise.detectable == pytest.approx(29.53, abs=0.01)
    assert card.noise.other_tasks == pytest.approx(8.98, abs=0.01)
    assert card.noise.rerun == pytest.approx(100 * 1.96 / 60, abs=0.01)


def test_chance_figures_that_cannot_be_given() -> None:
    """G-5: one task has no interval, one try per task no re-run noise; the reason says which."""
    single = screening("PPF").card()
    assert (single.interval, single.interval_reason) == (None, Missing.ONE_TASK)
    assert single.noise.other_tasks_reason is Missing.ONE_TASK
    assert single.noise.rerun is not None
    assert single.noise.detectable == 100  # a difference has at most 100 points
    short = screening("P", "PPF").card()
    assert (short.noise.rerun, short.noise.rerun_reason) == (None, Missing.ONE_TRY)
    assert short.interval is not None
    empty = screening("UU").card().noise
    assert (empty.rerun_reason, empty.detectable_reason) == (Missing.NONE_VERIFIED,) * 2


def test_do_nothing_floor_is_kept_exact() -> None:
    """Section 9 of the design: the pack's do-nothing figure stands on the card, None when not measured."""
    made = screening("PPP")
    third = Fraction(100, 3)
    card = score_pack(made.plan, made.tries(), view=View.PUBLIC, do_nothing_floor=third)
    assert card.do_nothing_floor == third
    assert replace(card, do_nothing_floor=None, inputs_digest="") == replace(made.card(), inputs_digest="")


# --- refused input ---------------------------------------------------------------------------------------

BASE = screening("PP", "P")


def again(**changes: Any) -> list[VerifiedTry]:
    """The base tries with one more for slot 2 of t2, changed as given."""
    return [*BASE.tries(), attest(BASE.plan, ("t1", 2), PASS, **changes)]


@pytest.mark.parametrize(
    ("tries", "code"),
    [
        (again(), "duplicate-slot"),
        (again(index=3, certificate_digest="c" * 64), "unplanned-slot"),
        (again(task_id="t9", index=1), "unplanned-slot"),
        (again(screening_id="scr-2"), "foreign-screening"),
        (again(pack_digest="c" * 64), "foreign-pack"),
        (again(agent_id="agent-2"), "foreign-agent"),
        (again(agent_digest="c" * 64), "foreign-agent"),
        ([object()], "not-a-verified-try"),
        ([None], "not-a-verified-try"),
    ],
)
def test_input_that_no_screening_can_produce_is_refused(tries: list[Any], code: str) -> None:
    """Family 10: a stable code, and never a number, in both views."""
    for view in View:
        with pytest.raises(MalformedInputError) as caught:
            score_pack(BASE.plan, tries, view=view, do_nothing_floor=None)
        assert caught.value.code == code
        assert isinstance(caught.value, ScoringError)


def test_the_same_certificate_twice_is_refused() -> None:
    """Families 5, 10: one certificate cannot stand behind two tries."""
    made = screening("PF")
    first = attest(made.plan, ("t1", 1), PASS)
    second = attest(made.plan, ("t1", 2), FAIL, certificate_digest=first.certificate_digest)
    with pytest.raises(MalformedInputError) as caught:
        score_pack(made.plan, [first, second], view=View.PUBLIC, do_nothing_floor=None)
    assert caught.value.code == "duplicate-certificate"


@pytest.mark.parametrize("floor", [0, 0.0, "0", True, Fraction(-1), Fraction(101), float("nan")])
def test_do_nothing_floor_must_be_exact_points(floor: Any) -> None:
    """G-1: a fraction of points in 0..100 or None; integers are not silently taken either."""
    with pytest.raises(MalformedInputError) as caught:
        score_pack(BASE.plan, [], view=View.PUBLIC, do_nothing_floor=floor)
    assert caught.value.code == "do-nothing-floor"


def test_view_must_be_a_view() -> None:
    """S3-8, S3-10: a word that only looks like a view never opens the owner's."""
    with pytest.raises(MalformedInputError) as caught:
        score_pack(BASE.plan, [], view="owner", do_nothing_floor=None)  # type: ignore[arg-type]
    assert caught.value.code == "view"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"pack_tasks": ()}, "empty-pack"),
        ({"pack_tasks": ("t1", "t2", "t1")}, "duplicate-task"),
        ({"planned": {"t3": 1}}, "foreign-task"),
        ({"withheld_tasks": frozenset({"t3"})}, "foreign-task"),
        ({"planned": {"t1": -1}}, "planned-count"),
        ({"planned": {"t1": True}}, "planned-count"),
        ({"planned": {"t1": 1.0}}, "planned-count"),
        ({"declared_tries": 0}, "declared-tries"),
        ({"declared_tries": True}, "declared-tries"),
        ({"declared_tries": 3.0}, "declared-tries"),
    ],
)
def test_plans_that_cannot_be_are_refused(changes: dict[str, Any], code: str) -> None:
    """Family 10 for the opening statement."""
    good = plan_of({"t1": 3, "t2": 3})
    with pytest.raises(MalformedInputError) as caught:
        replace(good, **changes)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cost_nusd": -1}, "number"),
        ({"cost_nusd": 0.5}, "number"),
        ({"cost_nusd": float("nan")}, "number"),
        ({"cost_nusd": True}, "number"),
        ({"wall_ms": -1}, "number"),
        ({"wall_ms": float("inf")}, "number"),
        ({"index": 0}, "number"),
        ({"attempt": 0}, "number"),
        ({"outcome": Outcome.FAILED}, "reason-outcome"),
        ({"certificate": CertificateState.MISSING}, "certificate"),
        ({"certificate_digest": None}, "certificate"),
    ],
)
def test_tries_that_cannot_be_are_refused(changes: dict[str, Any], code: str) -> None:
    """Family 10 for a single try: NaN, negative or boolean numbers, a certificate that contradicts itself."""
    with pytest.raises(MalformedInputError) as caught:
        attest(BASE.plan, ("t1", 1), PASS, **changes)
    assert caught.value.code == code


def test_a_verified_try_is_sealed() -> None:
    """Nothing but the verifier's handover builds or changes a verified try."""
    made = attest(BASE.plan, ("t1", 1), PASS)
    with pytest.raises(TypeError):
        VerifiedTry(object(), task_id="t1")
    with pytest.raises(AttributeError):
        made.outcome = Outcome.FAILED


# --- never blended ---------------------------------------------------------------------------------------


class OtherResult(MethodologyResult):
    """A result of another methodology, as the later modules will define them."""

    methodology: ClassVar[str] = "badgeia-composite/2026-07"
    readings: ClassVar[tuple[Reading, ...]] = ()


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: b + a,
    lambda a, b: a - b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: b >= a,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: sorted([a, b]),
    lambda a, b: max(a, b),
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_results_of_two_methodologies_never_mix(operation: Any) -> None:
    """G-4, S3-5, family 9: a typed error that is a TypeError, not a warning."""
    card = BASE.card()
    with pytest.raises(MethodologyMixError) as caught:
        operation(card, OtherResult())
    assert caught.value.code == "methodology-mix"
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_two_cards_are_not_numbers_either(operation: Any) -> None:
    """S3-2: not even two cards of one methodology are added, averaged or ordered."""
    with pytest.raises(TypeError):
        operation(BASE.card(), screening("PF", "P").card())


def test_a_card_is_not_averaged_or_scaled() -> None:
    """S3-5, S3-6: sum, mean and scaling are refused."""
    card = BASE.card()
    blends: list[Callable[[Any], object]] = [sum, statistics.mean, lambda cards: 2 * cards[0]]
    for blend in blends:
        with pytest.raises(TypeError):
            blend([card, card])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"pack_version": "2"}, "pack-mix"),
        ({"pack_digest": "d" * 64}, "pack-mix"),
        ({"pack_id": "tau2-retail"}, "pack-mix"),
        ({"judge": "gpt-4.1-mini@2025-04-14"}, "judge-mix"),
    ],
)
def test_versions_packs_and_judges_are_kept_apart(changes: dict[str, Any], code: str) -> None:
    """S3-1, S3-2, S3-4, family 9."""
    card = BASE.card()
    require_comparable(card, screening("PF", "P", agent_id="agent-2").card())
    with pytest.raises(MethodologyMixError) as caught:
        require_comparable(card, screening("PF", "P", **changes).card())
    assert caught.value.code == code
    with pytest.raises(MethodologyMixError):
        require_comparable(card, OtherResult())


def test_a_card_is_frozen_and_carries_one_id() -> None:
    """G-4: the id is not a field that a caller could set."""
    card = BASE.card()
    assert card.methodology == PackScoreCard.methodology == "pack-score/1"
    assert {"precedence", "floor-denominator", "cost-pooled"} <= {r.code for r in card.readings}
    with pytest.raises(FrozenInstanceError):
        card.pack_score = Fraction(100)  # type: ignore[misc]
    with pytest.raises(TypeError):
        replace(card, methodology="other/1")  # type: ignore[call-arg]
