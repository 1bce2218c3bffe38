"""From certificates to the scorer's input, and what suppressing them does to a score."""

from __future__ import annotations

import random
from typing import Any

import pytest

from orchestrator import handover
from orchestrator.certificates import bundle
from orchestrator.verification.errors import VerificationError
from scoring.classify import View
from scoring.pack_score import score_pack
from scoring.tries import CertificateState
from scoring.vocabulary import Outcome, Reason


def files_of(shot: Any) -> bundle.ScreeningFiles:
    return bundle.decode_screening(shot.pack())


def take(world: Any, files: bundle.ScreeningFiles) -> handover.Handover:
    return handover.from_files(files, world.trust, pack_is_current=True)


def damaged(raw: bytes) -> bytes:
    """A try bundle whose signature no longer fits."""
    parts = bundle.decode_try(raw)
    cut = parts.envelope.replace(b'"sig":"', b'"sig":"AAAA', 1)
    return bundle.encode_try(cut[: len(parts.envelope) - 8] + parts.envelope[-8:], parts.manifest)


def test_plan_and_tries_of_a_whole_screening(world: Any, lab: Any) -> None:
    """The opening becomes the plan; each slot gives its last attempt, in plan order."""
    shot = world.screening().usual()
    given = handover.from_bundle(shot.pack(), world.trust, pack_is_current=True, store=world.store)
    assert given.result.exit_code == 0
    assert given.plan.pack_tasks == lab.TASKS
    assert given.plan.planned == dict.fromkeys(lab.TASKS, 3)
    assert given.plan.declared_tries == 3
    assert given.plan.judge == "programmatic"
    assert [(one.task_id, one.index) for one in given.tries] == [(t, k) for t in lab.TASKS for k in (1, 2, 3)]
    assert {one.certificate for one in given.tries} == {CertificateState.VALID}
    by_slot = {(one.task_id, one.index): one for one in given.tries}
    assert by_slot["beta", 2].attempt == 2 and by_slot["beta", 2].outcome is Outcome.PASSED
    assert by_slot["beta", 1].reason is Reason.TIMEOUT
    assert by_slot["alpha", 1].cost_nusd == 0
    assert by_slot["alpha", 1].wall_ms == 12_345
    digests = {signed.digest for signed, _ in shot.certificates}
    assert {one.certificate_digest for one in given.tries} < digests


def test_missing_gives_nothing_and_broken_gives_invalid(world: Any) -> None:
    """A removed file leaves only the plan; a file that lost its content is known by its number."""
    files = files_of(world.screening().usual())
    without = bundle.ScreeningFiles(files.opening, files.tries[1:], files.summary)
    given = take(world, without)
    assert given.result.exit_code == 1
    assert ("alpha", 1) not in {(one.task_id, one.index) for one in given.tries}
    assert given.plan.planned["alpha"] == 3
    number, raw = files.tries[0]
    broken = bundle.ScreeningFiles(files.opening, ((number, damaged(raw)), *files.tries[1:]), files.summary)
    given = take(world, broken)
    first = given.tries[0]
    assert (first.task_id, first.index, first.certificate) == ("alpha", 1, CertificateState.INVALID)
    assert first.outcome is Outcome.PASSED and first.cost_nusd is None
    assert given.result.accounting.unaccounted == 1


def test_invalid_certificate_of_a_planned_slot(world: Any, lab: Any) -> None:
    """Signed but contradicting the opening: the slot is there, its certificate does not hold."""
    shot = world.screening().usual()
    files = files_of(shot)
    signed, _ = shot.certificates[0]
    data = lab.changed(signed.envelope, "predicate", "judge", "gpt-5@2026-01-01")
    raw = bundle.encode_try(lab.resign(data), signed.manifest)
    given = take(world, bundle.ScreeningFiles(files.opening, ((1, raw), *files.tries[1:]), files.summary))
    assert given.tries[0].certificate is CertificateState.INVALID
    assert given.result.accounting.invalid == 1


def test_certificates_of_others_never_enter(world: Any, lab: Any) -> None:
    """A good certificate of another screening is not a try of this one."""
    files = files_of(world.screening().usual())
    foreign = world.screening("other").run("alpha", 1, lab.PASS)
    raw = bundle.encode_try(foreign.envelope, foreign.manifest)
    given = take(world, bundle.ScreeningFiles(files.opening, ((99, raw),), files.summary))
    assert given.tries == ()


def test_opening_that_does_not_hold_is_refused(world: Any, lab: Any) -> None:
    """Without the promise there is nothing to score."""
    files = files_of(world.screening().usual())
    opening = lab.resign(lab.payload_of(files.opening), lab.key("attacker"))
    with pytest.raises(VerificationError) as caught:
        take(world, bundle.ScreeningFiles(opening, files.tries, files.summary))
    assert caught.value.reasons == ("no-trusted-key",)
    wrong = lab.changed(files.opening, "predicate", "conditions", "comparability", {"sha256": "0" * 64})
    with pytest.raises(VerificationError, match="comparability"):
        take(world, bundle.ScreeningFiles(lab.resign(wrong), files.tries, files.summary))


def test_open_screening_can_be_handed_over(world: Any, lab: Any) -> None:
    """Before the summary: the tries so far, and a result that says it is not closed."""
    shot = world.screening()
    shot.run("alpha", 1, lab.PASS)
    tries = tuple(enumerate(shot.tries(), 1))
    given = take(world, bundle.ScreeningFiles(shot.opening.envelope, tries, None))
    assert len(given.tries) == 1
    assert set(given.result.reasons) == {"summary-missing", "unaccounted"}


def score(given: handover.Handover) -> Any:
    return score_pack(given.plan, given.tries, view=View.PUBLIC, do_nothing_floor=None)


def test_losing_pass_certificates_never_raises_the_score(world: Any) -> None:
    """Property (issue of certificates): removing or corrupting any set of pass certificates never raises
    the Pack Score, and always shows in the verification."""
    files = files_of(world.screening().usual())
    whole = take(world, files)
    best = score(whole)
    passes = {
        one.number
        for one in whole.result.tries
        if one.predicate is not None and one.predicate["result"]["outcome"] == "passed"
    }
    chance = random.Random(3)
    for _ in range(60):
        chosen = {number for number in passes if chance.random() < 0.5}
        if not chosen:
            continue
        removed = tuple(pair for pair in files.tries if pair[0] not in chosen)
        broken = tuple((n, damaged(raw)) if n in chosen else (n, raw) for n, raw in files.tries)
        for tries in (removed, broken):
            given = take(world, bundle.ScreeningFiles(files.opening, tries, files.summary))
            card = score(given)
            assert card.pack_score is None or card.pack_score <= best.pack_score
            assert given.result.exit_code == 1
            # A pass that replaced a platform fault leaves its slot lost by the platform.
            sums = given.result.accounting
            assert sums.unaccounted + sums.uncountable == len(chosen)


def test_losing_any_record_always_shows(world: Any) -> None:
    """Property: removing any set of records of any kind raises a visible counter, also when the lab itself
    leaves them out of its summary."""
    chance = random.Random(4)
    shot = world.screening().usual()
    everything = list(shot.certificates)
    floor = score(take(world, files_of(shot))).floor
    for _ in range(40):
        shot.certificates = [pair for pair in everything if chance.random() < 0.7]
        if len(shot.certificates) == len(everything):
            continue
        given = take(world, files_of(shot))
        lost = {(p.task.id, p.slot.index) for _, p in everything}
        lost -= {(p.task.id, p.slot.index) for _, p in shot.certificates}
        assert given.result.accounting.unaccounted + given.result.accounting.invalid >= len(lost)
        assert given.result.exit_code in (1, 4)
        assert score(given).floor is None or score(given).floor <= floor
