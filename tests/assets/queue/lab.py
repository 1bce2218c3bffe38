"""A campaign for drills: one ledger, one Redis, real worker processes, scripted attempts, shortened times."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrator.engine.celery.broker import Publisher
from orchestrator.engine.celery.times import Times
from orchestrator.engine.stub import plan_stub
from orchestrator.ledger import queries
from orchestrator.ledger.db import Ledger
from orchestrator.ledger.dispatch import Message
from orchestrator.ledger.invariants import violations
from orchestrator.ledger.migrate import open_ledger
from orchestrator.ledger.states import EngineName, SlotState
from orchestrator.ledger.transitions import start
from tests.assets.programs import forks
from tests.assets.programs.forks import Process, Start
from tests.assets.queue.program import PRICE_NUSD

PROGRAM = Path(__file__).parent / "program.py"
ROOT = Path(__file__).parents[3]
QUEUE = "try.c1m1.cpu1-mem1g"
TIMES = Times(
    lease_ms=3_000,  # a busy machine holds a process back for 1.5 s (seen), and that is no injury
    beat_ms=200,
    dispatch_ms=100,
    sweep_ms=1_000,
    reap_ms=200,
    tidy_ms=1_000,
    back_off_ms=0,
    persist_ms=100,
    margin_s=1,
)
WITHIN_S = 90.0
_LOOK_S = 0.05


class Lab:
    """What a drill needs; `close` ends every process it started."""

    def __init__(
        self, ledger_url: str, broker: str, folder: Path, times: Times = TIMES, *, start: Start = forks.start
    ) -> None:
        self.url = ledger_url
        self.broker = broker
        self.folder = folder
        self.times = times
        self.ledger: Ledger = open_ledger(ledger_url)
        self.processes: list[Process] = []
        self._start = start
        self.screenings: list[str] = []
        self._errors = open(folder / "stderr", "ab")  # noqa: SIM115 - closed with the lab

    def plan(self, tasks: Sequence[str], *, limit_ms: int = 600_000, **options: Any) -> str:
        """A running screening of made-up tasks, served by workers; returns its id."""
        settings = {"queue": QUEUE, "engine": EngineName.CELERY, **options}
        screening = plan_stub(self.ledger, tasks, limit_ms=limit_ms, **settings)
        start(self.ledger, screening, who="drill")
        self.screenings.append(screening)
        return screening

    def worker(
        self,
        *,
        slots: int = 2,
        queues: Sequence[str] = (QUEUE,),
        changes: Mapping[str, Any] | None = None,
        host_name: str = "drill",
        task_events: bool = False,
        says: str | None = None,
        **script: Any,
    ) -> Process:
        """Start a worker process and return when it consumes, or when it `says` that."""
        told = {
            "database_url": self.url,
            "broker": self.broker,
            "folder": str(self.folder),
            "slots": slots,
            "queues": list(queues),
            "host_name": host_name,
            "times": asdict(self.times),
            "changes": dict(changes or {}),
            "task_events": task_events,
            "script": script,
        }
        process = self._start(
            [str(PROGRAM), json.dumps(told)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"},
            cwd=self.folder,
            stdout=self._errors,
            stderr=self._errors,
            on_parent_death=signal.SIGKILL,
        )
        self.processes.append(process)

        def is_up() -> bool:
            return (self.folder / f"ready.{process.pid}").exists() if says is None else says in self.errors()

        self.until(lambda: is_up() or process.poll() is not None, "the worker is ready")
        assert process.poll() is None, self.errors()
        return process

    def errors(self) -> str:
        """What the workers wrote, for messages."""
        return (self.folder / "stderr").read_text(errors="replace")[-6000:]

    def until(self, fact: Callable[[], bool], what: str, within_s: float = WITHIN_S) -> None:
        """Wait for a fact."""
        end = time.monotonic() + within_s
        while not fact():
            assert time.monotonic() < end, f"waited in vain: {what}\n{self.log()}\n{self.errors()}"
            time.sleep(_LOOK_S)

    def log(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What the attempts wrote down, of one kind."""
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [one for one in found if kind in (None, one["kind"])]

    def begun(self, count: int) -> None:
        """Wait until so many attempts have begun."""
        self.until(lambda: len(self.log("begin")) >= count, f"{count} attempts began")

    def pass_leases(self, count: int) -> None:
        """Let so much time pass, for what is about time; nothing else waits like this."""
        time.sleep(count * self.times.lease_ms / 1000)

    def kinds(self, screening: str) -> list[str]:
        """What the history says happened, oldest first."""
        return [event["kind"] for event in queries.history(self.ledger, screening)]

    def lost(self) -> int:
        """How many attempts the platform has lost till now."""
        return sum(
            one.row["state"] == "void"
            for screening in self.screenings
            for view in queries.tries(self.ledger, screening)
            for one in queries.show_try(self.ledger, view.row["id"]).attempts
        )

    def go(self) -> None:
        """Let held attempts end."""
        (self.folder / "go").touch()

    def children(self, process: Process) -> list[int]:
        """Process ids of a worker's pool that have begun attempts."""
        mine = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return [pid for pid in {one["pid"] for one in self.log("begin")} if str(pid) in mine]

    def publish(self, times: int = 1) -> int:
        """Send the message of every queued slot again, so often."""
        publisher = Publisher(self.broker)
        messages = [
            Message(view.row["id"], view.row["generation"], QUEUE, view.row["limit_ms"])
            for screening in self.screenings
            for view in queries.tries(self.ledger, screening)
        ]
        try:
            return sum(publisher.publish(messages) for _ in range(times))
        finally:
            publisher.close()

    def closed(self, within_s: float = WITHIN_S) -> None:
        """Wait until every screening has come to its end."""
        self.until(
            lambda: all(
                queries.screening(self.ledger, one)["closed_ms"] is not None for one in self.screenings
            ),
            "the screenings closed",
            within_s,
        )

    def stop(self, process: Process, number: int = signal.SIGTERM) -> int:
        """End a worker with a signal; its exit code."""
        process.send_signal(number)
        return process.wait(WITHIN_S)

    def sound(self) -> Counter[str]:
        """Everything that must hold at the end of any drill; how many attempts ended for which reason."""
        assert violations(self.ledger) == []
        reasons: Counter[str] = Counter()
        for screening in self.screenings:
            status = queries.status(self.ledger, screening)
            assert status.open == 0, status
            void = 0
            for view in queries.tries(self.ledger, screening):
                attempts = queries.show_try(self.ledger, view.row["id"]).attempts
                counted = [one for one in attempts if one.row["state"] == "recorded"]
                assert len(counted) == (view.row["state"] == SlotState.RECORDED)
                reasons.update(one.row["reason"] for one in attempts)
                void += len(attempts) - len(counted)
                for one in attempts:
                    # Paid once, by the agent if it counts and by the platform if not.
                    assert one.spend == (("agent" if one in counted else "platform", PRICE_NUSD),)
            assert status.used_nusd == PRICE_NUSD * status.slots[SlotState.RECORDED]
            assert status.platform_nusd == PRICE_NUSD * void
        return reasons

    def close(self) -> None:
        """End everything."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(WITHIN_S)
        self.ledger.close()
        self._errors.close()
