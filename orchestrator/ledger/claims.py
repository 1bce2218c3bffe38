"""Transitions 3 and 4: taking a slot, and keeping it with heartbeats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from orchestrator.ids import new_id
from orchestrator.ledger import waits
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.history import INSERT_EVENT, event_row
from orchestrator.ledger.models import Attempt, Host, HostOwner, Screening, TrySlot, Worker
from orchestrator.ledger.placement import Size, refusal
from orchestrator.ledger.providers import ProviderFullError, require_place
from orchestrator.ledger.retry import retried
from orchestrator.ledger.states import AttemptState, ScreeningState, SlotState
from scoring.vocabulary import Phase


@dataclass(frozen=True)
class Claim:
    """One acquisition of a slot: only its holder, by `token`, may end the attempt."""

    screening_id: str
    slot_id: str
    attempt_id: str
    task_id: str
    k: int
    token: int
    number: int
    reruns: int
    rerun_limit: int
    claimed_ms: int
    deadline_ms: int
    owner_id: str


@dataclass(frozen=True)
class Beat:
    """The answer to a heartbeat: which attempts still hold their token, and which must stop; `draining`:
    the owner's host takes no further try.

    An attempt in neither set is a zombie: it must kill its container and may record nothing.
    """

    now_ms: int
    live: frozenset[str]
    cancelled: frozenset[str]
    draining: bool = False


_OPEN_SCREENING: Final = (
    sa.select(Screening.id)
    .where(
        Screening.id == TrySlot.screening_id,
        Screening.state == ScreeningState.RUNNING,
        Screening.stop_reason.is_(None),
    )
    .exists()
)

_NEXT_SLOT: Final = (
    sa.select(TrySlot.id)
    .where(
        TrySlot.screening_id == sa.bindparam("screening"),
        TrySlot.state == SlotState.QUEUED,
        TrySlot.not_before_ms <= sa.bindparam("now"),
    )
    .order_by(TrySlot.start_order)
    .limit(1)
    # PostgreSQL only (it compiles to nothing on SQLite): a slot that another worker is just taking is passed
    # over, not waited for. Correctness never rests on it, the UPDATE below is what claims.
    .with_for_update(skip_locked=True, key_share=True)
    .scalar_subquery()
)

_CLAIM: Final = (
    sa.update(TrySlot)
    .where(TrySlot.state == SlotState.QUEUED, _OPEN_SCREENING)
    .values(state=SlotState.RUNNING, token=TrySlot.token + 1, updated_ms=sa.bindparam("now"))
    .returning(
        TrySlot.id,
        TrySlot.screening_id,
        TrySlot.task_id,
        TrySlot.k,
        TrySlot.token,
        TrySlot.reruns,
        TrySlot.limit_ms,
        sa.select(Screening.rerun_limit)
        .where(Screening.id == TrySlot.screening_id)
        .scalar_subquery()
        .label("rerun_limit"),
        sa.select(Screening.providers)
        .where(Screening.id == TrySlot.screening_id)
        .scalar_subquery()
        .label("providers"),
    )
)
_CLAIM_NEXT: Final = _CLAIM.where(TrySlot.id == _NEXT_SLOT)
_CLAIM_MESSAGE: Final = _CLAIM.where(
    TrySlot.id == sa.bindparam("slot"), TrySlot.generation == sa.bindparam("expected_generation")
)
_DRAINING: Final = (
    sa.select(Host.name)
    .join(Worker, Worker.host_name == Host.name)
    .where(Worker.id == sa.bindparam("worker"), Host.draining)
)
_CLAIM_ON_HOST: Final = _CLAIM_MESSAGE.where(sa.not_(_DRAINING.exists()))
_INSERT_ATTEMPT: Final = sa.insert(Attempt)


def claim(ledger: Ledger, screening_id: str, owner_id: str, *, lease_ms: int) -> Claim | None:
    """Transition 3 on the first queued slot of the screening that may start now; None if there is none.

    Raises `ProviderFullError` where a provider of the screening has no place for it; nothing is claimed then,
    and that the screening waits is noted.
    """
    try:
        return _claim_next(ledger, screening_id, owner_id, lease_ms)
    except ProviderFullError:
        _note_wait(ledger, screening_id)
        raise


@retried
def _note_wait(ledger: Ledger, screening_id: str) -> None:
    with ledger.unit_of_work() as connection:
        waits.note(connection, [screening_id], ledger.clock(connection))


@retried
def _claim_next(ledger: Ledger, screening_id: str, owner_id: str, lease_ms: int) -> Claim | None:
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        row = connection.execute(_CLAIM_NEXT, {"screening": screening_id, "now": now}).first()
        if row is None:
            return None
        # Asked after the claim: where no limit holds, which is the rule, it costs no query.
        require_place(connection, screening_id, row.providers, now)
        return _claimed(connection, row, owner_id, lease_ms, now)


@retried
def claim_message(
    ledger: Ledger,
    slot_id: str,
    generation: int,
    owner_id: str,
    *,
    lease_ms: int,
    worker_id: str | None = None,
    room: Size | None = None,
) -> Claim | None:
    """Transition 3 for a message `{slot, generation}`; None refuses it quietly (stale or duplicate).

    Nothing is claimed for a worker whose host is draining. With `room`, the size of that host, raises
    `HostFullError` for a try that does not fit beside what all workers of the host run, or is in the way of
    one that waits there for long.
    """
    with ledger.unit_of_work() as connection:
        refused = None
        if worker_id is not None and room is not None:
            refused = refusal(ledger, connection, slot_id, worker_id, room)
        if refused is None:
            now = ledger.clock(connection)
            values = {"slot": slot_id, "expected_generation": generation, "now": now}
            if worker_id is None:
                row = connection.execute(_CLAIM_MESSAGE, values).first()
            else:
                row = connection.execute(_CLAIM_ON_HOST, {**values, "worker": worker_id}).first()
            return None if row is None else _claimed(connection, row, owner_id, lease_ms, now)
    # After the unit: the wait that was noted in it stays.
    raise refused


def _claimed(connection: Connection, row: sa.Row[Any], owner_id: str, lease_ms: int, now: int) -> Claim:
    held = Claim(
        screening_id=row.screening_id,
        slot_id=row.id,
        attempt_id=new_id(now),
        task_id=row.task_id,
        k=row.k,
        token=row.token,
        number=row.reruns + 1,
        reruns=row.reruns,
        rerun_limit=row.rerun_limit,
        claimed_ms=now,
        deadline_ms=now + row.limit_ms,
        owner_id=owner_id,
    )
    connection.execute(
        _INSERT_ATTEMPT,
        {
            "id": held.attempt_id,
            "slot_id": held.slot_id,
            "screening_id": held.screening_id,
            "token": held.token,
            "number": held.number,
            "state": AttemptState.LIVE,
            "phase": Phase.PREPARE,
            "owner_id": owner_id,
            "lease_until_ms": now + lease_ms,
            "deadline_ms": held.deadline_ms,
            "claimed_ms": now,
        },
    )
    connection.execute(
        INSERT_EVENT,
        event_row(
            now,
            held.screening_id,
            "claimed",
            owner_id,
            slot_id=held.slot_id,
            attempt_id=held.attempt_id,
            from_state=SlotState.QUEUED,
            to_state=SlotState.RUNNING,
            data={"token": held.token, "number": held.number},
        ),
    )
    return held


@retried
def beat(ledger: Ledger, owner_id: str, phases: Mapping[str, Phase], *, lease_ms: int) -> Beat:
    """Transition 4 for every live attempt of this owner: renew the leases, store the phases, take orders.

    `phases` maps attempt id to the phase it is in now. No event is written: a beat changes no state.
    """
    with ledger.unit_of_work() as connection:
        now = ledger.clock(connection)
        connection.execute(sa.update(HostOwner).where(HostOwner.id == owner_id).values(beaten_ms=now))
        rows = connection.execute(
            sa.update(Attempt)
            .where(Attempt.owner_id == owner_id, Attempt.state == AttemptState.LIVE)
            .values(lease_until_ms=now + lease_ms)
            .returning(Attempt.id, Attempt.phase)
        ).all()
        changed = [
            {"attempt": row.id, "now_in": phases[row.id]}
            for row in rows
            if row.id in phases and phases[row.id] != row.phase
        ]
        if changed:
            connection.execute(
                sa.update(Attempt)
                .where(Attempt.id == sa.bindparam("attempt"), Attempt.state == AttemptState.LIVE)
                .values(phase=sa.bindparam("now_in"))
                .execution_options(synchronize_session=None),
                changed,
            )
        live = frozenset(row.id for row in rows)
        return Beat(now, live, _stopped(connection, owner_id), _draining(connection, owner_id))


def _draining(connection: Connection, owner_id: str) -> bool:
    query = (
        sa.select(Host.draining)
        .join(Worker, Worker.host_name == Host.name)
        .join(HostOwner, HostOwner.worker_id == Worker.id)
        .where(HostOwner.id == owner_id)
    )
    return bool(connection.scalar(query))


def _stopped(connection: Connection, owner_id: str) -> frozenset[str]:
    query = (
        sa.select(Attempt.id)
        .join(Screening, Screening.id == Attempt.screening_id)
        .where(
            Attempt.owner_id == owner_id,
            Attempt.state == AttemptState.LIVE,
            Screening.stop_reason == ScreeningState.CANCELLED,
        )
    )
    return frozenset(connection.scalars(query))


def claims_of(ledger: Ledger, owner_ids: Collection[str]) -> list[Claim]:
    """The live attempts of the given owners, as claims; for a take-over, oldest first."""
    query = (
        sa.select(Attempt, TrySlot, Screening.rerun_limit)
        .join(TrySlot, TrySlot.id == Attempt.slot_id)
        .join(Screening, Screening.id == Attempt.screening_id)
        .where(Attempt.owner_id.in_(owner_ids), Attempt.state == AttemptState.LIVE)
        .order_by(Attempt.claimed_ms, Attempt.id)
    )
    columns = (
        Attempt.id,
        Attempt.screening_id,
        Attempt.slot_id,
        Attempt.token,
        Attempt.number,
        Attempt.claimed_ms,
        Attempt.deadline_ms,
        Attempt.owner_id,
        TrySlot.task_id,
        TrySlot.k,
        TrySlot.reruns,
        Screening.rerun_limit,
    )
    with ledger.reading() as connection:
        rows = connection.execute(query.with_only_columns(*columns)).all()
    return [
        Claim(
            screening_id=row.screening_id,
            slot_id=row.slot_id,
            attempt_id=row.id,
            task_id=row.task_id,
            k=row.k,
            token=row.token,
            number=row.number,
            reruns=row.reruns,
            rerun_limit=row.rerun_limit,
            claimed_ms=row.claimed_ms,
            deadline_ms=row.deadline_ms,
            owner_id=row.owner_id,
        )
        for row in rows
    ]
