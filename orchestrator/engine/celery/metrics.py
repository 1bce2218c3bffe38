"""Figures for Prometheus, computed from the ledger at every scrape: no process keeps a counter of its own.

Any process may serve them, with Redis up or down; two that do give the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.engine import Connection

from orchestrator.engine.celery.broker import Publisher
from orchestrator.engine.celery.times import Times
from orchestrator.ledger import hosts, providers, window
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.hosts import WorkerView
from orchestrator.ledger.keeping import PATIENCE_MS
from orchestrator.ledger.models import Attempt, Certificate, Event, KeptRoom, Screening, TrySlot
from orchestrator.ledger.providers import ProviderView
from orchestrator.ledger.states import OPEN_SCREENINGS, AttemptState, SlotState

_NUSD: Final = 1e9
_OF_WORKERS: Final[tuple[tuple[str, str, Callable[[WorkerView], int]], ...]] = (
    ("worker_slots", "Places of a present worker.", lambda one: one.slots),
    ("worker_running", "Attempts that a worker runs.", lambda one: one.running),
    ("worker_children", "Processes of a worker's pool that are there.", lambda one: one.children),
    ("worker_refused", "Messages that a worker refused at the claim.", lambda one: one.refused),
    ("worker_draining", "1 while the worker's host is draining.", lambda one: int(one.draining)),
)
_AGES_OF_WORKERS: Final[tuple[tuple[str, str, Callable[[WorkerView], int | None]], ...]] = (
    ("worker_claim_age_seconds", "Since a worker's last claim.", lambda one: one.claimed_ms),
    ("worker_sweep_age_seconds", "Since a worker's last sweep.", lambda one: one.swept_ms),
    ("worker_reap_age_seconds", "Since its last look for lost attempts.", lambda one: one.reaped_ms),
)

_OF_PROVIDERS: Final[tuple[tuple[str, str, Callable[[ProviderView], int]], ...]] = (
    (
        "provider_tries",
        "Tries that run, or wait in a queue of workers, at a limited provider.",
        lambda one: one.busy,
    ),
    ("provider_tries_limit", "The most tries at a time at a limited provider.", lambda one: one.most),
)


def _gauge(name: str, text: str, labels: Iterable[str], rows: Iterable[tuple[list[str], float]]) -> Metric:
    family = GaugeMetricFamily(f"assize_{name}", text, labels=list(labels))
    for values, value in rows:
        family.add_metric(values, value)
    return family


class LedgerCollector(Collector):
    """The figures of reference/distribution.md section 8 that the ledger knows; with a publisher, queues."""

    def __init__(self, ledger: Ledger, times: Times, publisher: Publisher | None = None) -> None:
        self._ledger = ledger
        self._times = times
        self._publisher = publisher

    def collect(self) -> Iterator[Metric]:
        """One snapshot of the ledger, then the workers and the queues."""
        with self._ledger.reading() as connection:
            now = self._ledger.clock(connection)
            yield from _slots(connection, now)
            yield from _attempts(connection, now, self._times.beat_ms)
            yield from _money(connection)
            yield from _kept_room(connection, now)
        yield from self._workers(now)
        yield from self._queues()
        yield from self._providers()

    def _providers(self) -> Iterator[Metric]:
        found = providers.views(self._ledger)
        for name, text, of in _OF_PROVIDERS:
            yield _gauge(name, text, ("provider",), [([one.provider], float(of(one))) for one in found])

    def _workers(self, now: int) -> Iterator[Metric]:
        views = [one for one in hosts.workers(self._ledger, beat_ms=self._times.beat_ms) if one.present]
        labels = ("host", "worker")
        for name, text, of in _OF_WORKERS:
            yield _gauge(name, text, labels, [([v.host_name, v.id], float(of(v))) for v in views])
        for name, text, at in _AGES_OF_WORKERS:
            known = [(v, seen) for v in views if (seen := at(v)) is not None]
            yield _gauge(
                name, text, labels, [([v.host_name, v.id], (now - seen) / 1000) for v, seen in known]
            )

    def _queues(self) -> Iterator[Metric]:
        expected = window.expected(self._ledger)
        rows = [([queue], float(count)) for queue, count in sorted(expected.items())]
        yield _gauge("queue_expected", "Messages that should wait in a queue.", ("queue",), rows)
        lengths = None if self._publisher is None else self._publisher.lengths(expected)
        if lengths is not None:
            rows = [([queue], float(count)) for queue, count in sorted(lengths.items())]
            yield _gauge("queue_length", "Messages that wait in a queue.", ("queue",), rows)


def _slots(connection: Connection, now: int) -> Iterator[Metric]:
    open_ = Screening.state.in_(OPEN_SCREENINGS)
    query = (
        sa.select(TrySlot.screening_id, TrySlot.state, sa.func.count(), sa.func.sum(TrySlot.reruns))
        .join(Screening, Screening.id == TrySlot.screening_id)
        .where(open_)
        .group_by(TrySlot.screening_id, TrySlot.state)
    )
    found = connection.execute(query).all()
    rows = [([row[0], str(row[1])], float(row[2])) for row in found]
    yield _gauge("slots", "Tries of open screenings by state.", ("screening", "state"), rows)
    yield _gauge(
        "reruns", "Re-runs of open screenings.", (), [([], float(sum(row[3] or 0 for row in found)))]
    )
    oldest = connection.scalar(
        sa.select(sa.func.min(TrySlot.updated_ms))
        .join(Screening, Screening.id == TrySlot.screening_id)
        .where(open_, TrySlot.state == SlotState.QUEUED, TrySlot.not_before_ms <= now)
    )
    age = 0.0 if oldest is None else (now - oldest) / 1000
    yield _gauge("oldest_queued_seconds", "How long the oldest queued try waits.", (), [([], age)])


def _attempts(connection: Connection, now: int, beat_ms: int) -> Iterator[Metric]:
    live = sa.select(sa.func.count()).where(
        Attempt.state == AttemptState.LIVE, Attempt.lease_until_ms < now + beat_ms
    )
    yield _gauge(
        "leases_expiring",
        "Live attempts that must beat within a beat.",
        (),
        [([], float(connection.scalar(live) or 0))],
    )
    voids = connection.execute(
        sa.select(Attempt.reason, sa.func.count())
        .where(Attempt.state == AttemptState.VOID)
        .group_by(Attempt.reason)
    )
    rows = [([str(reason)], float(count)) for reason, count in voids]
    yield _gauge("void_attempts", "Attempts that do not count, by reason.", ("reason",), rows)
    recorded = connection.scalar(sa.select(sa.func.count()).where(Attempt.state == AttemptState.RECORDED))
    yield _gauge("recorded_attempts", "Attempts that count.", (), [([], float(recorded or 0))])
    refused = connection.scalar(sa.select(sa.func.count()).where(Event.kind == "refused"))
    yield _gauge("refused_records", "Records refused by their token.", (), [([], float(refused or 0))])
    uncertified = connection.scalar(
        sa.select(sa.func.count())
        .select_from(Attempt)
        .join(Screening, Screening.id == Attempt.screening_id)
        .outerjoin(Certificate, Certificate.attempt_id == Attempt.id)
        .where(Screening.state.in_(OPEN_SCREENINGS), Attempt.outcome.is_not(None), Certificate.id.is_(None))
    )
    rows = [([], float(uncertified or 0))]
    yield _gauge("uncertified_attempts", "Ended attempts of open screenings without certificate.", (), rows)


def _money(connection: Connection) -> Iterator[Metric]:
    query = sa.select(Screening.id, Screening.used_nusd, Screening.reserved_nusd, Screening.cap_nusd).where(
        Screening.state.in_(OPEN_SCREENINGS)
    )
    spent: list[tuple[list[str], float]] = []
    reserved: list[tuple[list[str], float]] = []
    caps: list[tuple[list[str], float]] = []
    for screening_id, used_nusd, reserved_nusd, cap_nusd in connection.execute(query):
        spent.append(([screening_id], used_nusd / _NUSD))
        reserved.append(([screening_id], reserved_nusd / _NUSD))
        if cap_nusd is not None:
            caps.append(([screening_id], cap_nusd / _NUSD))
    yield _gauge("spend_dollars", "Spent by an open screening, USD.", ("screening",), spent)
    yield _gauge("reserved_dollars", "Reserved for tries that are out, USD.", ("screening",), reserved)
    yield _gauge("cap_dollars", "Cap of an open screening, USD.", ("screening",), caps)


def _kept_room(connection: Connection, now: int) -> Iterator[Metric]:
    query = sa.select(KeptRoom.host_name, KeptRoom.since_ms).where(KeptRoom.until_ms > now)
    kept = [(row.host_name, now - row.since_ms - PATIENCE_MS) for row in connection.execute(query)]
    rows = [([host], age / 1000) for host, age in kept if age >= 0]
    yield _gauge("room_kept_seconds", "How long a host keeps its room for a try that waits.", ("host",), rows)


def registry_of(ledger: Ledger, times: Times, publisher: Publisher | None = None) -> CollectorRegistry:
    """A registry with nothing in it but the ledger's figures."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(LedgerCollector(ledger, times, publisher))
    return registry


def text_of(registry: CollectorRegistry) -> str:
    """Every figure in the text format of Prometheus."""
    return generate_latest(registry).decode()


def figures_of(registry: CollectorRegistry) -> list[dict[str, object]]:
    """Every figure as plain data: name, labels, value."""
    return [
        {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
        for family in registry.collect()
        for sample in family.samples
    ]
