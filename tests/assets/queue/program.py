"""A real worker process with scripted attempts, for drills and benches: `python program.py '{json}'`.

Only the attempt is a stand-in. It walks through the phases, writes one line into a log file when it begins
and ends, and stays in the agent phase until its time is over or a file lets it go.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.attempts import AttemptControl, AttemptOrder
from orchestrator.engine.base import Callbacks
from orchestrator.engine.celery.times import Times
from orchestrator.engine.celery.worker import Worker, WorkerSetup
from orchestrator.engine.stub import StubAttempt, stub_order
from orchestrator.ledger.db import Ledger

PRICE_NUSD = 10
_POLL_S = 0.01


@dataclass(frozen=True)
class Script:
    """How long the attempts stay, whether until told, and whether they listen to being told to stop.

    While a file `away.<host>` is there, the host's engine does not answer.
    """

    folder: Path
    try_s: float = 0.0
    hold: bool = False
    deaf: bool = False
    quiet: bool = False
    host: str = "drill"


def note(script: Script, kind: str, order: AttemptOrder) -> None:
    """One line of the log, written in one piece."""
    if script.quiet:
        return
    told = {"slot": order.slot_id, "attempt": order.attempt_id, "token": order.token}
    line = json.dumps({"kind": kind, "pid": os.getpid(), **told})
    descriptor = os.open(script.folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class ScriptedShop:
    """What a child works with."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.callbacks = Callbacks(
            attempt=StubAttempt(gate=self._gate),
            order_for=stub_order,
            metered=lambda held: PRICE_NUSD,
            ready=lambda: not (script.folder / f"away.{script.host}").exists(),
        )

    def _gate(self, order: AttemptOrder, control: AttemptControl) -> None:
        script = self._script
        note(script, "begin", order)
        until = time.monotonic() + script.try_s
        held = script.hold and not (script.folder / "go").exists()
        while time.monotonic() < until or (held and not (script.folder / "go").exists()):
            if control.cancelled() and not script.deaf:
                note(script, "stopped", order)
                return
            time.sleep(_POLL_S)
        note(script, "end", order)

    def close(self) -> None:
        """Nothing is left to wait for."""


def reaper(_ledger: Ledger) -> Callbacks:
    """The parent's side: an attempt that was lost cost as much as any other."""
    return Callbacks(attempt=StubAttempt(), order_for=stub_order, metered=lambda held: PRICE_NUSD)


def describe(sender: Any, folder: Path) -> None:
    """What the running worker says of its own configuration."""
    app, consumer = sender.app, sender
    told = {
        "conf": {name: app.conf[name] for name in json.loads((folder / "ask").read_text())},
        "pool": type(consumer.pool).__module__,
        "concurrency": consumer.controller.concurrency,
        "queues": sorted(queue.name for queue in app.amqp.queues.consume_from.values()),
        "steps": sorted(type(step).__name__ for step in consumer.steps),
        "gossip": consumer.gossip.enabled if getattr(consumer, "gossip", None) else False,
        "beat": getattr(consumer.controller, "beat", None) is not None,
        "backend": type(app.backend).__name__,
        "tasks": sorted(name for name in app.tasks if not name.startswith("celery.")),
        "prefetch": consumer.qos.prev,
        "restricted": "can_consume" in vars(consumer.task_consumer.channel.qos),
    }
    (folder / "described.new").write_text(json.dumps(told, default=str))
    (folder / "described.new").replace(folder / "described")


def say(line: str) -> None:
    """A message of the worker."""
    sys.stderr.write(f"{line}\n")


def main() -> None:
    """Run one worker as the JSON of the first argument says."""
    told = json.loads(sys.argv[1])
    folder = Path(told["folder"])
    host = told.get("host_name", "drill")
    script = Script(folder, host=host, **told.get("script", {}))

    def ready(sender: Any) -> None:
        if (folder / "ask").exists():
            describe(sender, folder)
        (folder / f"ready.{os.getpid()}").touch()

    setup = WorkerSetup(
        database_url=told["database_url"],
        broker=told["broker"],
        host_name=host,
        slots=told["slots"],
        queues=tuple(told["queues"]),
        hardware_class="cpu1-mem1g",
        open_shop=lambda ledger: ScriptedShop(script),
        reaper=reaper,
        times=Times(**told["times"]),
        changes=told.get("changes", {}),
        on_ready=ready,
        task_events=told.get("task_events", False),
    )
    sys.exit(Worker(setup).run(say))


if __name__ == "__main__":
    main()
