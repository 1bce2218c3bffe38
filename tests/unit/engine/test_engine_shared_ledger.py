"""Two local engines on one ledger file: they meet only in the ledger's claims."""

from __future__ import annotations

import threading
from typing import Any

from orchestrator.attempts import AttemptControl, AttemptOrder
from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger

FAST = Settings(back_off_ms=0, idle_ms=5, beat_ms=10)


def test_two_engines_on_one_file(ledger: Ledger, ledger_url: str) -> None:
    """Section 5: they co-operate through claims; nothing runs twice and both see the end."""
    other = open_ledger(ledger_url)
    screening = plan_stub(ledger, [f"t{n}" for n in range(20)])
    meet = threading.Barrier(2)
    together = threading.Event()

    def gate(_order: AttemptOrder, _control: AttemptControl) -> None:
        if not together.is_set():
            meet.wait(60)
            together.set()

    callbacks = Callbacks(StubAttempt(gate=gate), stub_order)
    engines = [LocalEngine(store, callbacks, FAST) for store in (ledger, other)]
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda engine=engine: results.append(engine.run([screening], 1)))
        for engine in engines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.states[screening] for result in results] == ["complete", "complete"]
    assert sum(result.attempts for result in results) == 60
    assert all(result.attempts for result in results)
    assert violations(ledger) == []
    other.close()
