"""How many tries may use a model provider at a time, over all hosts and engines of a ledger.

The operator's file (`providers.toml`, `max_tries`) is taken into the ledger by the processes that hold the
keys: the dispatcher's replaces what is there, that of a screening adds to it. Whoever starts tries reads it
here, so that hosts with another file, or none, keep to the same number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from orchestrator.ledger import waits
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError
from orchestrator.ledger.models import ProviderLimit, Screening, TrySlot
from orchestrator.ledger.retry import retried
from orchestrator.ledger.shares import Demand, allot
from orchestrator.ledger.states import OPEN_SCREENINGS

DISPATCH_TURN: Final = 0x617373697A65
"""Key of the advisory lock under which tries are counted and begun; SQLite has one writer anyway."""


class ProviderFullError(LedgerError):
    """A provider has as many tries as it may have at a time; nothing was claimed."""

    code = "provider-full"

    def __init__(self, provider: str, most: int) -> None:
        super().__init__(f"provider {provider} has {most} tries at a time, as many as it may have")
        self.provider = provider
        self.most = most


@dataclass(frozen=True)
class ProviderView:
    """One limited provider: tries that have a place now (`busy`), and the most that may have one.

    A running try has a place, and one that waits in a queue of many hosts, since nothing stops it any more.
    One that waits in the process of a single machine has none: it is asked about when it is claimed, and
    the process may be gone.
    """

    provider: str
    busy: int
    most: int


@retried
def set_limits(ledger: Ledger, limits: Mapping[str, int]) -> bool:
    """Make `limits` the only ones, tries by provider; whether that changed anything. Each is at least 1.

    What runs is left alone: a lower limit starts nothing new until enough has ended.
    """
    with ledger.unit_of_work() as connection:
        known = _limits(connection)
        gone = sorted(known.keys() - limits.keys())
        if gone:
            connection.execute(sa.delete(ProviderLimit).where(ProviderLimit.provider.in_(gone)))
        return _write(ledger, connection, limits, known) or bool(gone)


@retried
def add_limits(ledger: Ledger, limits: Mapping[str, int]) -> bool:
    """As `set_limits`, and providers that are not in `limits` keep what they have."""
    with ledger.unit_of_work() as connection:
        return _write(ledger, connection, limits, _limits(connection))


def _write(
    ledger: Ledger, connection: Connection, limits: Mapping[str, int], known: Mapping[str, int]
) -> bool:
    changed = {provider: most for provider, most in limits.items() if known.get(provider) != most}
    if not changed:
        return False
    now = ledger.clock(connection)
    rows = [
        {"provider": provider, "most": most, "changed_ms": now} for provider, most in sorted(changed.items())
    ]
    # Another process may have brought the same row since `known` was read: the later one wins.
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(ProviderLimit).values(rows)
    values = {name: insert.excluded[name] for name in ("most", "changed_ms")}
    connection.execute(insert.on_conflict_do_update(index_elements=["provider"], set_=values))
    return True


def views(ledger: Ledger) -> list[ProviderView]:
    """Every limited provider by name."""
    with ledger.reading() as connection:
        limits = _limits(connection)
        busy = _busy(connection, limits)
    return [ProviderView(provider, busy[provider], most) for provider, most in sorted(limits.items())]


def rooms(connection: Connection) -> dict[str, int]:
    """How many more tries may have a place, by limited provider; negative where a limit was lowered.

    It holds for the caller who has `DISPATCH_TURN`: ends only make more room.
    """
    limits = _limits(connection)
    busy = _busy(connection, limits)
    return {provider: most - busy[provider] for provider, most in limits.items()}


def require_place(connection: Connection, screening_id: str, providers: Collection[str], now_ms: int) -> None:
    """After a claim, in its unit: `ProviderFullError` when the claimed try is one too many at a provider.

    So it is when its place belongs to another screening, which waits and has less of its share. Counted under
    the lock of all dispatchers, which is taken only where a limit may hold.
    """
    if not providers or not _limits(connection).keys() & set(providers):
        return
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(DISPATCH_TURN)))
    # Limits are read again: whoever held the lock may have waited for a change of them.
    limits = _limits(connection)
    busy = _busy(connection, limits)
    limited = [name for name in sorted(providers) if name in limits]
    for provider in limited:
        if busy[provider] > limits[provider]:
            raise ProviderFullError(provider, limits[provider])
    waiting = waits.waiting(connection, now_ms)
    if any(one.screening_id != screening_id and set(one.providers) & set(limited) for one in waiting):
        free = {name: limits[name] - busy[name] + (name in limited) for name in limits}
        if not _is_next(connection, screening_id, tuple(providers), waiting, free):
            raise ProviderFullError(limited[0], limits[limited[0]])
    waits.drop(connection, [screening_id])


def _is_next(
    connection: Connection,
    screening_id: str,
    providers: tuple[str, ...],
    waiting: Sequence[Demand],
    free: Mapping[str, int],
) -> bool:
    """Whether one of the places in `free`, the one just claimed among them, belongs to the screening."""
    query = sa.select(Screening.share, sa.func.count()).join(TrySlot, TrySlot.screening_id == Screening.id)
    query = query.where(Screening.id == screening_id, waits.has_place()).group_by(
        Screening.id, Screening.share
    )
    share, running = connection.execute(query).one()
    mine = Demand(screening_id, share, running - 1, 1, providers)
    demands = [mine if one.screening_id == screening_id else one for one in waiting]
    if mine not in demands:
        demands.append(mine)
    return screening_id in allot(len(demands), demands, free)


def _limits(connection: Connection) -> dict[str, int]:
    query = sa.select(ProviderLimit.provider, ProviderLimit.most)
    return {row.provider: row.most for row in connection.execute(query)}


def _busy(connection: Connection, wanted: Collection[str]) -> dict[str, int]:
    busy = dict.fromkeys(wanted, 0)
    if not busy:
        return busy
    query = sa.select(Screening.id, Screening.providers).where(Screening.state.in_(OPEN_SCREENINGS))
    users = {row.id: row.providers for row in connection.execute(query) if busy.keys() & set(row.providers)}
    counts = (
        sa.select(TrySlot.screening_id, sa.func.count())
        .join(Screening, Screening.id == TrySlot.screening_id)
        .where(TrySlot.screening_id.in_(list(users)), waits.has_place())
        .group_by(TrySlot.screening_id)
    )
    for screening_id, count in connection.execute(counts):
        for provider in users[screening_id]:
            if provider in busy:
                busy[provider] += count
    return busy
