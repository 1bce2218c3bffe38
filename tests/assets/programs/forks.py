"""Programs of this checkout without their imports: the tests' side of `fork_server.py`."""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tests.assets.programs.fork_server import ASSIZE, MESSAGE_BYTES, TEXT, Request
from tests.assets.services.own import as_user

__all__ = ["ASSIZE", "TEXT", "Forked", "Process", "Start", "run", "start", "start_afresh"]

ROOT: Final = Path(__file__).parents[3]
_SERVER: Final = Path(__file__).with_name("fork_server.py")
_AT_MOST_S: Final = 600.0


class Forked:
    """A program that was started; the part of `subprocess.Popen` that tests use."""

    def __init__(self, argv: Sequence[str], told: socket.socket) -> None:
        self.args = list(argv)
        self.returncode: int | None = None
        self._told = told
        self.pid = int(told.recv(32))

    def poll(self) -> int | None:
        """The exit code, minus the signal that ended it; None while it runs."""
        return self._ask(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended; `subprocess.TimeoutExpired` after so many seconds."""
        code = self._ask(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """A signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _ask(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                data = self._told.recv(32)
            except (BlockingIOError, TimeoutError):
                return None
            assert data, "the server that starts programs has ended"
            self.returncode = int(data)
            self._told.close()
        return self.returncode

    def __del__(self) -> None:
        self._told.close()


Process = Forked | subprocess.Popen[bytes]


Start = Callable[..., Process]
"""How a program is started: `start`, or `start_afresh`."""


class _Forks:
    """The server's other end; threads may start programs at the same time."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, str(_SERVER)],
                stdin=theirs.fileno(),
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
                start_new_session=True,
            )

    def start(self, request: Request, files: Sequence[int]) -> Forked:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            data = json.dumps(request).encode()
            assert len(data) <= MESSAGE_BYTES, "arguments and environment are too long"
            with self._lock:
                socket.send_fds(self._control, [data], [*files, theirs.fileno()])
        return Forked(request.argv, ours)

    def close(self) -> None:
        self._control.close()
        self._server.wait(_AT_MOST_S)


@functools.cache
def _forks() -> _Forks:
    made = _Forks()
    atexit.register(made.close)
    return made


def start(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdout: IO[Any],
    stderr: IO[Any],
    on_parent_death: int = 0,
) -> Forked:
    """Start `ASSIZE`, a `TEXT` or a script in a session of its own, with nothing to read.

    `on_parent_death`: the signal that it gets when the process of the tests ends, 0 for none.
    """
    request = Request(list(argv), dict(env), str(cwd), on_parent_death)
    with open(os.devnull, "rb") as nothing:
        return _forks().start(request, [nothing.fileno(), stdout.fileno(), stderr.fileno()])


def start_afresh(argv: Sequence[str], *, on_parent_death: int = 0, **options: Any) -> subprocess.Popen[bytes]:
    """A script by an interpreter of its own, as `start` else: benches measure what users have."""
    name = signal.Signals(on_parent_death).name.removeprefix("SIG") if on_parent_death else None
    command = as_user([sys.executable, *argv], None, on_parent_death=name)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, **options)


def run(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, timeout: float = _AT_MOST_S
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does that captures its output as text."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(argv, env=env, cwd=cwd, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(list(argv), code, *texts)
