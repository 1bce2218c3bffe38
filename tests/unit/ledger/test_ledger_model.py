"""A stateful model test: any order of steps, crashes at any statement, two owners, one ledger, two databases.

After every step the database must equal a model that was written from table 4.2 and not from the code, and
every invariant of 4.6 must hold.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import event
from sqlalchemy.engine import Connection

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger, create_engine
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger, upgrade
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import (
    Answer,
    AttemptEnd,
    Claim,
    beat,
    cancel,
    claim,
    close,
    end_attempt,
    pause,
    queue,
    resume,
    start,
    stop_attempt,
)
from scoring.vocabulary import OUTCOME_OF, Outcome, Phase, Reason
from tests.assets.services.postgres import PostgresServer

TASKS, TRIES, LEASE, COST = 2, 2, 1000, 3


class CrashError(BaseException):
    """The process dies here; nothing may catch it."""


@dataclass
class Slot:
    state: str = "planned"
    reruns: int = 0
    tokens: int = 0
    outcome: str | None = None


@dataclass
class Model:
    screening: str = "running"
    stopped: bool = False
    slots: dict[str, Slot] = field(default_factory=dict)
    used: int = 0
    platform: int = 0


class Crasher:
    """Raises before the n-th statement of the next unit, or after its COMMIT when the unit is shorter."""

    def __init__(self, ledger: Ledger) -> None:
        self.left: int | None = None
        event.listen(ledger.engine, "before_cursor_execute", self._statement)

    def _statement(self, *_args: object) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            raise CrashError
        self.left -= 1


class LedgerMachine(RuleBasedStateMachine):
    """The rules and invariants; `opened` says where the ledger of one run is kept."""

    @staticmethod
    def opened(clock: Callable[[Connection], int]) -> tuple[Ledger, Callable[[], None]]:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.ledger, self.remove = type(self).opened(self.clock)
        self.crasher = Crasher(self.ledger)
        self.owners = [register(self.ledger).id for _ in range(2)]
        self.screening = plan_stub(self.ledger, [f"t{n}" for n in range(TASKS)], tries=TRIES)
        start(self.ledger, self.screening, who="test")
        slots = {view.row["id"]: Slot() for view in queries.tries(self.ledger, self.screening)}
        self.model = Model(slots=slots)
        self.held: list[Claim] = []
        self.past: list[tuple[Claim, AttemptEnd | None]] = []

    def clock(self, _connection: Connection) -> int:
        return self.now_ms

    def teardown(self) -> None:
        self.ledger.close()
        self.remove()

    def attempt(self, step: Callable[[], Any], crash: int | None) -> Any:
        """Run `step`; a crash may change nothing; then it is run again, as a restart would."""
        if crash is not None:
            before = self.picture()
            self.crasher.left = crash
            try:
                return step()
            except CrashError:
                assert self.picture() == before
            finally:
                self.crasher.left = None
        return step()

    def picture(self) -> list[Any]:
        with self.ledger.reading() as connection:
            return [
                connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1").all()
                for table in ("screening", "try_slot", "attempt", "evidence", "spend_entry", "event")
            ]

    def of(self, held: Claim) -> Slot:
        return self.model.slots[held.slot_id]

    crashes = st.none() | st.integers(0, 9)

    @rule(window=st.integers(1, 4), crash=crashes)
    def queue(self, window: int, crash: int | None) -> None:
        moved = self.attempt(lambda: queue(self.ledger, self.screening, window), crash)
        states = [slot.state for slot in self.model.slots.values()]
        room = max(0, window - states.count("queued"))
        open_for_work = self.model.screening == "running" and not self.model.stopped
        assert moved == (min(room, states.count("planned")) if open_for_work else 0)
        for view in queries.tries(self.ledger, self.screening):
            slot = self.model.slots[view.row["id"]]
            if slot.state == "planned" and view.row["state"] == "queued":
                slot.state = "queued"
                moved -= 1
        assert moved == 0

    @rule(owner=st.integers(0, 1), crash=crashes)
    def claim(self, owner: int, crash: int | None) -> None:
        held = self.attempt(
            lambda: claim(self.ledger, self.screening, self.owners[owner], lease_ms=LEASE), crash
        )
        waiting = [slot for slot in self.model.slots.values() if slot.state == "queued"]
        may = self.model.screening == "running" and not self.model.stopped and waiting
        assert (held is not None) == bool(may)
        if held is not None:
            slot = self.of(held)
            assert slot.state == "queued" and held.reruns == slot.reruns and held.number == slot.reruns + 1
            slot.state, slot.tokens = "running", slot.tokens + 1
            assert held.token == slot.tokens
            self.held.append(held)

    @rule(crash=crashes)
    def beat(self, crash: int | None) -> None:
        for owner in self.owners:
            mine = {held.attempt_id for held in self.held if held.owner_id == owner}
            phases = dict.fromkeys(mine, Phase.AGENT)
            step = partial(beat, self.ledger, owner, phases, lease_ms=LEASE)
            answer = self.attempt(step, crash)
            assert answer.live == mine
            assert answer.cancelled == (mine if self.model.stopped else set())

    def finished(self, held: Claim, end: AttemptEnd | None, answer: Answer) -> None:
        slot = self.of(held)
        self.held.remove(held)
        self.past.append((held, end))
        if end is None:
            slot.state = "cancelled" if self.model.stopped else "queued"
            self.model.platform += COST
        elif end.outcome in (Outcome.PASSED, Outcome.FAILED):
            slot.state, slot.outcome = "recorded", end.outcome
            self.model.used += COST
        elif end.outcome is Outcome.PLATFORM_FAULT and slot.reruns < 2:
            slot.state, slot.reruns = "cancelled" if self.model.stopped else "queued", slot.reruns + 1
            self.model.platform += COST
        else:
            slot.state, slot.outcome = "uncountable", end.outcome
            self.model.platform += COST
        assert answer == {"queued": "requeued"}.get(slot.state, slot.state)

    def end(self, held: Claim, reason: Reason) -> AttemptEnd:
        return AttemptEnd(
            outcome=OUTCOME_OF[reason],
            reason=reason,
            phase=Phase.GRADE,
            rule="model",
            manifest_digest=held.attempt_id.ljust(64, "0"),
            nusd=COST,
            details={"evidence": []},
        )

    reasons = st.sampled_from(
        (
            Reason.ALL_CHECKS_PASSED,
            Reason.TIMEOUT,
            Reason.ENGINE_ERROR,
            Reason.WORKER_LOST,
            Reason.AGENT_NOT_STARTABLE,
        )
    )

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 9), reason=reasons, crash=crashes, twice=st.booleans())
    def record(self, pick: int, reason: Reason, crash: int | None, twice: bool) -> None:
        held = self.held[pick % len(self.held)]
        end = self.end(held, reason)
        answer = self.attempt(lambda: end_attempt(self.ledger, held, end, back_off_ms=0), crash)
        self.finished(held, end, answer)
        if twice:
            assert end_attempt(self.ledger, held, end, back_off_ms=0) is Answer.ALREADY_RECORDED

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 9), crash=crashes)
    def interrupt(self, pick: int, crash: int | None) -> None:
        held = self.held[pick % len(self.held)]
        answer = self.attempt(lambda: stop_attempt(self.ledger, held, who="test", nusd=COST), crash)
        self.finished(held, None, answer)

    @precondition(lambda self: self.held)
    @rule(pick=st.integers(0, 9), crash=crashes, beaten=st.booleans())
    def expire(self, pick: int, crash: int | None, beaten: bool) -> None:
        """A reaper voids an attempt whose lease it has seen run out, unless the worker came back first."""
        held = self.held[pick % len(self.held)]
        seen = queries.show_attempt(self.ledger, held.attempt_id).row["lease_until_ms"]
        self.now_ms = max(self.now_ms, seen) + 1
        if beaten:
            beat(self.ledger, held.owner_id, {}, lease_ms=LEASE)
        end = self.end(held, Reason.WORKER_LOST)
        step = partial(
            end_attempt, self.ledger, held, end, who="reaper", back_off_ms=0, if_lease_until_ms=seen
        )
        answer = self.attempt(step, crash)
        if beaten:
            assert answer is Answer.LEASE_RENEWED
        else:
            self.finished(held, end, answer)

    @precondition(lambda self: self.past)
    @rule(pick=st.integers(0, 99), reason=reasons)
    def zombie(self, pick: int, reason: Reason) -> None:
        held, _ = self.past[pick % len(self.past)]
        late = self.end(held, reason)
        other = replace(late, manifest_digest="f" * 64)
        assert end_attempt(self.ledger, held, other) is Answer.REFUSED
        assert stop_attempt(self.ledger, held, who="zombie") is Answer.REFUSED

    @precondition(lambda self: not self.model.stopped and self.model.screening in ("running", "paused"))
    @rule(crash=crashes, pausing=st.booleans(), really=st.integers(0, 4))
    def operate(self, crash: int | None, pausing: bool, really: int) -> None:
        if pausing and self.model.screening == "running":
            self.attempt(lambda: pause(self.ledger, self.screening, who="test"), crash)
            self.model.screening = "paused"
            self.move("queued", "planned")
        elif pausing:
            self.attempt(lambda: resume(self.ledger, self.screening, who="test"), crash)
            self.model.screening = "running"
        elif really == 0:
            self.attempt(lambda: cancel(self.ledger, self.screening, who="test"), crash)
            self.model.stopped = True
            self.move("queued", "cancelled")
            self.move("planned", "cancelled")

    def move(self, before: str, after: str) -> None:
        for slot in self.model.slots.values():
            slot.state = after if slot.state == before else slot.state

    @rule(crash=crashes)
    def close(self, crash: int | None) -> None:
        after = self.attempt(lambda: close(self.ledger, self.screening, who="test"), crash)
        states = [slot.state for slot in self.model.slots.values()]
        assert (after is not None) == (not {"planned", "queued", "running"} & set(states))
        if after is not None:
            assert (after == "complete") == (set(states) == {"recorded"})
            self.model.screening = after

    @rule(ms=st.integers(1, 5000))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms

    @invariant()
    def the_database_equals_the_model(self) -> None:
        for view in queries.tries(self.ledger, self.screening):
            slot = self.model.slots[view.row["id"]]
            row = view.row
            assert (row["state"], row["reruns"], row["token"], row["outcome"]) == (
                slot.state,
                slot.reruns,
                slot.tokens,
                slot.outcome,
            )
        status = queries.status(self.ledger, self.screening)
        assert (status.used_nusd, status.platform_nusd) == (self.model.used, self.model.platform)

    @invariant()
    def a_stopped_screening_has_nothing_waiting(self) -> None:
        waiting = {slot.state for slot in self.model.slots.values()} & {"planned", "queued"}
        assert not (self.model.stopped and waiting)

    @invariant()
    def every_invariant_holds(self) -> None:
        assert violations(self.ledger) == []


SETTINGS = settings(
    max_examples=12,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, copied for every example."""
    holder = tmp_path_factory.mktemp("model") / "template.db"
    opened = open_ledger(f"sqlite:///{holder}")
    with opened.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    opened.close()
    return holder


def test_the_model_on_sqlite(sqlite_template: Path) -> None:
    """Claim, beat, expire, record, repeat, zombie, pause, cancel and crashes: the file equals the model."""

    class OnSqlite(LedgerMachine):
        @staticmethod
        def opened(clock: Callable[[Connection], int]) -> tuple[Ledger, Callable[[], None]]:
            folder = tempfile.TemporaryDirectory()
            path = Path(folder.name) / "ledger.db"
            shutil.copy(sqlite_template, path)
            return Ledger(create_engine(f"sqlite:///{path}"), clock), folder.cleanup

    run_state_machine_as_test(OnSqlite, settings=SETTINGS)


def test_the_model_on_postgresql(postgres_server: PostgresServer) -> None:
    """The same machine, the same examples, on PostgreSQL."""

    class OnPostgres(LedgerMachine):
        @staticmethod
        def opened(clock: Callable[[Connection], int]) -> tuple[Ledger, Callable[[], None]]:
            url = postgres_server.new_database(upgrade)
            return Ledger(create_engine(url), clock), partial(postgres_server.drop_database, url)

    run_state_machine_as_test(OnPostgres, settings=SETTINGS)
