"""Start a detached engine process, and decide what a pid file left on disk is worth."""

from __future__ import annotations

import enum
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import EngineStartError

PID_FILES: tuple[tuple[Path, str], ...] = (
    (Path("/var/run/docker.pid"), "dockerd"),
    (Path("/var/run/docker/containerd/containerd.pid"), "containerd"),
)
_DEAD_STATES = frozenset("ZXx")
_LOG_LINES = 12
_POLL_S = 0.1


@dataclass(frozen=True)
class Process:
    """A process as the kernel tells it: `name` is the command (at most 15 bytes), `state` one letter."""

    pid: int
    name: str
    state: str


class PidFile(enum.Enum):
    """What a pid file is: none there, left by a dead owner, or held by a living one."""

    ABSENT = "absent"
    STALE = "stale"
    LIVE = "live"


ReadProcess = Callable[[int], Process | None]


def read_process(pid: int) -> Process | None:
    """Read `/proc/<pid>/stat`; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may itself hold parentheses and blanks: cut at the last one.
    head, _, tail = text.rpartition(")")
    return Process(pid, head.partition("(")[2], tail.split()[0])


def judge_pid_file(path: Path, expected: str, read: ReadProcess) -> PidFile:
    """STALE if the file names no process, a dead one, a zombie, or a process that is not `expected`.

    The last case is a reused pid: after a reboot or a container restart the number belongs to
    somebody else, and the engine would wait for it for ever.
    """
    if not path.exists():
        return PidFile.ABSENT
    process = owner(path, read)
    return PidFile.LIVE if process is not None and process.name == expected else PidFile.STALE


def owner(path: Path, read: ReadProcess) -> Process | None:
    """The living process a pid file names, or None."""
    try:
        text = path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) <= 0:
        return None
    process = read(int(text))
    return None if process is None or process.state in _DEAD_STATES else process


def start(
    command: Sequence[str],
    log_folder: Path,
    answers: Callable[[], bool],
    *,
    within_s: float,
    forks: bool = False,
) -> Path:
    """Start `command` in its own session and wait until `answers()` or until it died; returns the log file.

    `forks`: the command itself ends (successfully) after it started the engine. Raises EngineStartError
    with the last log lines when the process ends first or the time is over. The process is left running.
    """
    log_folder.mkdir(parents=True, exist_ok=True)
    log = log_folder / "engine.log"
    with log.open("wb") as out:
        try:
            process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        except OSError as error:
            raise EngineStartError(f"cannot run {command[0]}: {error.strerror}") from error
    deadline = time.monotonic() + within_s
    while not answers():
        code = process.poll()
        if code is not None and not (forks and code == 0):
            raise EngineStartError(f"{command[0]} ended with code {code}: {_tail(log)}", hint=f"see {log}")
        if time.monotonic() > deadline:
            # Half an engine would stand in the way of the next attempt.
            process.terminate()
            process.wait()
            raise EngineStartError(
                f"{command[0]} does not answer after {within_s:.0f} s: {_tail(log)}", hint=f"see {log}"
            )
        time.sleep(_POLL_S)
    # It outlives this process on purpose: without this, Popen warns about a child nobody waited for.
    process.returncode = 0
    return log


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return " | ".join(lines[-_LOG_LINES:]) or "it wrote nothing"
