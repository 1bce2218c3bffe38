"""kill -9 of a whole run, then the same command again: every slot ends once, nothing is paid twice.

The attempts are scripted, the processes, signals and the database are real. Everything waits for facts
(lines that the child prints), never for time.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.states import AttemptState, SlotState
from tests.assets.programs import forks
from tests.assets.programs.forks import ROOT, TEXT
from tests.assets.services import fixtures as services

ledger_url = services.ledger_url

PRICE = 10

PROGRAM = """
import os, signal, sys, threading
from sqlalchemy import event
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.errors import RunAbortedError
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.signals import interrupts
from orchestrator.engine.stub import StubAttempt, stub_order
from orchestrator.ledger import queries
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.records import CertificateKind, add_certificate

url, screening, parallel, free, die_at, price = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
ledger = open_ledger(url)
lock, passed, statements = threading.Lock(), 0, 0

def say(*words):
    with lock:
        print(*words, flush=True)

def gate(order, control):
    # The first `free` attempts pass, every other one stays inside until it is told to stop.
    global passed
    with lock:
        passed += 1
        held = free >= 0 and passed > free
    if held:
        say("held", order.attempt_id)
        while not control.cancelled():
            threading.Event().wait(0.01)

def certify(attempt_id):
    row = queries.show_attempt(ledger, attempt_id).row
    add_certificate(ledger, screening_id=row["screening_id"], kind=CertificateKind.TRY, digest=attempt_id,
                    envelope=b"{}", who="drill", attempt_id=attempt_id)

def progress(event):
    say(type(event).__name__, getattr(event, "lost", ""))

if die_at >= 0:
    @event.listens_for(ledger.engine, "before_cursor_execute")
    def count(*args):
        global statements
        statements += 1
        if statements == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

callbacks = Callbacks(StubAttempt(gate=gate), stub_order, certify, progress, metered=lambda held: price)
engine = LocalEngine(ledger, callbacks, Settings(back_off_ms=0, idle_ms=20, beat_ms=50))
try:
    with interrupts(engine):
        result = engine.run([screening], parallel)
except RunAbortedError as error:
    sys.exit(error.exit_code)
say("result", result.states[screening])
sys.exit(130 if result.interrupted else 0)
"""


class Child:
    """One `run` in a process of its own; its output is read line by line."""

    def __init__(
        self, ledger_url: str, screening: str, *, parallel: int = 2, free: int = -1, die_at: int = -1
    ):
        arguments = [ledger_url, screening, *map(str, (parallel, free, die_at, PRICE))]
        reader, writer = os.pipe()
        self.told = os.fdopen(reader)
        with os.fdopen(writer, "wb") as out, os.fdopen(os.dup(2), "wb") as err:
            self.process = forks.start(
                [TEXT, PROGRAM, *arguments], env=os.environ, cwd=ROOT, stdout=out, stderr=err
            )
        self.lines: list[str] = []

    def until(self, word: str, times: int) -> None:
        """Read on until `times` lines began with `word`."""
        while sum(line.split()[0] == word for line in self.lines) < times:
            line = self.told.readline()
            assert line, f"the child ended: {self.lines}"
            self.lines.append(line)

    def finish(self) -> int:
        """Read to the end; the exit code."""
        with self.told:
            self.lines += self.told.read().splitlines()
        return self.process.wait()

    def kill(self) -> None:
        self.process.kill()
        assert self.finish() == -signal.SIGKILL

    def count(self, word: str) -> int:
        return sum(line.startswith(word) for line in self.lines)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    opened = open_ledger(ledger_url)
    yield opened
    opened.close()


def assert_sound(ledger: Ledger, screening: str) -> Counter[str]:
    """Everything that must hold at the end of any drill; returns how many attempts ended for which reason."""
    assert violations(ledger) == []
    status = queries.status(ledger, screening)
    assert status.open == 0
    reasons: Counter[str] = Counter()
    void = 0
    for view in queries.tries(ledger, screening):
        attempts = queries.show_try(ledger, view.row["id"]).attempts
        counted = [one for one in attempts if one.row["state"] == "recorded"]
        assert len(counted) == (view.row["state"] == SlotState.RECORDED)
        reasons.update(one.row["reason"] for one in attempts)
        void += len(attempts) - len(counted)
        for one in attempts:
            assert one.spend == (("agent" if one in counted else "platform", PRICE),)
            assert (one.certificate_digest is not None) == (one.row["outcome"] is not None)
    assert status.used_nusd == PRICE * status.slots[SlotState.RECORDED]
    assert status.platform_nusd == PRICE * void
    return reasons


def live_attempts(ledger: Ledger, screening: str) -> set[str]:
    """The attempts that nobody has ended yet, by id."""
    tries = [queries.show_try(ledger, view.row["id"]) for view in queries.tries(ledger, screening)]
    return {one.row["id"] for each in tries for one in each.attempts if one.row["state"] == AttemptState.LIVE}


def test_kill_in_the_middle_then_the_same_command(ledger: Ledger, ledger_url: str) -> None:
    """Issue 2: 7 of 12 recorded, 2 running, kill -9; the next run takes 2 over and finishes all 12."""
    screening = plan_stub(ledger, ["a", "b", "c", "d"])
    first = Child(ledger_url, screening, free=7)
    first.until("held", 2)
    first.until("Ended", 7)
    first.kill()
    assert queries.status(ledger, screening).slots[SlotState.RUNNING] == 2
    second = Child(ledger_url, screening)
    assert second.finish() == 0
    assert "Resumed 2" in second.lines and second.lines[-1] == "result complete"
    assert (second.count("Voided"), second.count("Ended")) == (2, 5)
    assert assert_sound(ledger, screening) == {"all_checks_passed": 12, "worker_lost": 2}


@pytest.mark.parametrize("first_death", [11, 14, 17, 20, 23])
def test_killed_at_one_statement_after_another(ledger: Ledger, ledger_url: str, first_death: int) -> None:
    """SIGKILL from inside, before statement n, n + 37, n + 74 and so on, until a run gets through."""
    screening = plan_stub(ledger, ["a", "b", "c", "d"])
    die_at, code, orphans = first_death, -signal.SIGKILL, set[str]()
    while code == -signal.SIGKILL:
        code = Child(ledger_url, screening, die_at=die_at).finish()
        orphans |= live_attempts(ledger, screening)
        die_at += 37
    assert code == 0 and die_at > first_death + 37
    reasons = assert_sound(ledger, screening)
    # How many attempts a death orphans depends on the threads; each orphan, and nothing else, is worker_lost.
    assert set(reasons) <= {"all_checks_passed", "worker_lost"}
    assert reasons["worker_lost"] == len(orphans)
    assert reasons["all_checks_passed"] == queries.status(ledger, screening).slots[SlotState.RECORDED]


def test_ctrl_c_once_drains_twice_stops_and_the_same_command_resumes(ledger: Ledger, ledger_url: str) -> None:
    """DESIGN section 13, with real signals: exit 130, no platform fault, nothing lost."""
    screening = plan_stub(ledger, ["a", "b"])
    child = Child(ledger_url, screening, free=2)
    child.until("held", 2)
    child.process.send_signal(signal.SIGINT)
    child.until("Draining", 1)
    assert queries.status(ledger, screening).slots[SlotState.RUNNING] == 2
    child.process.send_signal(signal.SIGINT)
    assert child.finish() == 130
    assert child.count("Cancelling") == 1 and child.count("Voided") == 2
    assert Child(ledger_url, screening).finish() == 0
    reasons = assert_sound(ledger, screening)
    assert reasons == {"all_checks_passed": 6, "operator_cancelled": 2}


def test_a_second_run_survives_the_death_of_the_first(ledger: Ledger, ledger_url: str) -> None:
    """Two processes on one file; one is killed, the other sees it within a beat and finishes its slots."""
    screening = plan_stub(ledger, ["a", "b", "c"])
    first = Child(ledger_url, screening, parallel=1, free=0)
    first.until("held", 1)
    second = Child(ledger_url, screening, parallel=1)
    second.until("Ended", 8)
    first.kill()
    assert second.finish() == 0
    assert "Voided True" in second.lines and second.lines[-1] == "result complete"
    assert assert_sound(ledger, screening) == {"all_checks_passed": 9, "worker_lost": 1}
