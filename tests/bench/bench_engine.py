"""What the engines cost per try that does nothing, and a campaign of 10,000 such tries on many workers.

The floor of a try is its two transactions, claim and record, bare: the same functions of the ledger called by
two threads (local) or two processes (Celery). Both arms run one after the other, again and again, in one run;
a ratio is the median over the rounds. PostgreSQL syncs to disk, as in production. The attempts are scripted:
no container is started. The windows are wide, since no real try is as short (`Times` has production's).
Names of parts as arguments (local celery workers campaign thousand) run those only.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parents[2]))

from orchestrator.engine.base import Callbacks
from orchestrator.engine.celery.settings import KEY_PREFIX
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.ledger import hosts, queries, window
from orchestrator.ledger.db import Ledger, create_engine
from orchestrator.ledger.hosts import WorkerRole
from orchestrator.ledger.migrate import open_ledger, upgrade
from orchestrator.ledger.models import Attempt, Screening, Worker
from orchestrator.ledger.owners import register
from orchestrator.ledger.states import EngineName, SlotState
from orchestrator.ledger.transitions import (
    AttemptEnd,
    beat,
    cancel,
    claim,
    claim_message,
    end_attempt,
    queue,
    start,
)
from orchestrator.observations import Observations
from scoring.vocabulary import Outcome, Phase, Reason
from tests.assets.programs import forks
from tests.assets.queue.lab import QUEUE, TIMES, Lab
from tests.assets.services.postgres import PostgresServer
from tests.assets.services.redis import RedisServer

ROUNDS = 3
LOCAL_TRIES, CELERY_TRIES, CAMPAIGN = 400, 400, 10_000
LOCAL_BAR, CELERY_BAR = 1.5, 3.0
FIRST_DISPATCH_BAR_S, STATUS_BAR_MS, CANCEL_BAR_S, REDIS_BAR_KB = 10.0, 50.0, 1.0, 1.2
WIDE = replace(TIMES, lease_ms=60_000, beat_ms=5_000, dispatch_ms=50, sweep_ms=60_000, window_per_slot=100)
END = AttemptEnd(
    outcome=Outcome.PASSED,
    reason=Reason.ALL_CHECKS_PASSED,
    phase=Phase.GRADE,
    rule="bench",
    manifest_digest="a" * 64,
    nusd=10,
    details={"observations": Observations().as_data(), "evidence": [], "phases": []},
)


def report(name: str, value: float, bar: float | None, unit: str, **more: Any) -> bool:
    """One JSON line; False when a bar is missed."""
    good = bar is None or value <= bar
    line = {"name": name, "value": round(value, 3), "bar": bar, "unit": unit, "ok": good, **more}
    click.echo(json.dumps(line))
    return good


def tasks(count: int) -> list[str]:
    return [f"t{number:05}" for number in range(count)]


def bare_tries(url: str, screening: str) -> None:
    """Claim and record until nothing is queued: the two transactions and nothing else."""
    ledger = Ledger(create_engine(url))
    owner = register(ledger).id
    while (held := claim(ledger, screening, owner, lease_ms=60_000)) is not None:
        end_attempt(ledger, held, replace(END, manifest_digest=held.attempt_id.lower().ljust(64, "0")))
    ledger.close()


def bare_threads(ledger: Ledger, name: str, count: int) -> float:
    """Seconds per bare try in two threads of this process."""
    screening = plan_stub(ledger, tasks(count), tries=1, name=name)
    start(ledger, screening, who="bench")
    queue(ledger, screening, count)

    def work(_: int) -> None:
        owner = register(ledger).id
        while (held := claim(ledger, screening, owner, lease_ms=60_000)) is not None:
            end_attempt(ledger, held, replace(END, manifest_digest=held.attempt_id.lower().ljust(64, "0")))

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    return (time.monotonic() - began) / count


def ledger_wall(ledger: Ledger, screening: str, count: int) -> float:
    """Seconds per try from the first claim to the last record, by the database's clock."""
    with ledger.reading() as connection:
        row = connection.execute(
            sa.select(sa.func.min(Attempt.claimed_ms), sa.func.max(Attempt.ended_ms)).where(
                Attempt.screening_id == screening
            )
        ).one()
    first, last = int(row[0] or 0), int(row[1] or 0)
    return (last - first) / 1000 / count


def bare_processes(lab: Lab, name: str, count: int) -> float:
    """Seconds per bare try in two processes."""
    screening = plan_stub(lab.ledger, tasks(count), tries=1, name=name)
    start(lab.ledger, screening, who="bench")
    queue(lab.ledger, screening, count)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=bare_tries, args=(lab.url, screening)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return ledger_wall(lab.ledger, screening, count)


def local_tries(ledger: Ledger, name: str, count: int) -> float:
    """Seconds per try of the local engine, two at a time."""
    screening = plan_stub(ledger, tasks(count), tries=1, name=name)
    engine = LocalEngine(ledger, Callbacks(StubAttempt(), stub_order, metered=lambda held: 10))
    began = time.monotonic()
    engine.run([screening], 2)
    return (time.monotonic() - began) / count


def celery_tries(lab: Lab, name: str, count: int) -> float:
    """Seconds per try of the workers that run."""
    screening = lab.plan(tasks(count), tries=1, name=name)
    lab.closed(600)
    return ledger_wall(lab.ledger, screening, count)


def compare(
    name: str, bar: float, floor: Callable[[str], float], ours: Callable[[str], float], **more: Any
) -> bool:
    """Both arms, interleaved; one line with the ratio."""
    ratios, walls, floors = [], [], []
    for number in range(ROUNDS):
        floors.append(floor(f"{name}-floor-{number}"))
        walls.append(ours(f"{name}-{number}"))
        ratios.append(walls[-1] / floors[-1])
    return report(
        name,
        statistics.median(ratios),
        bar,
        "x of the two bare transactions",
        wall_ms=round(statistics.median(walls) * 1000, 2),
        floor_ms=round(statistics.median(floors) * 1000, 2),
        **more,
    )


@contextlib.contextmanager
def lab_on(url: str, *, slots: Sequence[int], recycle: bool = True) -> Iterator[tuple[Lab, RedisServer]]:
    """Workers with so many slots each, on a Redis of their own."""
    redis = RedisServer(appendonly=True)
    with tempfile.TemporaryDirectory() as folder:
        redis.start()
        lab = Lab(url, redis.url, Path(folder), WIDE, start=forks.start_afresh)
        try:
            for count in slots:
                changes = {} if recycle else {"worker_max_tasks_per_child": None}
                lab.worker(slots=count, changes=changes, quiet=True)
            yield lab, redis
        finally:
            lab.close()
            redis.close()


def bench_local(folder: Path) -> bool:
    """The local engine on SQLite."""
    ledger = open_ledger(f"sqlite:///{folder / 'local.db'}")
    try:
        return compare(
            "engine-local-sqlite",
            LOCAL_BAR,
            lambda name: bare_threads(ledger, name, LOCAL_TRIES),
            lambda name: local_tries(ledger, name, LOCAL_TRIES),
        )
    finally:
        ledger.close()


def bench_celery(server: PostgresServer) -> bool:
    """Celery on PostgreSQL, the recycling of children apart: a new one costs some 9 ms a try (section 3)."""
    with lab_on(server.new_database(upgrade), slots=[2], recycle=False) as (lab, _):
        return compare(
            "engine-celery-postgresql",
            CELERY_BAR,
            lambda name: bare_processes(lab, name, CELERY_TRIES),
            lambda name: celery_tries(lab, name, CELERY_TRIES),
            children="not recycled",
        )


def bench_workers(server: PostgresServer) -> bool:
    """Tries a second with one and two worker processes of one slot."""
    rates = []
    for count in (1, 2):
        with lab_on(server.new_database(upgrade), slots=[1] * count, recycle=False) as (lab, _):
            celery_tries(lab, "warm", 50)
            rates.append(1 / celery_tries(lab, "measured", CELERY_TRIES))
    return report(
        "tries-per-second-second-worker",
        rates[1] / rates[0],
        None,
        "x of one worker process (this machine has few cores)",
        one=round(rates[0]),
        two=round(rates[1]),
    )


def redis_bytes(redis: RedisServer) -> tuple[int, int]:
    """(messages that wait, what they take in Redis)."""
    client: Any = redis.client()
    try:
        key = f"{KEY_PREFIX}{QUEUE}"
        return int(client.llen(key)), int(client.memory_usage(key, samples=0) or 0)
    finally:
        client.close()


def bench_campaign(url: str, database: str) -> bool:
    """10,000 tries: the plan, the first dispatch, looking, Redis, and giving up in the middle."""
    good = True
    with lab_on(url, slots=[2], recycle=False) as (lab, redis):
        celery_tries(lab, "warm", 50)
        began = time.monotonic()
        screening = lab.plan(tasks(CAMPAIGN), tries=1, name="campaign")
        lab.until(
            lambda: queries.status(lab.ledger, screening).slots[SlotState.RECORDED] > 0, "a first record"
        )
        good &= report(f"campaign-{database}-plan-to-first-record", time.monotonic() - began, 10.0, "s")
        looks: list[float] = []
        seen: list[tuple[int, int]] = []
        while queries.status(lab.ledger, screening).slots[SlotState.RECORDED] < CAMPAIGN // 5:
            looked = time.monotonic()
            queries.status(lab.ledger, screening)
            looks.append((time.monotonic() - looked) * 1000)
            seen.append(redis_bytes(redis))
            time.sleep(0.05)
        good &= report(f"campaign-{database}-status", statistics.median(looks), STATUS_BAR_MS, "ms")
        places = 2 * WIDE.window_per_slot
        good &= report(
            f"campaign-{database}-redis",
            max(size for _, size in seen) / 1000 / places,
            REDIS_BAR_KB,
            "kB x window",
            window=places,
            most_messages=max(count for count, _ in seen),
        )
        began = time.monotonic()
        cancelled = cancel(lab.ledger, screening, who="bench")
        good &= report(
            f"campaign-{database}-cancel", time.monotonic() - began, CANCEL_BAR_S, "s", cancelled=cancelled
        )
        lab.closed()
    return good


def bench_thousand(server: PostgresServer) -> bool:
    """A simulation, and no more: the statements of 1,000 workers with 4 slots, without workers."""
    ledger = open_ledger(server.new_database(upgrade))
    worker_id = hosts.enter(ledger, WorkerRole.WORKER, host_name="sim", slots=4, queues=[QUEUE])
    with ledger.unit_of_work() as connection:
        row = connection.execute(sa.select(Worker.__table__)).one()._asdict()
        rows = [{**row, "id": f"{number:026}"} for number in range(999)]
        connection.execute(sa.insert(Worker), rows)
    screening = plan_stub(ledger, tasks(CAMPAIGN), tries=1, name="sim", engine=EngineName.CELERY, queue=QUEUE)
    start(ledger, screening, who="bench")
    began = time.monotonic()
    room = hosts.capacity(ledger, beat_ms=20_000)
    messages = window.fill(ledger, room, who=worker_id)
    fill_s = time.monotonic() - began
    owners = [register(ledger, worker_id).id for _ in range(1000)]
    began = time.monotonic()
    for number, message in enumerate(messages[:1000]):
        claim_message(ledger, message.slot_id, 1, owners[number], lease_ms=60_000, worker_id=worker_id)
    claim_s = (time.monotonic() - began) / 1000
    began = time.monotonic()
    for owner in owners:
        beat(ledger, owner, {}, lease_ms=60_000)
    beat_s = (time.monotonic() - began) / len(owners)
    began = time.monotonic()
    window.fill(ledger, room, who=worker_id)
    again_s = time.monotonic() - began
    with ledger.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(Screening)) == 1
    ledger.close()
    # 4,000 attempts of ten minutes with a heartbeat every 20 s, by one connection after the other.
    busy = 4000 / 20 * beat_s + 4000 / 600 * claim_s
    return report(
        "simulation-1000-workers-statements",
        busy,
        None,
        "connections busy with beats and claims of 4,000 tries of ten minutes (simulation: statements only)",
        first_fill_ms=round(fill_s * 1000),
        filled=len(messages),
        next_fill_ms=round(again_s * 1000),
        claim_ms=round(claim_s * 1000, 2),
        beat_ms=round(beat_s * 1000, 2),
    )


def main() -> None:
    """Every measurement; ends with 1 when a bar was missed."""
    server = PostgresServer(durable=True)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        parts: dict[str, Callable[[], bool]] = {
            "local": lambda: bench_local(folder),
            "celery": lambda: bench_celery(server),
            "workers": lambda: bench_workers(server),
            "campaign": lambda: (
                bench_campaign(server.new_database(upgrade), "postgresql")
                & bench_campaign(f"sqlite:///{folder / 'campaign.db'}", "sqlite")
            ),
            "thousand": lambda: bench_thousand(server),
        }
        try:
            server.start()
            results = [parts[name]() for name in sys.argv[1:] or parts]
        finally:
            server.close()
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
