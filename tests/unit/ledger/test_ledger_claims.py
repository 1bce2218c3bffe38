"""Claiming at once: every slot once, and nobody is told that there is none while there is one."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy import event

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.states import SlotState
from orchestrator.ledger.transitions import claim, claim_message, queue, start

WORKERS, SLOTS = 4, 60

PROGRAM = """
import sys
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.owners import register
from orchestrator.ledger.transitions import claim, claim_message

url, screening, messages = sys.argv[1], sys.argv[2], [word.split("/") for word in sys.argv[3:]]
ledger = open_ledger(url)
owner = register(ledger).id
print("ready", flush=True)
sys.stdin.readline()
if messages:
    for slot, generation in messages:
        held = claim_message(ledger, slot, int(generation), owner, lease_ms=60_000)
        print(*([held.slot_id] if held else []), flush=True)
else:
    while (held := claim(ledger, screening, owner, lease_ms=60_000)) is not None:
        print(held.slot_id, flush=True)
ledger.close()
"""


def _race(url: str, screening: str, messages: list[str]) -> list[list[str]]:
    """What each of the worker processes claimed, all of them let go at the same moment."""
    command = [sys.executable, "-c", PROGRAM, url, screening, *messages]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(WORKERS)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    return [worker.communicate()[0].split() for worker in workers]


@pytest.mark.parametrize("by", ["order", "message"])
def test_processes_claim_every_slot_once(ledger: Ledger, ledger_url: str, by: str) -> None:
    """Transition 3 from several processes: M slots, M claims, by order or by messages sent to all of them."""
    screening = plan_stub(ledger, [f"t{n}" for n in range(SLOTS // 3)])
    start(ledger, screening, who="test")
    assert queue(ledger, screening, SLOTS) == SLOTS
    rows = [view.row for view in queries.tries(ledger, screening)]
    messages = [f"{row['id']}/{row['generation']}" for row in rows] if by == "message" else []
    taken = [slot for claimed in _race(ledger_url, screening, messages) for slot in claimed]
    assert sorted(taken) == sorted(row["id"] for row in rows)
    status = queries.status(ledger, screening)
    assert status.slots[SlotState.RUNNING] == SLOTS
    assert [found.name for found in violations(ledger) if found.number != 11] == []


def test_a_slot_that_is_being_taken_is_passed_over(postgres_ledger: Ledger, postgres_url: str) -> None:
    """A claim that has not committed yet neither blocks the next worker nor sends it away empty-handed."""
    owner = register(postgres_ledger).id
    screening = plan_stub(postgres_ledger, ["a", "b"], tries=1)
    start(postgres_ledger, screening, who="test")
    queue(postgres_ledger, screening, 2)
    other = open_ledger(postgres_url, postgres_ledger.clock)
    meanwhile: list[str] = []

    @event.listens_for(postgres_ledger.engine, "commit")
    def in_between(_connection: object) -> None:
        if not meanwhile:
            held = claim(other, screening, owner, lease_ms=1000)
            meanwhile.append(held.slot_id if held else "nothing")

    first = claim(postgres_ledger, screening, owner, lease_ms=1000)
    assert first is not None
    rows = {view.row["id"] for view in queries.tries(postgres_ledger, screening)}
    assert {first.slot_id, *meanwhile} == rows
    assert claim(other, screening, owner, lease_ms=1000) is None
    assert claim_message(other, first.slot_id, 1, owner, lease_ms=1000) is None
    other.close()
