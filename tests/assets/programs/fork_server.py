"""Forks programs of this checkout out of one process that has imported them: `python fork_server.py`.

Half of a short command is the import of what it is made of (measured: 0.4 to 1.1 s of one core), and the
tests start some hundreds of them. A program that is started here has its own process, session, arguments,
environment, folder and files; it only finds its modules there already. Tests about the start itself, and the
README's commands, run the program as its users do.

Standard input is a SOCK_SEQPACKET socket. A request is one JSON object (`Request`) with four descriptors:
the program's three standard files, and a socket that is told its process id, and at its end its exit code.
The server ends when nobody holds the other end any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import Final, NamedTuple

HOUSES: Final = ("scoring", "sandbox_images", "orchestrator", "workers")
PROGRAMS: Final = ("__main__", "migrations.env")
"""Modules that do something when they are imported."""
ALSO: Final = (
    "celery.app.log",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.worker.components",
    "celery.worker.consumer.consumer",
    "kombu.transport.redis",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
)
"""What is imported late, by name."""
ASSIZE: Final = "assize"
TEXT: Final = "-c"
"""The program of the command line, or one whose text follows; every other one is the path of a script."""
MESSAGE_BYTES: Final = 1 << 17
_SET_PDEATHSIG: Final = 1


class Request(NamedTuple):
    """A program to start; `on_parent_death` is the signal that it gets when the server ends, 0 for none."""

    argv: list[str]
    environment: dict[str, str]
    folder: str
    on_parent_death: int


def preload() -> None:
    """Import every module of ours that is no program of its own."""
    for house in HOUSES:
        package = importlib.import_module(house)
        for found in pkgutil.walk_packages(package.__path__, f"{house}."):
            if not found.name.endswith(PROGRAMS):
                importlib.import_module(found.name)
    for name in ALSO:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what never goes away is not looked at by any child


def become(request: Request, files: list[int]) -> None:
    """Turn this new process into the one that was asked for."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if request.on_parent_death:
        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, request.on_parent_death)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    if request.environment.get("PYTHONWARNINGS") == "default":  # any other value is the server's, too
        warnings.simplefilter("default")
    sys.argv[:] = [TEXT, *request.argv[2:]] if request.argv[0] == TEXT else request.argv


def run(argv: list[str]) -> None:
    """Be the program."""
    if argv[0] == ASSIZE:
        from orchestrator.cli.main import main

        main()
    elif argv[0] == TEXT:
        exec(compile(argv[1], "<program>", "exec"), {"__name__": "__main__"})
    else:
        sys.path.insert(0, str(Path(argv[0]).parent))
        runpy.run_path(argv[0], run_name="__main__")


class Server:
    """Forks and waits; one thread, so that a child finds no lock that somebody else holds."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> list[str] | None:
        """None at the end of the server; in a child, what it has to be."""
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._ended(key.fd, *key.data)
                    continue
                data, files, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 4)
                if not data:
                    return None
                if (argv := self._start(Request(*json.loads(data)), files)) is not None:
                    return argv

    def _start(self, request: Request, files: list[int]) -> list[str] | None:
        told = socket.socket(fileno=files.pop())
        pid = os.fork()
        if pid == 0:
            told.close()
            self._let_go()
            become(request, files)
            return request.argv
        for file in files:
            os.close(file)
        with contextlib.suppress(OSError):  # a thread of the tests that went away ends nobody else's programs
            told.send(str(pid).encode())
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
        return None

    def _let_go(self) -> None:
        """In a child: nothing of the server's stays open."""
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                os.close(key.fd)
                key.data[1].close()
        self._selector.close()
        self._control.close()

    def _ended(self, file: int, pid: int, told: socket.socket) -> None:
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(file)
        os.close(file)
        with told, contextlib.suppress(OSError):  # nobody asks any more
            told.send(str(os.waitstatus_to_exitcode(status)).encode())


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    preload()
    program = Server(socket.socket(fileno=os.dup(0))).serve()
    if program is not None:
        run(program)
