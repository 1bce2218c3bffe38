"""The local engine with scripted attempts: order, faults, fairness, certification, interrupts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from orchestrator.attempts import AttemptCancelledError, AttemptControl, AttemptOrder
from orchestrator.engine.base import (
    Callbacks,
    Cancelling,
    Closed,
    Drained,
    Draining,
    Ended,
    PhaseEntered,
    Planned,
    Progress,
    Refused,
    Resumed,
    Salvage,
    Settings,
    Started,
    Voided,
)
from orchestrator.engine.errors import RunAbortedError
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.runner import end_of
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.errors import UsageError
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.records import CertificateKind, add_certificate
from orchestrator.ledger.states import SlotState
from orchestrator.ledger.transitions import Claim, cancel, claims_of, end_attempt, pause
from orchestrator.observations import Observations
from scoring.vocabulary import Outcome

FAST = Settings(back_off_ms=0, idle_ms=5, beat_ms=10)
QUIET = Settings(back_off_ms=0, idle_ms=5, beat_ms=600_000)


class Bench:
    """An engine, its events in order, and certificates that are really stored."""

    def __init__(self, ledger: Ledger, attempt: Any = None, settings: Settings = QUIET, **more: Any) -> None:
        self.ledger = ledger
        self.events: list[Progress] = []
        self.certified: list[str] = []
        self.on_event: Callable[[Progress], None] = lambda _event: None
        callbacks = Callbacks(
            attempt=attempt or StubAttempt(),
            order_for=more.pop("order_for", stub_order),
            certify=more.pop("certify", self._certify),
            progress=self._progress,
            metered=more.pop("metered", lambda _held: 10),
            **more,
        )
        self.engine = LocalEngine(ledger, callbacks, settings)

    def _progress(self, event: Progress) -> None:
        self.events.append(event)
        self.on_event(event)

    def _certify(self, attempt_id: str) -> None:
        row = queries.show_attempt(self.ledger, attempt_id).row
        self.certified.append(attempt_id)
        add_certificate(
            self.ledger,
            screening_id=row["screening_id"],
            kind=CertificateKind.TRY,
            digest=attempt_id,
            envelope=b"{}",
            who="test",
            attempt_id=attempt_id,
        )

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def test_a_screening_runs_to_its_end(ledger: Ledger) -> None:
    """Every slot recorded once, in start order at one at a time, each attempt certified, then closed."""
    bench = Bench(ledger)
    screening = plan_stub(ledger, ["a", "b", "c"])
    result = bench.engine.run([screening], 1)
    assert (result.states, result.interrupted, result.attempts) == ({screening: "complete"}, False, 9)
    assert bench.events[0] == Planned(screening, 9)
    assert bench.events[-1] == Closed(screening, "complete")
    started = [(event.claim.task_id, event.claim.k) for event in bench.of(Started)]
    slots = sorted(queries.tries(ledger, screening), key=lambda view: view.row["start_order"])
    assert started == [(view.row["task_id"], view.row["k"]) for view in slots]
    assert bench.certified == [event.claim.attempt_id for event in bench.of(Ended)]
    assert len(bench.of(PhaseEntered)) == 4 * 9
    assert queries.certifiable(ledger) == [] and violations(ledger) == []
    assert queries.status(ledger, screening).used_nusd == 90


@pytest.mark.parametrize("parallel", [1, 4])
def test_faults_are_run_again_and_nothing_else_is(ledger: Ledger, parallel: int) -> None:
    """DESIGN section 7 through the whole engine: scripted ends of every kind, also a raising attempt."""
    script = {
        "fault": ["platform_fault"],
        "mended": ["platform_fault", "passed"],
        "raises": ["raise", "failed"],
        "unfit": ["not_evaluable"],
        "slow": ["timeout"],
    }
    bench = Bench(ledger, StubAttempt(script))
    screening = plan_stub(ledger, [*script, "fine"], tries=1)
    assert bench.engine.run([screening], parallel).states == {screening: "partial"}
    ends = {
        view.row["task_id"]: (view.row["outcome"], view.row["reruns"])
        for view in queries.tries(ledger, screening)
    }
    assert ends == {
        "fault": ("platform_fault", 2),
        "mended": ("passed", 1),
        "raises": ("failed", 1),
        "unfit": ("not_evaluable", 0),
        "slow": ("failed", 0),
        "fine": ("passed", 0),
    }
    assert Counter(event.requeued for event in bench.of(Voided)) == {True: 4, False: 2}
    assert len(bench.certified) == len(set(bench.certified)) == 10
    status = queries.status(ledger, screening)
    assert (status.used_nusd, status.platform_nusd) == (40, 60)
    assert violations(ledger) == []


def test_a_re_run_starts_without_polling(ledger: Ledger) -> None:
    """A condition wakes the idle workers when a slot comes back: polling alone would hang."""
    patient = Settings(back_off_ms=0, idle_ms=600_000, beat_ms=600_000)
    bench = Bench(ledger, StubAttempt({"a": ["platform_fault", "passed"]}), patient)
    assert set(bench.engine.run([plan_stub(ledger, ["a"], tries=1)], 3).states.values()) == {"complete"}


def test_what_a_raising_attempt_left_can_be_saved(ledger: Ledger) -> None:
    """`salvage` stores evidence of an attempt without a report; it cannot explain the failure away."""
    asked: list[Observations] = []

    def salvage(_held: Claim, seen: Observations) -> Salvage:
        asked.append(seen)
        return Salvage(Observations(agent_started=True, grader_proven=True, reward_passes=True), "5" * 64)

    bench = Bench(ledger, StubAttempt({"a": ["raise", "passed"]}), salvage=salvage)
    screening = plan_stub(ledger, ["a"], tries=1)
    bench.engine.run([screening], 1)
    assert [seen.engine_error for seen in asked] == ["StubFailure"]
    first = queries.show_try(ledger, queries.tries(ledger, screening)[0].row["id"]).attempts[0]
    assert (first.row["outcome"], first.row["reason"]) == ("platform_fault", "engine_error")
    assert first.manifest_digest == "5" * 64
    assert first.row["details"]["error"].startswith("attempt 1 of a")


def test_an_order_that_cannot_be_made_is_the_platforms(ledger: Ledger) -> None:
    """An expected error while preparing is a platform fault of the prepare phase, without a traceback."""

    def order_for(_held: Claim) -> AttemptOrder:
        raise UsageError("no such image")

    bench = Bench(ledger, order_for=order_for)
    screening = plan_stub(ledger, ["a"], tries=1)
    assert bench.engine.run([screening], 1).states == {screening: "partial"}
    attempts = queries.show_try(ledger, queries.tries(ledger, screening)[0].row["id"]).attempts
    assert [(one.row["phase"], one.row["reason"]) for one in attempts] == [("prepare", "engine_error")] * 3


def test_two_screenings_share_fairly(ledger: Ledger) -> None:
    """4.5: taking turns, so that neither waits for the other to end."""
    bench = Bench(ledger)
    one, two = plan_stub(ledger, ["a"], tries=6, name="one"), plan_stub(ledger, ["a"], tries=6, name="two")
    assert set(bench.engine.run([one, two], 1).states.values()) == {"complete"}
    started = [event.claim.screening_id for event in bench.of(Started)]
    assert started == [one, two] * 6


def test_at_most_so_many_run_at_once(ledger: Ledger) -> None:
    """`parallel` is exact: that many meet at a barrier, and never one more is inside."""
    inside, most, lock = 0, 0, threading.Lock()
    barrier = threading.Barrier(3)

    def gate(_order: AttemptOrder, _control: AttemptControl) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        barrier.wait()
        with lock:
            inside -= 1
        barrier.wait()

    bench = Bench(ledger, StubAttempt(gate=gate))
    screening = plan_stub(ledger, ["a", "b", "c"])
    assert bench.engine.run([screening], 3).states == {screening: "complete"}
    assert most == 3


def test_finished_screenings_are_not_touched(ledger: Ledger) -> None:
    """The same command on a closed screening: nothing runs, missing certificates are made up for."""
    screening = plan_stub(ledger, ["a"])
    first = Bench(ledger, certify=lambda _attempt: None)
    first.engine.run([screening], 2)
    second = Bench(ledger)
    result = second.engine.run([screening], 2)
    assert (result.states, result.attempts) == ({screening: "complete"}, 0)
    assert second.certified == [
        queries.show_try(ledger, view.row["id"]).attempts[0].row["id"]
        for view in sorted(queries.tries(ledger, screening), key=lambda view: view.row["start_order"])
    ]
    assert [type(event) for event in second.events] == [Resumed]


def test_start_times_are_kept(ledger: Ledger) -> None:
    """A jittered plan: no attempt is claimed before its slot's time, and idle workers wait for it."""
    with ledger.reading() as connection:
        now = ledger.clock(connection)
    screening = plan_stub(ledger, ["a", "b"], tries=2, window_ms=300, start_ms=now + 100)
    assert Bench(ledger).engine.run([screening], 2).states == {screening: "complete"}
    for view in queries.tries(ledger, screening):
        attempt = queries.show_try(ledger, view.row["id"]).attempts[0]
        assert attempt.row["claimed_ms"] >= view.row["not_before_ms"] > now


def test_the_cap_stops_a_screening(ledger: Ledger) -> None:
    """4.3: what does not fit the cap any more is not started, and the screening says so."""
    screening = plan_stub(ledger, ["a"], tries=5, cap_nusd=35, try_cap_nusd=10)
    assert Bench(ledger).engine.run([screening], 2).states == {screening: "cap_stopped"}
    status = queries.status(ledger, screening)
    assert (status.slots[SlotState.RECORDED], status.slots[SlotState.CANCELLED]) == (3, 2)
    assert status.used_nusd == 30 and violations(ledger) == []


def test_a_paused_screening_is_left_alone(ledger: Ledger) -> None:
    """Pause holds until somebody resumes: a run returns instead of waiting for ever."""
    screening = plan_stub(ledger, ["a"])
    held = Held(1)
    bench = Bench(ledger, StubAttempt(gate=held))

    def pause_it() -> None:
        held.wait_all()
        pause(ledger, screening, who="test")
        held.release.set()

    result = run_and(bench, screening, 1, pause_it)
    assert result.states == {screening: "paused"} and result.attempts == 1


class Held:
    """A gate: attempts report that they are inside and wait until they are let go or told to stop."""

    def __init__(self, count: int) -> None:
        self.inside = threading.Semaphore(0)
        self.release = threading.Event()
        self.count = count

    def __call__(self, _order: AttemptOrder, control: AttemptControl) -> None:
        self.inside.release()
        while not control.cancelled() and not self.release.wait(0.01):
            pass

    def wait_all(self) -> None:
        for _ in range(self.count):
            assert self.inside.acquire(timeout=60)


def run_and(bench: Bench, screening: str, parallel: int, steps: Callable[[], None]) -> Any:
    """Run in this thread while another thread does `steps`."""
    helper = threading.Thread(target=steps)
    helper.start()
    try:
        return bench.engine.run([screening], parallel)
    finally:
        helper.join()


def test_the_first_interrupt_drains(ledger: Ledger) -> None:
    """What runs is finished and recorded, nothing new is started, the same command goes on."""
    held = Held(2)
    bench = Bench(ledger, StubAttempt(gate=held))
    bench.on_event = lambda event: held.release.set() if isinstance(event, Draining) else None
    screening = plan_stub(ledger, ["a", "b", "c"])

    def steps() -> None:
        held.wait_all()
        bench.engine.interrupt()

    result = run_and(bench, screening, 2, steps)
    assert (result.interrupted, result.attempts, result.states) == (True, 2, {screening: "running"})
    assert bench.of(Draining) == [Draining(2)] and bench.of(Drained) == [Drained(7)]
    assert len(bench.certified) == 2 and violations(ledger) == []
    again = Bench(ledger)
    assert again.engine.run([screening], 2).states == {screening: "complete"}
    assert again.of(Resumed) == [Resumed(screening, 2, 0, 0, 7, 20, None)]


def test_the_second_interrupt_gives_the_slots_back(ledger: Ledger) -> None:
    """Stopped attempts are kept, nobody's fault, not certified; the same command runs the slots again."""
    held = Held(2)
    bench = Bench(ledger, StubAttempt(gate=held))
    screening = plan_stub(ledger, ["a", "b"], tries=1)

    def steps() -> None:
        held.wait_all()
        bench.engine.interrupt()
        bench.engine.interrupt()

    result = run_and(bench, screening, 2, steps)
    assert result.interrupted and bench.of(Cancelling) == [Cancelling(2)]
    assert [(event.outcome, event.reason, event.requeued) for event in bench.of(Voided)] == [
        (None, "operator_cancelled", True)
    ] * 2
    status = queries.status(ledger, screening)
    assert (status.slots[SlotState.QUEUED], status.reruns, status.interruptions) == (2, 0, 2)
    assert (status.used_nusd, status.platform_nusd, bench.certified) == (0, 20, [])
    assert Bench(ledger).engine.run([screening], 2).states == {screening: "complete"}
    assert violations(ledger) == []


def test_the_third_interrupt_leaves_at_once(ledger: Ledger) -> None:
    """Attempts that do not stop are given up in the ledger; a record that comes later is refused."""
    inside, release, late = threading.Semaphore(0), threading.Event(), threading.Semaphore(0)

    def stubborn(order: AttemptOrder, control: AttemptControl) -> Any:
        inside.release()
        release.wait()
        late.release()
        return StubAttempt()(order, _Deaf(control))

    bench = Bench(ledger, stubborn)
    screening = plan_stub(ledger, ["a"], tries=1)

    def steps() -> None:
        assert inside.acquire(timeout=60)
        for _ in range(3):
            bench.engine.interrupt()

    with pytest.raises(RunAbortedError) as caught:
        run_and(bench, screening, 1, steps)
    assert caught.value.exit_code == 130 and caught.value.hint
    assert queries.status(ledger, screening).interruptions == 1
    again = Bench(ledger)
    assert again.engine.run([screening], 1).states == {screening: "complete"}
    release.set()
    assert late.acquire(timeout=60)
    for thread in threading.enumerate():
        if thread.name.startswith("assize-worker"):
            thread.join(60)
    assert "refused" in {event["kind"] for event in queries.history(ledger, screening)}
    assert queries.status(ledger, screening).slots[SlotState.RECORDED] == 1
    assert violations(ledger) == []


class _Deaf:
    def __init__(self, control: AttemptControl) -> None:
        self.phase = control.phase
        self.calls_until = control.calls_until

    def cancelled(self) -> bool:
        return False


def test_cancelling_the_screening_reaches_running_attempts(ledger: Ledger) -> None:
    """Transition 10 by heartbeat: another process cancels, the attempts stop, the screening closes."""
    held = Held(2)
    bench = Bench(ledger, StubAttempt(gate=held), FAST)
    screening = plan_stub(ledger, ["a", "b", "c"], tries=1)

    def steps() -> None:
        held.wait_all()
        cancel(ledger, screening, who="somebody else")

    result = run_and(bench, screening, 2, steps)
    assert result.states == {screening: "cancelled"} and not result.interrupted
    assert queries.status(ledger, screening).slots[SlotState.CANCELLED] == 3
    assert violations(ledger) == []


def test_an_attempt_that_lost_its_token_stops_and_records_nothing(ledger: Ledger) -> None:
    """4.2 row 4: zero rows at the heartbeat mean that I am a zombie."""
    held = Held(1)
    bench = Bench(ledger, StubAttempt(gate=held), FAST)
    screening = plan_stub(ledger, ["a"], tries=1)

    def steps() -> None:
        held.wait_all()
        owner = queries.live_attempts(ledger)[0][2]
        (mine,) = claims_of(ledger, [owner])
        report = StubAttempt({"a": ["platform_fault"]})(stub_order(mine), _Idle())
        end_attempt(ledger, mine, end_of(report, None), back_off_ms=0, who="reaper")
        held.wait_all()
        held.release.set()

    result = run_and(bench, screening, 1, steps)
    assert result.states == {screening: "complete"}
    assert len(bench.of(Refused)) == 1 and len(bench.of(Ended)) == 1
    assert queries.status(ledger, screening).reruns == 1 and violations(ledger) == []


class _Idle:
    def phase(self, _phase: object) -> None: ...

    def cancelled(self) -> bool:
        return False

    def calls_until(self) -> None: ...


def test_an_attempt_past_its_deadline_is_stopped(ledger: Ledger) -> None:
    """The last backstop: a worker that hangs is our fault, and suspect when its agent had control."""
    held = Held(1)
    bench = Bench(ledger, StubAttempt(gate=held), FAST)
    screening = plan_stub(ledger, ["a"], tries=1)
    with ledger.unit_of_work() as connection:
        connection.exec_driver_sql("UPDATE try_slot SET limit_ms = 1")
    assert bench.engine.run([screening], 1).states == {screening: "partial"}
    attempts = queries.show_try(ledger, queries.tries(ledger, screening)[0].row["id"]).attempts
    assert {(one.row["reason"], one.row["phase"], one.row["suspect"]) for one in attempts} == {
        ("engine_error", "agent", True)
    }
    assert attempts[0].row["details"]["observations"]["engine_error"] == "DeadlinePassed"


def test_stopping_without_being_told_is_a_fault(ledger: Ledger) -> None:
    """An attempt function cannot give its slot back by itself."""

    def quits(_order: AttemptOrder, _control: AttemptControl) -> Any:
        raise AttemptCancelledError

    screening = plan_stub(ledger, ["a"], tries=1)
    assert Bench(ledger, quits).engine.run([screening], 1).states == {screening: "partial"}
    assert queries.status(ledger, screening).outcomes[Outcome.PLATFORM_FAULT] == 1


@pytest.mark.parametrize("broken", ["certify", "progress"])
def test_a_failing_callback_drains_first(ledger: Ledger, broken: str) -> None:
    """A broken signer or display must not kill paid attempts: they end, then the error is raised."""
    held = Held(2)

    def fail(*_args: object) -> None:
        raise RuntimeError(f"{broken} is broken")

    more: dict[str, Any] = {"certify": fail} if broken == "certify" else {}
    bench = Bench(ledger, StubAttempt(gate=held), **more)
    if broken == "progress":
        bench.on_event = lambda event: fail() if isinstance(event, Ended) else None
    screening = plan_stub(ledger, ["a", "b", "c", "d"], tries=1)

    def steps() -> None:
        held.wait_all()
        held.release.set()

    with pytest.raises(RuntimeError, match="is broken"):
        run_and(bench, screening, 2, steps)
    status = queries.status(ledger, screening)
    assert status.slots[SlotState.RUNNING] == 0 and status.slots[SlotState.RECORDED] >= 2
    assert violations(ledger) == []
    assert Bench(ledger).engine.run([screening], 2).states == {screening: "complete"}


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_worker_that_cannot_record_is_no_silence(ledger: Ledger, error: type[BaseException]) -> None:
    """An error of the ledger in a worker thread reaches the caller; the next run takes the attempt over."""
    broken = True

    def metered(_held: Claim) -> int:
        if broken:
            raise error("the disk is full")
        return 1

    screening = plan_stub(ledger, ["a", "b"], tries=1)
    with pytest.raises(error, match="disk is full"):
        Bench(ledger, metered=metered).engine.run([screening], 1)
    broken = False
    again = Bench(ledger, metered=metered)
    assert again.engine.run([screening], 1).states == {screening: "complete"}
    assert again.of(Resumed)[0].lost == 1 and violations(ledger) == []


def test_parallel_needs_at_least_one(ledger: Ledger) -> None:
    """Wrong input is one clear sentence."""
    with pytest.raises(UsageError, match="at least one"):
        Bench(ledger).engine.run([], 0)


def test_settings_default_to_the_reference() -> None:
    """4.2: lease 120 s, beat 20 s."""
    assert Settings() == Settings(lease_ms=120_000, beat_ms=20_000, idle_ms=1_000, back_off_ms=2_000)
