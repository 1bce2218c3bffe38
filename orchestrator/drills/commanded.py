"""Rows played on `assize screen` as a process: it is struck, and the same command is given again."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from orchestrator.certificates.founding import CERTIFICATE_KEY_FILE
from orchestrator.drills.faultline import Faultline, OwnEngine
from orchestrator.drills.house import House
from orchestrator.drills.judge import Verdict, judge
from orchestrator.drills.rows import Row, Scene
from orchestrator.drills.seen import Record
from orchestrator.ledger import queries
from orchestrator.ledger.records import CertificateKind, certificates
from orchestrator.screenings.installation import Installation

# The codes of orchestrator.cli.exits, as somebody outside of the program sees them.
_DONE, _NOT_IN_FULL, _CANNOT, _INTERRUPTED = 0, 3, 4, 130
_WATCHDOG_S: Final = 240.0
_HOUR_S: Final = 3600
_PROGRAM: Final = ("-c", "from orchestrator.cli.main import main; main()")


@dataclass
class Command:
    """One screening of one row, by the command; `events` is what it told so far."""

    house: House
    row: Row
    host: str | None = None
    events: list[dict[str, Any]] = field(default_factory=list)
    stepped: Path | None = None

    def __post_init__(self) -> None:
        self.pack = self.house.folder / "packs" / "drill-command"
        self.house.pack(self.pack.name, [self.row])

    def start(self) -> subprocess.Popen[str]:
        """Start it in a session of its own; the same command resumes."""
        program = (
            _PROGRAM if self.stepped is None else ("-m", "orchestrator.drills.stepped", str(self.stepped))
        )
        arguments = ("--home", str(self.house.home.root), "screen", str(self.pack), "--jsonl")
        agent = ("--agent", str(self.house.agent_file(metered=False)), "--prices", str(self.house.prices))
        tries = ("--tries", str(self.row.tries), "--parallel", "2")
        return subprocess.Popen(
            [sys.executable, *program, *arguments, *agent, *tries],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=clean_environment(self.host),
            start_new_session=True,
        )

    def until(self, process: subprocess.Popen[str], phase: str) -> None:
        """Read its events until every try of the row has entered `phase`, or it ended."""
        assert process.stdout is not None
        inside: set[str] = set()
        with _Watched(process):
            for line in process.stdout:
                event = json.loads(line)
                self.events.append(event)
                if event["event"] == "phaseentered" and event["phase"] == phase:
                    inside.add(event["claim"]["slot_id"])
                if len(inside) == self.row.tries:
                    return

    def finish(self, process: subprocess.Popen[str]) -> int:
        """Read to its end; the exit code."""
        assert process.stdout is not None
        with _Watched(process):
            self.events += [json.loads(line) for line in process.stdout]
            code = process.wait()
        process.stdout.close()
        return code


class _Watched:
    """Kill a process that hangs, so that a drill always comes to its end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._timer = threading.Timer(_WATCHDOG_S, kill, [process])

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL for it and all its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def clean_environment(host: str | None) -> Mapping[str, str]:
    """Nothing of the operator's own installation reaches a drill."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ASSIZE_")}
    return kept if host is None else {**kept, "DOCKER_HOST": host}


def _kill_9(command: Command, _engine: OwnEngine | None) -> list[str]:
    process = command.start()
    command.until(process, "agent")
    kill(process)
    command.finish(process)
    return []


def _terminate(command: Command, _engine: OwnEngine | None) -> list[str]:
    process = command.start()
    command.until(process, "agent")
    process.send_signal(signal.SIGTERM)
    code = command.finish(process)
    # With nothing left to start the screening simply comes to its end.
    return [] if code in (_DONE, _INTERRUPTED) else [f"exit code {code} after SIGTERM"]


def _no_more_files(command: Command, _engine: OwnEngine | None) -> list[str]:
    process = command.start()
    command.until(process, "agent")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    code = command.finish(process)
    return [] if code == _CANNOT else [f"exit code {code} of a worker that cannot write its ledger"]


def _no_key(command: Command, _engine: OwnEngine | None) -> list[str]:
    _kill_9(command, None)
    key = command.house.home.keys / CERTIFICATE_KEY_FILE
    hidden = key.rename(key.with_name("hidden"))
    code = command.finish(command.start())
    problems = [] if code not in (_DONE, _NOT_IN_FULL) else [f"exit code {code} without a key"]
    if key.exists():
        problems.append("another key was made")
    installation = Installation.open(command.house.home)
    try:
        for row in queries.screenings(installation.ledger):
            if certificates(installation.ledger, row["id"], CertificateKind.TRY):
                problems.append("a certificate was signed without the key")
    finally:
        installation.close()
    hidden.rename(key)
    return problems


def _step_clock(command: Command, seconds: int) -> list[str]:
    offset = command.stepped = command.house.folder / "offset"
    offset.write_text("0")
    process = command.start()
    command.until(process, "agent")
    new = offset.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(offset)
    code = command.finish(process)
    return [] if code == _DONE else [f"exit code {code}"]


def _restart_engine(command: Command, engine: OwnEngine | None) -> list[str]:
    assert engine is not None
    process = command.start()
    command.until(process, "agent")
    engine.restart()
    command.finish(process)
    return []


BLOWS: Final[Mapping[str, Callable[[Command, OwnEngine | None], list[str]]]] = {
    "kill-9": _kill_9,
    "terminate": _terminate,
    "no-more-files": _no_more_files,
    "no-key": _no_key,
    "clock-back": lambda command, _engine: _step_clock(command, -_HOUR_S),
    "clock-on": lambda command, _engine: _step_clock(command, _HOUR_S),
    "restart-engine": _restart_engine,
}
"""Blows at the command; each returns what went wrong while it was struck."""


def play(house: House, line: Faultline, row: Row) -> Verdict:
    """Play one row in a house of its own."""
    if row.scene is Scene.OWN_ENGINE:
        with line.own_engine() as engine:
            return _play(house, line, row, engine)
    return _play(house, line, row, None)


def _play(house: House, line: Faultline, row: Row, engine: OwnEngine | None) -> Verdict:
    command = Command(house, row, None if engine is None else engine.host)
    problems = BLOWS[row.blow or ""](command, engine)
    again = command.finish(command.start())
    if again != _DONE:
        problems.append(f"exit code {again} of the same command given again")
    installation = Installation.open(house.home)
    try:
        (screening,) = queries.screenings(installation.ledger)
        record = Record.of(installation, screening["id"])
        left = (line if engine is None else engine).leftovers(
            *((installation.label, house.folder) if engine is None else (installation.label,))
        )
        tries = record.tries(row.name)
    finally:
        installation.close()
    return judge(row, tries, None, [*problems, *record.problems, *left])
