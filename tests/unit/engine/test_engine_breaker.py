"""A host that fails every attempt stops the run before all re-runs are burnt; a bad task does not."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.engine.base import Callbacks, Settings
from orchestrator.engine.breaker import HOST_REASONS, Breaker
from orchestrator.engine.errors import HostUnfitError
from orchestrator.engine.local import LocalEngine
from orchestrator.engine.stub import StubAttempt, plan_stub, stub_order
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.states import SlotState
from scoring.vocabulary import Outcome, Reason

FAST = Settings(back_off_ms=0, idle_ms=5, beat_ms=600_000)


def test_trips_only_in_a_row_and_on_several_tries() -> None:
    """Six ends in a row on three tries; one other end in between starts the count again."""
    breaker = Breaker()
    seen = [breaker.note(f"slot-{n % 3}", Reason.ENGINE_ERROR) for n in range(6)]
    assert seen == [False] * 5 + [True]
    breaker = Breaker()
    assert not any(breaker.note("slot-1", Reason.ENGINE_ERROR) for _ in range(50))
    breaker = Breaker()
    mixed = [Reason.ENGINE_ERROR] * 5 + [Reason.WRONG_OUTPUT] + [Reason.ENGINE_ERROR] * 5
    assert not any(breaker.note(f"slot-{n}", reason) for n, reason in enumerate(mixed))


@pytest.mark.parametrize("reason", [one for one in Reason if one not in HOST_REASONS])
def test_other_reasons_never_trip(reason: Reason) -> None:
    """An agent's failures, and faults that belong to a task, say nothing about the host."""
    breaker = Breaker()
    assert not any(breaker.note(f"slot-{n}", reason) for n in range(50))


def engine_for(ledger: Ledger, script: dict[str, list[str]]) -> LocalEngine:
    return LocalEngine(ledger, Callbacks(StubAttempt(script), stub_order), FAST)


def test_a_dead_host_leaves_the_screening_open(ledger: Any) -> None:
    """The run stops with one sentence; what was not started still is to go, and a mended host finishes it."""
    tasks = [f"task-{n}" for n in range(10)]
    screening_id = plan_stub(ledger, tasks, tries=3)
    with pytest.raises(HostUnfitError, match="fault of this host"):
        engine_for(ledger, {task: ["platform_fault"] for task in tasks}).run([screening_id], 2)
    status = queries.status(ledger, screening_id)
    assert status.state == "running" and status.slots[SlotState.UNCOUNTABLE] <= 3
    assert violations(ledger) == []
    engine_for(ledger, {}).run([screening_id], 2)
    status = queries.status(ledger, screening_id)
    assert status.open == 0 and status.outcomes[Outcome.PASSED] >= 27


def test_one_bad_task_does_not_stop_the_others(ledger: Any) -> None:
    """A single task whose image is gone is uncountable; everything else is recorded."""
    screening_id = plan_stub(ledger, ["bad", "good", "fine"], tries=1)
    engine_for(ledger, {"bad": ["platform_fault"]}).run([screening_id], 1)
    status = queries.status(ledger, screening_id)
    assert (status.state, status.outcomes[Outcome.PASSED]) == ("partial", 2)
