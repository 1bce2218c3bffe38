"""The local engine and the places at a provider: what it may start, and that it says what it waits for."""

from __future__ import annotations

import threading

from orchestrator.attempts import AttemptControl, AttemptOrder
from orchestrator.engine.base import Callbacks, Progress, RunResult, Settings, Started, Waiting
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.ledger import providers, queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.owners import register
from orchestrator.ledger.providers import ProviderView, set_limits
from orchestrator.ledger.states import SlotState
from orchestrator.ledger.transitions import claim, queue, start, stop_attempt
from tests.assets.services.own import wait_until

SETTINGS = Settings(back_off_ms=0, idle_ms=5, beat_ms=600_000)


class Run:
    """An engine in a thread of its own, with its events and the most tries that ran at a time."""

    def __init__(self, ledger: Ledger, attempt: StubAttempt) -> None:
        self.events: list[Progress] = []
        self.engine = LocalEngine(
            ledger, Callbacks(attempt, stub_order, progress=self.events.append), SETTINGS
        )
        self.result: RunResult | None = None

    def start(self, screening: str, parallel: int) -> threading.Thread:
        def run() -> None:
            self.result = self.engine.run([screening], parallel)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def waits(self) -> bool:
        """Whether the run said that it waits."""
        return bool(self.waited())

    def waited(self) -> list[Waiting]:
        return [event for event in self.events if isinstance(event, Waiting)]


def test_a_run_says_that_it_waits_and_goes_on_by_itself(ledger: Ledger) -> None:
    """Another run has the only place, and what a third one left queued when it was killed has none."""
    set_limits(ledger, {"openai": 1})
    gone, other, mine = (
        plan_stub(ledger, ["a", "b"], name=name, tries=1, providers=["openai"]) for name in "xyz"
    )
    for one in (gone, other):
        start(ledger, one, who="test")
        queue(ledger, one, 32)
    held = claim(ledger, other, register(ledger).id, lease_ms=600_000)
    assert held is not None
    run = Run(ledger, StubAttempt())
    thread = run.start(mine, 2)
    wait_until(run.waits, "the run says that it waits")
    assert run.waited() == [Waiting(mine, "openai", 1)]
    assert not any(isinstance(event, Started) for event in run.events)
    stop_attempt(ledger, held, who="test", nusd=None)
    thread.join(60)
    assert run.result is not None and run.result.states == {mine: "complete"}
    assert queries.status(ledger, gone).slots[SlotState.QUEUED] == 2 and violations(ledger) == []


def test_a_run_with_more_places_than_its_provider_starts_no_more_than_that(ledger: Ledger) -> None:
    """All tries are run all the same, and it is said once, not with every try."""
    set_limits(ledger, {"openai": 2})
    screening = plan_stub(ledger, ["a", "b", "c"], tries=2, providers=["openai"])
    lock, running, most = threading.Lock(), 0, 0

    def gate(_order: AttemptOrder, _control: AttemptControl) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        wait_until(run.waits, "a place is missing")
        with lock:
            running -= 1

    run = Run(ledger, StubAttempt(gate=gate))
    run.start(screening, 4).join(60)
    assert run.result is not None and run.result.attempts == 6
    assert most == 2
    assert set(run.waited()) == {Waiting(screening, "openai", 2)}
    assert providers.views(ledger) == [ProviderView("openai", 0, 2)] and violations(ledger) == []
