"""Listings that the CLI needs in one query each, however many tries there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, Certificate, Event, Evidence, TrySlot
from orchestrator.ledger.states import OPERATOR_CANCELLED
from scoring.vocabulary import Outcome

_Earlier = aliased(Attempt)
_ENDED = (
    Attempt.reward,
    Attempt.checks_passed,
    Attempt.checks_total,
    Attempt.wall_ms,
    Attempt.rule,
    Attempt.claimed_ms,
    Attempt.ended_ms,
)


@dataclass(frozen=True)
class Filter:
    """Which tries to list; None or False leaves a criterion out. `fault`: a platform fault in any attempt."""

    task_ids: tuple[str, ...] | None = None
    state: str | None = None
    outcome: str | None = None
    reason: str | None = None
    fault: bool = False


def listed_tries(ledger: Ledger, screening_id: str, wanted: Filter) -> list[dict[str, Any]]:
    """The slots of a screening by task and index, each with the figures of its newest attempt.

    `reason` is that of a slot that has ended; `phase` that of the newest attempt, live ones included.
    """
    attempts = sa.select(sa.func.count()).where(_Earlier.slot_id == TrySlot.id).scalar_subquery()
    query = (
        sa.select(
            TrySlot.id,
            TrySlot.task_id,
            TrySlot.k,
            TrySlot.state,
            TrySlot.outcome,
            TrySlot.reason,
            TrySlot.reruns,
            TrySlot.interruptions,
            attempts.label("attempts"),
            Attempt.phase,
            *_ENDED,
            Certificate.digest.label("certificate"),
            Evidence.manifest_digest.label("manifest"),
        )
        .outerjoin(Attempt, sa.and_(Attempt.slot_id == TrySlot.id, Attempt.token == TrySlot.token))
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
        .outerjoin(Evidence, Evidence.attempt_id == Attempt.id)
        .where(TrySlot.screening_id == screening_id, *_criteria(wanted))
        .order_by(TrySlot.task_id, TrySlot.k)
    )
    with ledger.reading() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


def _criteria(wanted: Filter) -> list[sa.ColumnElement[bool]]:
    out: list[sa.ColumnElement[bool]] = []
    if wanted.task_ids is not None:
        out.append(TrySlot.task_id.in_(wanted.task_ids))
    if wanted.state is not None:
        out.append(TrySlot.state == wanted.state)
    if wanted.outcome is not None:
        out.append(TrySlot.outcome == wanted.outcome)
    if wanted.reason is not None:
        out.append(TrySlot.reason == wanted.reason)
    if wanted.fault:
        faults = sa.select(_Earlier.id).where(
            _Earlier.slot_id == TrySlot.id, _Earlier.outcome == Outcome.PLATFORM_FAULT
        )
        out.append(faults.exists())
    return out


def task_ids(ledger: Ledger, screening_id: str) -> list[str]:
    """The tasks of a screening, sorted."""
    query = sa.select(TrySlot.task_id).where(TrySlot.screening_id == screening_id).distinct()
    with ledger.reading() as connection:
        return sorted(connection.scalars(query))


def certified(ledger: Ledger, screening_id: str) -> tuple[int, int]:
    """(attempts with a certificate, attempts with an outcome) of a screening."""
    query = (
        sa.select(sa.func.count(Certificate.id), sa.func.count(Attempt.id))
        .select_from(Attempt)
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
        .where(Attempt.screening_id == screening_id, Attempt.outcome.is_not(None))
    )
    with ledger.reading() as connection:
        row = connection.execute(query).one()
    return int(row[0]), int(row[1])


def bundles_of_try(ledger: Ledger, slot_id: str) -> Mapping[str, str | None]:
    """Where the bundle of every certified attempt of a try lies, below the home, by attempt id."""
    query = (
        sa.select(Attempt.id, Certificate.path)
        .join(Certificate, Certificate.attempt_id == Attempt.id)
        .where(Attempt.slot_id == slot_id)
    )
    with ledger.reading() as connection:
        return {row.id: row.path for row in connection.execute(query)}


def last_event_ms(ledger: Ledger, screening_id: str | None = None) -> int | None:
    """When something last happened (in a screening); None where nothing did."""
    query = sa.select(Event.at_ms).order_by(Event.id.desc()).limit(1)
    if screening_id is not None:
        query = query.where(Event.screening_id == screening_id)
    with ledger.reading() as connection:
        found = connection.scalar(query)
    return None if found is None else int(found)


def is_interruption(reason: str | None) -> bool:
    """Whether an attempt's end was the operator's stop: no outcome, nobody's fault."""
    return reason == OPERATOR_CANCELLED
