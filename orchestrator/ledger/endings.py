"""Transitions 5, 6, 7 and 10: how an attempt ends, and what that makes of its slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ids import new_id
from orchestrator.ledger.claims import Claim
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError
from orchestrator.ledger.history import INSERT_EVENT, event_row
from orchestrator.ledger.models import Attempt, Evidence, Screening, SpendEntry, TrySlot
from orchestrator.ledger.retry import retried
from orchestrator.ledger.states import (
    OPERATOR_CANCELLED,
    AttemptState,
    Ending,
    SlotState,
    ending_of,
    in_stopped_screening,
    interruption,
)
from scoring.vocabulary import Outcome, Phase, Reason

BACK_OFF_MS: Final = 2_000
"""Pause before the first re-run after a platform fault; the second one waits twice as long."""

_INSERT_EVIDENCE: Final = sa.insert(Evidence)
_INSERT_SPEND: Final = sa.insert(SpendEntry)


@dataclass(frozen=True)
class AttemptEnd:
    """How an attempt ended, as the ledger keeps it (see `orchestrator.attempts.AttemptReport`).

    `manifest_digest` is None only for a void attempt that left no evidence. `nusd` is
    the metered cost in nano-USD, None where nothing was metered. `details` is plain JSON data without
    floats: phase times, observations, the evidence names of the fault rule.
    """

    outcome: Outcome
    reason: Reason
    phase: Phase
    rule: str
    suspect: bool = False
    manifest_digest: str | None = None
    nusd: int | None = None
    reward: str | None = None
    checks_passed: int | None = None
    checks_total: int | None = None
    wall_ms: int | None = None
    handed_off_ms: int | None = None
    finished_ms: int | None = None
    runtime: str | None = None
    details: Mapping[str, Any] | None = None


class Answer(StrEnum):
    """What became of a request to end an attempt."""

    RECORDED = "recorded"
    REQUEUED = "requeued"
    UNCOUNTABLE = "uncountable"
    CANCELLED = "cancelled"
    ALREADY_RECORDED = "already_recorded"
    LEASE_RENEWED = "lease_renewed"
    REFUSED = "refused"


_ANSWER: Final = {
    SlotState.RECORDED: Answer.RECORDED,
    SlotState.QUEUED: Answer.REQUEUED,
    SlotState.UNCOUNTABLE: Answer.UNCOUNTABLE,
    SlotState.CANCELLED: Answer.CANCELLED,
}


def end_attempt(
    ledger: Ledger,
    held: Claim,
    end: AttemptEnd,
    *,
    who: str | None = None,
    back_off_ms: int = BACK_OFF_MS,
    if_lease_until_ms: int | None = None,
) -> Answer:
    """Transitions 5, 6, 7: record the attempt, or void it and queue or give up its slot.

    Idempotent: the same token with the same manifest digest answers `ALREADY_RECORDED`. A token that is
    no longer current answers `REFUSED`, changes nothing and leaves an event. A reaper names the end of the
    lease that it watched, in `if_lease_until_ms`: when the worker has come back and renewed it meanwhile,
    nothing changes and the answer is `LEASE_RENEWED`. `LedgerError` when an attempt that counts comes without
    evidence.
    """
    ending = ending_of(end.outcome, held.reruns, held.rerun_limit)
    if ending.attempt is AttemptState.RECORDED and end.manifest_digest is None:
        raise LedgerError(f"attempt {held.attempt_id} is {end.outcome} without evidence")
    ended = {
        "state": ending.attempt,
        "outcome": end.outcome,
        "reason": end.reason,
        "phase": end.phase,
        "rule": end.rule,
        "suspect": end.suspect,
        "reward": end.reward,
        "checks_passed": end.checks_passed,
        "checks_total": end.checks_total,
        "wall_ms": end.wall_ms,
        "handed_off_ms": end.handed_off_ms,
        "finished_ms": end.finished_ms,
        "runtime": end.runtime,
        "details": None if end.details is None else dict(end.details),
    }
    wait_ms = back_off_ms * (held.reruns + 1)
    return _end(
        ledger, held, ending, ended, end, who or held.owner_id, wait_ms, if_lease_until_ms=if_lease_until_ms
    )


def stop_attempt(ledger: Ledger, held: Claim, *, who: str, nusd: int | None = None) -> Answer:
    """End an attempt that the operator stopped: transition 10, or back to the queue.

    Its slot is cancelled when the screening was cancelled and queued again when only a process was stopped
    (see `orchestrator.ledger.states.interruption`). Never a platform fault, never a re-run used up; what
    it cost is the platform's.
    """
    ending = interruption()
    ended = {"state": ending.attempt, "reason": OPERATOR_CANCELLED}
    return _end(ledger, held, ending, ended, None, who, 0, nusd)


@retried
def _end(
    ledger: Ledger,
    held: Claim,
    ending: Ending,
    ended: Mapping[str, Any],
    end: AttemptEnd | None,
    who: str,
    wait_ms: int,
    nusd: int | None = None,
    if_lease_until_ms: int | None = None,
) -> Answer:
    live = (Attempt.id == held.attempt_id, Attempt.token == held.token, Attempt.state == AttemptState.LIVE)
    lease = () if if_lease_until_ms is None else (Attempt.lease_until_ms == if_lease_until_ms,)
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        won = connection.execute(sa.update(Attempt).where(*live, *lease).values(ended_ms=now, **ended))
        if won.rowcount != 1:
            if lease and connection.scalar(sa.select(Attempt.id).where(*live)):
                return Answer.LEASE_RENEWED
            return _late(connection, held, None if end is None else end.manifest_digest, who, now)
        if not ending.final and _is_stopped(connection, held.screening_id):
            ending = in_stopped_screening(ending)
        reserved = _settle_slot(connection, held, ending, end, now + wait_ms, now)
        _settle_money(connection, held, ending, reserved, end.nusd if end else nusd, now)
        if end is not None and end.manifest_digest is not None:
            connection.execute(
                _INSERT_EVIDENCE,
                {"attempt_id": held.attempt_id, "manifest_digest": end.manifest_digest, "at_ms": now},
            )
        connection.execute(
            INSERT_EVENT,
            event_row(
                now,
                held.screening_id,
                "ended",
                who,
                slot_id=held.slot_id,
                attempt_id=held.attempt_id,
                from_state=SlotState.RUNNING,
                to_state=ending.slot,
                reason=end.reason if end else OPERATOR_CANCELLED,
                data={"token": held.token, "outcome": end.outcome if end else None},
            ),
        )
        return _ANSWER[ending.slot]


def _is_stopped(connection: Connection, screening_id: str) -> bool:
    query = (
        sa.select(Screening.stop_reason).where(Screening.id == screening_id).with_for_update(key_share=True)
    )
    return connection.scalar(query) is not None


def _settle_slot(
    connection: Connection, held: Claim, ending: Ending, end: AttemptEnd | None, not_before: int, now: int
) -> int:
    """Move the slot on and return what was reserved for it; the caller has won the attempt row."""
    values: dict[str, Any] = {"state": ending.slot, "updated_ms": now}
    if ending.final:
        values["reserved_nusd"] = 0
        if end is not None and ending.slot is not SlotState.CANCELLED:
            values |= {"outcome": end.outcome, "reason": end.reason}
        else:
            values["reason"] = OPERATOR_CANCELLED
    else:
        # A new generation: a message that was sent before the fault must not start the re-run.
        # Its own message has yet to be sent, once it may start again.
        values |= {"generation": TrySlot.generation + 1, "not_before_ms": not_before, "sent_ms": None}
    if ending.rerun:
        values["reruns"] = TrySlot.reruns + 1
    if end is None:
        values["interruptions"] = TrySlot.interruptions + 1
    reserved = 0
    if ending.final:
        reserved = int(
            connection.scalar(sa.select(TrySlot.reserved_nusd).where(TrySlot.id == held.slot_id)) or 0
        )
    connection.execute(
        sa.update(TrySlot)
        .where(TrySlot.id == held.slot_id, TrySlot.token == held.token, TrySlot.state == SlotState.RUNNING)
        .values(**values)
    )
    return reserved


def _settle_money(
    connection: Connection, held: Claim, ending: Ending, reserved: int, nusd: int | None, now: int
) -> None:
    """Release the reservation of an ended slot; book the cost to the agent only if the attempt counts."""
    payer = "agent" if ending.attempt is AttemptState.RECORDED else "platform"
    if nusd is not None:
        connection.execute(
            _INSERT_SPEND,
            {
                "id": new_id(now),
                "screening_id": held.screening_id,
                "attempt_id": held.attempt_id,
                "nusd": nusd,
                "payer": payer,
                "at_ms": now,
            },
        )
    used = nusd if nusd is not None and payer == "agent" else 0
    if used or reserved:
        connection.execute(
            sa.update(Screening)
            .where(Screening.id == held.screening_id)
            .values(used_nusd=Screening.used_nusd + used, reserved_nusd=Screening.reserved_nusd - reserved)
        )


def _late(connection: Connection, held: Claim, digest: str | None, who: str, now: int) -> Answer:
    """The token is not live any more: a repeat of a finished record, or a zombie."""
    known = connection.execute(
        sa.select(Attempt.state, Attempt.outcome, Evidence.manifest_digest)
        .outerjoin(Evidence, Evidence.attempt_id == Attempt.id)
        .where(Attempt.id == held.attempt_id, Attempt.token == held.token)
    ).first()
    if known is not None and digest is not None and known.manifest_digest == digest:
        return Answer.ALREADY_RECORDED
    connection.execute(
        INSERT_EVENT,
        event_row(
            now,
            held.screening_id,
            "refused",
            who,
            slot_id=held.slot_id,
            attempt_id=held.attempt_id,
            reason="stale_token",
            data={"token": held.token},
        ),
    )
    return Answer.REFUSED
