"""Leases of small subnets for the pods of tasks with several containers: one attempt, one subnet.

A lease is taken when an attempt's order is made and given back when its pod is gone. It is void when the
attempt has ended, when its owner has said that it ended, and when the owner's process is certainly dead;
what is void is taken over by whoever needs a subnet next. The primary key keeps two attempts from ever
holding the same one, whatever workers race. Subnets are of one size, so that two of them never overlap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from orchestrator.errors import HostError
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.models import Attempt, HostOwner, SubnetLease
from orchestrator.ledger.owners import Liveness, liveness, unended
from orchestrator.ledger.states import AttemptState

POOL: Final = IPv4Network("10.214.0.0/16")
"""Private addresses (RFC 1918) outside of what engines take by themselves; 4,096 subnets."""

PREFIX: Final = 28
"""Thirteen containers each: sixteen addresses without network, broadcast and the gateway that nobody has."""

_RACES: Final = 16


class SubnetsExhaustedError(HostError):
    """Every subnet of the pool is leased to an attempt that runs."""

    code = "subnets"


def lease(
    ledger: Ledger, attempt_id: str, owner_id: str, *, pool: IPv4Network = POOL, prefix: int = PREFIX
) -> IPv4Network:
    """The subnet of this attempt, taken now or before; raises `SubnetsExhaustedError` when none is free.

    The search begins at a place that the attempt's id gives: a subnet just given back, whose network the
    engine may still be removing, is seldom the next one taken.
    """
    for _ in range(_RACES):
        try:
            with ledger.unit_of_work() as connection:
                return _take(ledger, connection, attempt_id, owner_id, pool, prefix)
        except IntegrityError:
            continue  # on PostgreSQL another worker was faster with the same one
    raise SubnetsExhaustedError(f"{_RACES} subnets in a row were taken by other workers in the same moment")


def _take(
    ledger: Ledger,
    connection: Connection,
    attempt_id: str,
    owner_id: str,
    pool: IPv4Network,
    prefix: int,
) -> IPv4Network:
    held = connection.scalar(sa.select(SubnetLease.subnet).where(SubnetLease.attempt_id == attempt_id))
    if held is not None:
        return IPv4Network(held)
    _drop_void(connection)
    taken = set(connection.scalars(sa.select(SubnetLease.subnet)))
    free = next((one for one in _candidates(attempt_id, pool, prefix) if str(one) not in taken), None)
    if free is None:
        raise SubnetsExhaustedError(
            f"no subnet of {pool} is free: {len(taken)} attempts with several containers run",
            hint="run fewer tries at the same time",
        )
    connection.execute(
        sa.insert(SubnetLease),
        {
            "subnet": str(free),
            "attempt_id": attempt_id,
            "owner_id": owner_id,
            "taken_ms": ledger.clock(connection),
        },
    )
    return free


def _candidates(attempt_id: str, pool: IPv4Network, prefix: int) -> Iterator[IPv4Network]:
    """Every subnet of the pool once, from a place that the id gives."""
    number = 1 << (prefix - pool.prefixlen)
    first = int.from_bytes(hashlib.sha256(attempt_id.encode()).digest()[:4], "big") % number
    size = 1 << (32 - prefix)
    for step in range(number):
        yield IPv4Network((int(pool.network_address) + (first + step) % number * size, prefix))


def _drop_void(connection: Connection) -> None:
    ended = sa.select(Attempt.id).where(Attempt.state != AttemptState.LIVE)
    gone = sa.select(HostOwner.id).where(HostOwner.ended_ms.is_not(None))
    connection.execute(
        sa.delete(SubnetLease).where(
            sa.or_(SubnetLease.attempt_id.in_(ended), SubnetLease.owner_id.in_(gone))
        )
    )


def give_back(ledger: Ledger, attempt_id: str) -> bool:
    """The pod is gone, or never was; True if there was a lease. Safe to repeat."""
    with ledger.unit_of_work() as connection:
        done = connection.execute(sa.delete(SubnetLease).where(SubnetLease.attempt_id == attempt_id))
    return done.rowcount > 0


def sweep(ledger: Ledger) -> int:
    """Drop every void lease, those of processes that were killed included; returns how many are left.

    Called at the start of a run, after what dead workers left was removed.
    """
    dead = [owner.id for owner in unended(ledger) if liveness(owner.process) is Liveness.DEAD]
    with ledger.unit_of_work() as connection:
        _drop_void(connection)
        connection.execute(sa.delete(SubnetLease).where(SubnetLease.owner_id.in_(dead)))
        return connection.scalar(sa.select(sa.func.count()).select_from(SubnetLease)) or 0


def leases(ledger: Ledger) -> dict[str, str]:
    """Who holds what now: attempt id by subnet."""
    query = sa.select(SubnetLease.subnet, SubnetLease.attempt_id).order_by(SubnetLease.subnet)
    with ledger.reading() as connection:
        return {row.subnet: row.attempt_id for row in connection.execute(query)}
