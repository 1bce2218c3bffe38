"""Who is dead: same pid is not the same process, and what cannot be seen is not called dead."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from orchestrator.engine.stub import plan_stub
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.owners import (
    Liveness,
    ProcessIdentity,
    dead_holders,
    holders,
    liveness,
    register,
    retire,
    this_process,
)
from orchestrator.ledger.transitions import claim, queue, start

PROGRAM = """
from orchestrator.ledger.owners import this_process
me = this_process()
print(me.pid, me.pid_started, flush=True)
input()
"""


def test_a_process_is_alive_until_it_has_ended() -> None:
    """A zombie counts as dead: it holds its pid and does nothing any more."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdin is not None
    pid, started = child.stdout.readline().split()
    other = replace(this_process(), pid=int(pid), pid_started=started)
    assert liveness(other) is Liveness.ALIVE
    child.kill()
    # Dead but not yet waited for: it still has its pid and its start time.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert liveness(other) is Liveness.DEAD
    child.wait()
    assert liveness(other) is Liveness.DEAD
    child.stdin.close()
    child.stdout.close()


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, Liveness.ALIVE),
        ({"pid_started": "1"}, Liveness.DEAD),
        ({"boot_id": "before the reboot"}, Liveness.DEAD),
        ({"boot_id": "elsewhere", "host": "elsewhere"}, Liveness.UNKNOWN),
        ({"pid_namespace": "pid:[1]"}, Liveness.UNKNOWN),
    ],
)
def test_verdicts(change: dict[str, str], verdict: Liveness) -> None:
    """Pid, start time and boot together; another host or pid namespace cannot be judged from here."""
    me: ProcessIdentity = this_process()
    assert liveness(replace(me, **change)) is verdict  # type: ignore[arg-type]


def test_only_owners_with_live_attempts_are_looked_at(ledger: Ledger) -> None:
    """A retired owner that still holds something (its run was aborted) is dead for everybody."""
    screening = plan_stub(ledger, ["a"], tries=1)
    start(ledger, screening, who="test")
    queue(ledger, screening, 1)
    idle, busy = register(ledger), register(ledger)
    claim(ledger, screening, busy.id, lease_ms=1000)
    assert list(holders(ledger)) == [busy.id]
    assert dead_holders(ledger) == []
    retire(ledger, busy)
    assert dead_holders(ledger) == [busy.id]
    assert idle.id not in dead_holders(ledger)
