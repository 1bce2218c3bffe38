"""A server program of a test's own: own folder, own process, dead at the latest when the tests are.

What postgres.py and redis.py share: finding the program, starting it as an unprivileged user where it must
be, waiting for a fact instead of sleeping, freezing, killing and removing what it left.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

WITHIN_S = 60.0
_POLL_S = 0.03


class ServiceError(AssertionError):
    """A server of the tests did not do what it was told; the message ends with its last log lines."""


def find_program(name: str, folders: Iterable[Path] = (), *, package: str) -> str:
    """The program's path; the error names the distribution's package that brings it."""
    for folder in folders:
        if (found := folder / name).is_file():
            return str(found)
    if found_on_path := shutil.which(name):
        return found_on_path
    raise ServiceError(f"{name} is not installed: run `make test`, or apt-get install {package}")


def free_port() -> int:
    """A TCP port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def own_folder(name: str, user: str | None = None) -> Path:
    """A new folder, short enough for Unix sockets in it (108 bytes), owned by `user` when given."""
    folder = Path(tempfile.mkdtemp(prefix=f"assize-{name}-", dir="/tmp"))
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def as_user(command: Sequence[str], user: str | None, *, on_parent_death: str | None = None) -> list[str]:
    """`command` run by `user` (None: the caller), signalled when the process that started it dies."""
    options: list[str] = []
    if user is not None:
        options += [f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
    if on_parent_death is not None:
        options.append(f"--pdeathsig={on_parent_death}")
    return ["setpriv", *options, "--", *command] if options else list(command)


def wait_until(fact: Callable[[], bool], what: str, *, within_s: float = WITHIN_S) -> None:
    """Return as soon as `fact()` holds; `ServiceError` when it does not within the time."""
    end = time.monotonic() + within_s
    while not fact():
        if time.monotonic() > end:
            raise ServiceError(f"waited {within_s:.0f} s in vain: {what}")
        time.sleep(_POLL_S)


class OwnProcess:
    """One server process that can be started, stopped, killed, frozen and started again."""

    def __init__(self, command: Sequence[str], folder: Path, ready: Callable[[], bool]) -> None:
        self.folder = folder
        self._command = list(command)
        self._ready = ready
        self._log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the process is there (a frozen one is)."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Its process id; an error when it does not run."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it and return when it answers."""
        assert not self.running, "the server runs already"
        with open(self._log, "ab") as log:
            # A session of its own: Ctrl-C at the tests is not a Ctrl-C at the server.
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            wait_until(lambda: not self.running or self._ready(), f"{self._command} answers")
        except ServiceError as error:
            self.kill()
            raise ServiceError(f"{error}\n{self.last_lines()}") from None
        if not self.running:
            self._forget()
            raise ServiceError(f"the server ended while starting\n{self.last_lines()}")

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """End it with a signal, thawed first, and wait for its end; nothing to do when it does not run."""
        if self._process is None:
            return
        if self.running:
            self.thaw()
            self._process.send_signal(signal_number)
            try:
                self._process.wait(WITHIN_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise ServiceError(f"the server did not stop\n{self.last_lines()}") from None
        self._forget()

    def kill(self) -> None:
        """kill -9, children included."""
        if self._process is None:
            return
        for pid in self._family():
            _signal(pid, signal.SIGKILL)
        self._process.wait(WITHIN_S)
        self._forget()

    def freeze(self) -> None:
        """SIGSTOP to the server and its children: connections stay open and nothing answers."""
        for pid in self._family():
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT after `freeze`."""
        for pid in self._family():
            _signal(pid, signal.SIGCONT)

    def last_lines(self, count: int = 15) -> str:
        """The end of the server's log."""
        text = self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-count:])

    def remove(self) -> None:
        """Kill what still runs and remove the folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _forget(self) -> None:
        self._process = None

    def _family(self) -> list[int]:
        """The process and its children: PostgreSQL's backends are sessions of their own."""
        if not self.running:
            return []
        family = [self.pid]
        for pid in family:
            children = Path(f"/proc/{pid}/task/{pid}/children")
            if children.exists():
                family += [int(child) for child in children.read_text(encoding="ascii").split()]
        return family


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
