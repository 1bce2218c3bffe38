"""Two transitions at once on PostgreSQL, stopped at every statement boundary: as one after the other.

SQLite has one writer, so a unit there is never in the middle of another one. On PostgreSQL each of the first
transition's statements is a place where the second may come in; every place is tried. The second one either
gets through or waits for a lock, which the server tells; then the first goes on. All invariants must hold,
and neither may fail for the other's sake.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.errors import LedgerError, StateError
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.records import CertificateKind, add_certificate
from orchestrator.ledger.transitions import (
    AttemptEnd,
    Claim,
    beat,
    cancel,
    claim,
    claim_message,
    close,
    end_attempt,
    pause,
    queue,
    stop_at_cap,
    stop_attempt,
)
from scoring.vocabulary import Phase, Reason
from tests.assets.services.own import wait_until

MakeEnd = Callable[..., AttemptEnd]


@dataclass
class Scene:
    """A running screening: one slot recorded, one held, one queued, one planned that the cap does not pay."""

    screening: str
    owner: str
    held: Claim
    recorded: Claim
    queued: Any
    end: MakeEnd


def _certify(ledger: Ledger, scene: Scene) -> bool:
    return add_certificate(
        ledger,
        screening_id=scene.screening,
        kind=CertificateKind.TRY,
        digest=scene.recorded.attempt_id.ljust(64, "0"),
        envelope=b"{}",
        who="test",
        attempt_id=scene.recorded.attempt_id,
    )


STEPS: dict[str, Callable[[Ledger, Scene], Any]] = {
    "queue": lambda ledger, scene: queue(ledger, scene.screening, 3),
    "claim": lambda ledger, scene: claim(ledger, scene.screening, scene.owner, lease_ms=1000),
    "claim_message": lambda ledger, scene: claim_message(
        ledger, scene.queued["id"], scene.queued["generation"], scene.owner, lease_ms=1000
    ),
    "beat": lambda ledger, scene: beat(
        ledger, scene.owner, {scene.held.attempt_id: Phase.GRADE}, lease_ms=1000
    ),
    "record": lambda ledger, scene: end_attempt(
        ledger, scene.held, scene.end(Reason.ALL_CHECKS_PASSED), back_off_ms=0
    ),
    "fault": lambda ledger, scene: end_attempt(
        ledger, scene.held, scene.end(Reason.ENGINE_ERROR), back_off_ms=0
    ),
    "stop": lambda ledger, scene: stop_attempt(ledger, scene.held, who="test", nusd=1),
    "pause": lambda ledger, scene: pause(ledger, scene.screening, who="test"),
    "cancel": lambda ledger, scene: cancel(ledger, scene.screening, who="test"),
    "stop_at_cap": lambda ledger, scene: stop_at_cap(ledger, scene.screening),
    "close": lambda ledger, scene: close(ledger, scene.screening, who="test"),
    "certify": _certify,
}


COMING_IN = ("queue", "claim", "record", "fault", "pause", "cancel", "stop_at_cap", "certify")
"""The second one: those that share their statements with another of `STEPS` are left out."""


class Gate:
    """Lets a unit run up to its n-th statement (or its COMMIT) and holds it there."""

    def __init__(self, ledger: Ledger) -> None:
        self.left: int | None = None
        self.reached = threading.Event()
        self.go = threading.Event()
        event.listen(ledger.engine, "before_cursor_execute", lambda *_: self._pass())
        event.listen(ledger.engine, "commit", lambda *_: self._pass())

    def arm(self, at: int) -> None:
        self.left = at
        self.reached.clear()
        self.go.clear()

    def _pass(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.left = None
            self.reached.set()
            assert self.go.wait(60)
            return
        self.left -= 1


class Runner(threading.Thread):
    """Runs one step; keeps its answer or what it raised."""

    def __init__(self, step: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.step, self.answer, self.error = step, None, None
        self.start()

    step: Callable[[], Any]
    answer: Any
    error: BaseException | None

    def run(self) -> None:
        try:
            self.answer = self.step()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test tells it
            self.error = error


class Ring:
    """Two ledgers on one database, and an eye on its locks."""

    def __init__(self, url: str, end: MakeEnd) -> None:
        self.first, self.second, self.eye = open_ledger(url), open_ledger(url), open_ledger(url)
        self.gate = Gate(self.first)
        self.end = end
        self.owner = register(self.first).id
        self.number = itertools.count()

    def close(self) -> None:
        for ledger in (self.first, self.second, self.eye):
            ledger.close()

    def scene(self) -> Scene:
        ledger = self.first
        screening = plan_stub(
            ledger, list("abcd"), tries=1, cap_nusd=35, try_cap_nusd=10, name=f"race-{next(self.number)}"
        )
        with ledger.unit_of_work() as connection:
            connection.execute(
                sa.text("UPDATE screening SET state = 'running' WHERE id = :id"), {"id": screening}
            )
        queue(ledger, screening, 3)
        recorded = claim(ledger, screening, self.owner, lease_ms=1000)
        held = claim(ledger, screening, self.owner, lease_ms=1000)
        assert recorded is not None and held is not None
        end_attempt(ledger, recorded, self.end(Reason.WRONG_OUTPUT, digest="c" * 64))
        queued = [view.row for view in queries.tries(ledger, screening) if view.row["state"] == "queued"]
        return Scene(screening, self.owner, held, recorded, queued[0], self.end)

    def held_or_over(self, one: Runner) -> bool:
        return self.gate.reached.is_set() or not one.is_alive()

    def over_or_blocked(self, two: Runner) -> bool:
        return not two.is_alive() or self.blocked()

    def blocked(self) -> bool:
        """Whether a backend of this database waits for a lock."""
        with self.eye.reading() as connection:
            return bool(
                connection.scalar(
                    sa.text(
                        "SELECT count(*) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                    )
                )
            )


@pytest.fixture
def ring(postgres_url: str, end: MakeEnd) -> Iterator[Ring]:
    made = Ring(postgres_url, end)
    yield made
    made.close()


@pytest.mark.parametrize("first", STEPS)
def test_any_two_transitions_at_once(ring: Ring, first: str) -> None:
    """4.2 holds whoever comes in between: no error, no wait without end, every invariant."""
    played: dict[str, str] = {}
    for second in COMING_IN:
        _everywhere(ring, first, second, played)
    broken = violations(ring.eye)
    assert [(played[name], found) for found in broken for name in played if name in found.message] == []
    assert broken == []


def _everywhere(ring: Ring, first: str, second: str, played: dict[str, str]) -> None:
    """Stop `first` before each of its statements and before its COMMIT, and let `second` come in."""
    # Before the clock and before the first statement after it, nothing has been done yet.
    for at in range(2, 40):
        scene = ring.scene()
        played[scene.screening] = f"{second} after statement {at} of {first}"
        ring.gate.arm(at)
        one = Runner(partial(STEPS[first], ring.first, scene))
        wait_until(partial(ring.held_or_over, one), "the first is held")
        held = ring.gate.reached.is_set()
        two = Runner(partial(STEPS[second], ring.second, scene))
        wait_until(partial(ring.over_or_blocked, two), "the second ended or waits")
        ring.gate.left = None
        ring.gate.go.set()
        one.join(60)
        two.join(60)
        assert not one.is_alive() and not two.is_alive(), f"both wait after statement {at}"
        for runner in (one, two):
            # The one step that a cancelled or closed screening refuses with a sentence.
            assert runner.error is None or isinstance(runner.error, StateError | LedgerError), (
                f"{second} after statement {at}: {runner.error!r}"
            )
        if not held:
            return
    raise AssertionError("the first step never got through")
