"""Each transition of table 4.2 on a real database: guard, effect, event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError, StateError
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.states import ScreeningState, SlotState
from orchestrator.ledger.transitions import (
    Answer,
    AttemptEnd,
    Claim,
    beat,
    cancel,
    claim,
    claim_message,
    claims_of,
    close,
    end_attempt,
    pause,
    queue,
    resume,
    start,
    stop_at_cap,
    stop_attempt,
)
from scoring.vocabulary import Phase, Reason

LEASE = 120_000
MakeEnd = Callable[..., AttemptEnd]


def running(
    ledger: Ledger, owner_id: str, tasks: int = 1, tries: int = 1, **options: Any
) -> tuple[str, Claim]:
    """A started screening with its first slot claimed."""
    screening = plan_stub(ledger, [f"task-{n}" for n in range(tasks)], tries=tries, **options)
    start(ledger, screening, who="test")
    queue(ledger, screening, 10)
    held = claim(ledger, screening, owner_id, lease_ms=LEASE)
    assert held is not None
    return screening, held


def slot_of(ledger: Ledger, held: Claim) -> Any:
    return queries.show_try(ledger, held.slot_id).row


def test_queue_fills_the_window_in_start_order(ledger: Ledger) -> None:
    """Transition 1: only a running screening, at most the window, lowest start order first."""
    screening = plan_stub(ledger, ["a", "b", "c"])
    assert queue(ledger, screening, 4) == 0
    start(ledger, screening, who="test")
    assert queue(ledger, screening, 4) == 4
    assert queue(ledger, screening, 4) == 0
    queued = queries.tries(ledger, screening, state=SlotState.QUEUED)
    assert sorted(view.row["start_order"] for view in queued) == [0, 1, 2, 3]


def test_queue_reserves_and_never_passes_the_cap(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """Invariant 6: the third try does not fit 250 nano-USD at 100 each, until a cheap one was settled."""
    screening, held = running(ledger, owner_id, tasks=4, cap_nusd=250, try_cap_nusd=100)
    assert queries.status(ledger, screening).reserved_nusd == 200
    assert queue(ledger, screening, 10) == 0
    assert stop_at_cap(ledger, screening) == 0
    assert end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED, nusd=20)) is Answer.RECORDED
    status = queries.status(ledger, screening)
    assert (status.used_nusd, status.reserved_nusd) == (20, 100)
    assert queue(ledger, screening, 10) == 1
    assert violations(ledger) == []


def test_cap_stop_ends_what_cannot_be_paid(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """4.3: running -> cap_stopped when no remaining slot fits the cap, and never while one may still."""
    screening, held = running(ledger, owner_id, tasks=3, cap_nusd=100, try_cap_nusd=100)
    assert stop_at_cap(ledger, screening) == 0
    end_attempt(ledger, held, end(Reason.WRONG_OUTPUT, nusd=60))
    assert stop_at_cap(ledger, screening) == 2
    assert close(ledger, screening, who="test") is ScreeningState.CAP_STOPPED
    assert violations(ledger) == []


def test_claim_waits_for_its_time(ledger: Ledger, owner_id: str, clock: Any) -> None:
    """A slot whose start is in the future is neither queued nor claimed before it."""
    screening = plan_stub(ledger, ["a"], tries=1, window_ms=1000, start_ms=clock.now_ms + 5000)
    start(ledger, screening, who="test")
    assert queue(ledger, screening, 5) == 0
    assert claim(ledger, screening, owner_id, lease_ms=LEASE) is None
    clock.now_ms += 6001
    assert queue(ledger, screening, 5) == 1
    assert claim(ledger, screening, owner_id, lease_ms=LEASE) is not None


def test_claim_message_refuses_stale_and_duplicate_messages(
    ledger: Ledger, owner_id: str, end: MakeEnd
) -> None:
    """Transition 3: a message is a hint; the wrong generation or a second delivery gets nothing."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    slot = queries.tries(ledger, screening)[0].row
    assert claim_message(ledger, slot["id"], slot["generation"] + 1, owner_id, lease_ms=LEASE) is None
    held = claim_message(ledger, slot["id"], slot["generation"], owner_id, lease_ms=LEASE)
    assert held is not None
    assert claim_message(ledger, slot["id"], slot["generation"], owner_id, lease_ms=LEASE) is None
    end_attempt(ledger, held, end(Reason.ENGINE_ERROR), back_off_ms=0)
    assert claim_message(ledger, slot["id"], slot["generation"], owner_id, lease_ms=LEASE) is None


def test_record_is_idempotent_and_fenced(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """Transition 5: the same token and digest twice is one record; another digest is refused and noted."""
    screening, held = running(ledger, owner_id)
    assert end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED)) is Answer.RECORDED
    assert end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED)) is Answer.ALREADY_RECORDED
    assert end_attempt(ledger, held, end(Reason.WRONG_OUTPUT, digest="b" * 64)) is Answer.REFUSED
    assert queries.status(ledger, screening).used_nusd == 7
    assert [event["kind"] for event in queries.history(ledger, screening)][-2:] == ["ended", "refused"]
    assert close(ledger, screening, who="test") is ScreeningState.COMPLETE
    assert close(ledger, screening, who="test") is ScreeningState.COMPLETE


def test_platform_faults_run_again_twice_and_are_paid_by_the_platform(
    ledger: Ledger, owner_id: str, end: MakeEnd, clock: Any
) -> None:
    """Transitions 6 and 7: three faults, every attempt kept, back-off growing, agent pays nothing."""
    screening, held = running(ledger, owner_id)
    waits = []
    for number in (1, 2, 3):
        assert held.number == number
        answer = end_attempt(ledger, held, end(Reason.ENGINE_ERROR, digest=f"{number}" * 64), back_off_ms=100)
        waits.append(slot_of(ledger, held)["not_before_ms"] - clock.now_ms)
        assert claim(ledger, screening, owner_id, lease_ms=LEASE) is None
        clock.now_ms += 300
        held = claim(ledger, screening, owner_id, lease_ms=LEASE) or held
    assert answer is Answer.UNCOUNTABLE
    assert waits[:2] == [100, 200]
    view = queries.show_try(ledger, held.slot_id)
    assert [attempt.row["state"] for attempt in view.attempts] == ["void"] * 3
    assert [attempt.row["token"] for attempt in view.attempts] == [1, 2, 3]
    status = queries.status(ledger, screening)
    assert (status.used_nusd, status.platform_nusd, status.reruns) == (0, 21, 2)
    assert close(ledger, screening, who="test") is ScreeningState.PARTIAL
    assert violations(ledger) == []


def test_not_evaluable_is_not_run_again(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """The published conditions would be the same: uncountable at once, screening not_evaluable."""
    screening, held = running(ledger, owner_id)
    assert end_attempt(ledger, held, end(Reason.AGENT_NOT_STARTABLE)) is Answer.UNCOUNTABLE
    assert close(ledger, screening, who="test") is ScreeningState.NOT_EVALUABLE


def test_a_counted_end_needs_evidence(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """Nothing counts without a manifest; a void attempt may have lost it."""
    _, held = running(ledger, owner_id)
    with pytest.raises(LedgerError, match="without evidence"):
        end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED, digest=None))
    assert end_attempt(ledger, held, end(Reason.WORKER_LOST, digest=None)) is Answer.REQUEUED


def test_a_zombie_is_refused_after_its_slot_was_taken_over(
    ledger: Ledger, owner_id: str, end: MakeEnd
) -> None:
    """Fencing: the first holder's record changes nothing once the slot has a new token."""
    screening, zombie = running(ledger, owner_id)
    end_attempt(ledger, zombie, end(Reason.WORKER_LOST, digest=None), back_off_ms=0, who="reaper")
    successor = claim(ledger, screening, owner_id, lease_ms=LEASE)
    assert successor is not None and successor.token > zombie.token
    assert end_attempt(ledger, zombie, end(Reason.ALL_CHECKS_PASSED)) is Answer.REFUSED
    assert zombie.attempt_id not in beat(ledger, owner_id, {}, lease_ms=LEASE).live
    assert end_attempt(ledger, successor, end(Reason.WRONG_OUTPUT, digest="c" * 64)) is Answer.RECORDED
    assert violations(ledger) == []


def test_beat_renews_the_lease_and_stores_the_phase(ledger: Ledger, owner_id: str, clock: Any) -> None:
    """Transition 4: lease from the database clock, phase for attribution, no event."""
    screening, held = running(ledger, owner_id)
    before = len(queries.history(ledger, screening))
    clock.now_ms += 50_000
    answer = beat(ledger, owner_id, {held.attempt_id: Phase.AGENT}, lease_ms=LEASE)
    assert answer.live == {held.attempt_id} and not answer.cancelled
    row = queries.show_attempt(ledger, held.attempt_id).row
    assert (row["phase"], row["lease_until_ms"]) == ("agent", clock.now_ms + LEASE)
    assert len(queries.history(ledger, screening)) == before


def test_cancel_reaches_waiting_slots_at_once_and_running_ones_by_heartbeat(
    ledger: Ledger, owner_id: str, end: MakeEnd
) -> None:
    """Transitions 9 and 10; the cancelled attempt is kept, has no outcome and costs the agent nothing."""
    screening, held = running(ledger, owner_id, tasks=3)
    assert cancel(ledger, screening, who="test") == 2
    assert cancel(ledger, screening, who="test") == 0
    assert queue(ledger, screening, 5) == 0
    assert claim(ledger, screening, owner_id, lease_ms=LEASE) is None
    assert beat(ledger, owner_id, {}, lease_ms=LEASE).cancelled == {held.attempt_id}
    assert close(ledger, screening, who="test") is None
    assert stop_attempt(ledger, held, who="test", nusd=5) is Answer.CANCELLED
    assert close(ledger, screening, who="test") is ScreeningState.CANCELLED
    status = queries.status(ledger, screening)
    assert (status.used_nusd, status.platform_nusd, status.reruns) == (0, 5, 0)
    assert violations(ledger) == []


def test_a_stopped_process_gives_its_slot_back(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """Ctrl-C twice: the try runs again under its number, no re-run used, interruption kept."""
    screening, held = running(ledger, owner_id)
    assert stop_attempt(ledger, held, who="test") is Answer.REQUEUED
    again = claim(ledger, screening, owner_id, lease_ms=LEASE)
    assert again is not None
    assert (again.number, again.reruns, again.token) == (held.number, 0, held.token + 1)
    assert slot_of(ledger, held)["interruptions"] == 1
    assert queries.certifiable(ledger) == []
    end_attempt(ledger, again, end(Reason.ALL_CHECKS_PASSED))
    assert close(ledger, screening, who="test") is ScreeningState.COMPLETE
    assert violations(ledger) == []


def test_pause_returns_the_window_and_lets_running_tries_finish(
    ledger: Ledger, owner_id: str, end: MakeEnd
) -> None:
    """Transition 11: queued -> planned with reservations given back; nothing starts until resumed."""
    screening, held = running(ledger, owner_id, tasks=3, cap_nusd=1000, try_cap_nusd=100)
    assert pause(ledger, screening, who="test") and not pause(ledger, screening, who="test")
    status = queries.status(ledger, screening)
    assert (status.slots[SlotState.PLANNED], status.reserved_nusd) == (2, 100)
    assert queue(ledger, screening, 5) == 0
    assert end_attempt(ledger, held, end(Reason.WRONG_OUTPUT)) is Answer.RECORDED
    assert resume(ledger, screening, who="test")
    assert queue(ledger, screening, 5) == 2
    assert violations(ledger) == []


def test_a_fault_after_a_pause_or_a_cancel(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """A slot that comes back is not claimed while its screening is paused, and is cancelled with it."""
    screening, held = running(ledger, owner_id)
    pause(ledger, screening, who="test")
    assert end_attempt(ledger, held, end(Reason.ENGINE_ERROR), back_off_ms=0) is Answer.REQUEUED
    assert claim(ledger, screening, owner_id, lease_ms=LEASE) is None
    resume(ledger, screening, who="test")
    again = claim(ledger, screening, owner_id, lease_ms=LEASE)
    assert again is not None
    cancel(ledger, screening, who="test")
    answer = end_attempt(ledger, again, end(Reason.SANDBOX_LOST, digest="2" * 64), back_off_ms=0)
    assert answer is Answer.CANCELLED
    assert close(ledger, screening, who="test") is ScreeningState.CANCELLED
    assert violations(ledger) == []


def test_the_same_identity_is_planned_once_while_open(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """The same command resumes; after the close a new screening may be planned (S4-29)."""
    screening, held = running(ledger, owner_id)
    with pytest.raises(StateError, match=screening):
        plan_stub(ledger, ["task-0"], tries=1)
    end_attempt(ledger, held, end(Reason.ALL_CHECKS_PASSED))
    close(ledger, screening, who="test")
    assert plan_stub(ledger, ["task-0"], tries=1) != screening


def test_steps_from_the_wrong_state_change_nothing(ledger: Ledger) -> None:
    """Screening transitions name the state they expect."""
    screening = plan_stub(ledger, ["a"])
    for step in (pause, resume):
        with pytest.raises(StateError, match="planned"):
            step(ledger, screening, who="test")
    with pytest.raises(StateError, match="unknown"):
        start(ledger, "nothing", who="test")
    with pytest.raises(StateError, match="unknown"):
        cancel(ledger, "nothing", who="test")
    with pytest.raises(StateError, match="no screening"):
        close(ledger, "nothing", who="test")
    assert close(ledger, screening, who="test") is None


def test_claims_of_finds_what_an_owner_still_holds(ledger: Ledger, owner_id: str, end: MakeEnd) -> None:
    """What a take-over works on equals what the holder was given."""
    _, held = running(ledger, owner_id)
    assert claims_of(ledger, [owner_id]) == [held]
    end_attempt(ledger, held, end(Reason.WRONG_OUTPUT))
    assert claims_of(ledger, [owner_id]) == []
