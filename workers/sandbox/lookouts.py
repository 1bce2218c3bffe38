"""Guards of disks in processes of their own: a look never waits for an interpreter that others use.

One thread of an interpreter runs at a time. A guard in the worker waits for whichever thread has it, and that
one for a processor behind everything else that runs (measured: 0.1 s and more, and 200 MB past the cap, while
two threads of the worker compute). So one small process beside the worker forks a guard per container
(`workers.capture.lookout`); here is the worker's end of it. A guard whose worker is killed stands on until
the container is removed: before the reaper comes nobody else bounds the agent (measured: 73 GB in 3 minutes).
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from workers.errors import EngineCallError, WorkerError
from workers.own_python import module_command, module_environment
from workers.sandbox.freezer import Freezer

MARK: Final = b"mark"
"""To the guard: a command is about to be started; it answers with the same once nothing is held still."""
DONE: Final = b"done"
"""To the guard: that command is over."""
BYE: Final = b"bye"
"""To the guard: it is needed no more. A line that ends without it is that of a worker that died."""
UP: Final = b"up"
"""From the guard: has that command begun? To the guard: it has."""
OVER: Final = b"over"
"""From the guard, before it kills: the container holds too much."""
FAILED: Final = b"failed "
"""From the guard: a measurement failed."""
MAX_MESSAGE_BYTES: Final = 4096

_PROGRAM: Final = "workers.capture.lookout"
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL")
_ANSWER_S: Final = 120.0
"""Several times what the slowest measurement takes: an agent must not make the guard look lost."""
_END_S: Final = 30.0
READY: Final = b"ready"
"""From the process that forks guards: it is up."""


@dataclass(frozen=True)
class Post:
    """What a guard stands over: the cgroup and the layer of a container, as this host shows them, and what it
    may hold of the disk at `root`.

    `unseen` where the host shows no process of a command, so that its begin must be asked for.
    """

    freezer: str
    legacy: bool
    upper: str
    root: str
    limit_bytes: int
    limit_files: int
    unseen: bool

    def as_bytes(self) -> bytes:
        """One message."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Post:
        """The reverse of `as_bytes`."""
        return cls(**json.loads(data))


class PostedGuard:
    """The worker's end of one guard; see `workers.sandbox.guard.Guard`. For one thread."""

    def __init__(self, line: socket.socket, post: Post, convicted: Callable[[], None]) -> None:
        self._line = line
        self._post = post
        self._convicted = convicted
        self._is_up: Callable[[], bool] | None = None
        self._asked = False
        self._marked = False
        self._over = False
        self._gone = False
        self._error: WorkerError | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held still any more, and nobody looks."""
        with self._line:
            self._line.settimeout(_ANSWER_S)
            self._say(BYE)
            with contextlib.suppress(OSError):
                while not self._gone:
                    self._take(self._line.recv(MAX_MESSAGE_BYTES))

    def over(self) -> bool:
        """See `Guard`."""
        self._line.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while not self._gone:
                self._hear()
        if self._asked and self._is_up is not None and self._is_up():
            self._asked = False
            self._say(UP)
        if self._error is not None:
            raise self._error
        return self._over

    @contextlib.contextmanager
    def command(self, is_up: Callable[[], bool]) -> Iterator[None]:
        """See `Guard`."""
        self._marked, self._asked = False, False
        self._line.settimeout(_ANSWER_S)
        self._say(MARK)
        while not self._marked and not self._gone:
            self._hear()
        if self._error is not None:
            raise self._error
        self._is_up = is_up
        try:
            yield
        finally:
            self._is_up = None
            self._say(DONE)

    def _say(self, word: bytes) -> None:
        """A guard that is gone is noticed when it is heard."""
        with contextlib.suppress(OSError):
            self._line.send(word)

    def _hear(self) -> None:
        """Take one message; a guard that was lost lets go of nothing, so that is done here."""
        try:
            self._take(self._line.recv(MAX_MESSAGE_BYTES))
        except BlockingIOError:
            raise
        except OSError:  # it was reset, or said nothing for too long
            self._take(b"")
        if self._gone and not self._over and self._error is None:
            self._error = EngineCallError("disk_guard", "GuardLost", "the guard of the disk has ended")
            with contextlib.suppress(OSError):
                Freezer(Path(self._post.freezer), self._post.legacy).thaw()

    def _take(self, word: bytes) -> None:
        self._gone = self._gone or not word
        if word == MARK:
            self._marked = True
        elif word == UP:
            self._asked = True
        elif word == OVER:
            self._over = True
            self._convicted()
        elif word.startswith(FAILED):
            self._error = EngineCallError(
                "disk_guard", "MeasureFailed", word.removeprefix(FAILED).decode("utf-8", "replace")
            )


class Lookouts:
    """The process that forks guards: begun when it is first needed, one per worker, for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._door: socket.socket | None = None
        self._up = False

    def begin(self) -> None:
        """Start it, if it does not run; it comes up beside other work."""
        with self._lock, contextlib.suppress(OSError):  # `post` tries again, and says what comes of it
            self._begin()

    def post(self, post: Post, convicted: Callable[[], None]) -> PostedGuard | None:
        """A guard that begins to look now; None where no process can be had."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            for _ in range(2):  # one that ended is begun once more
                try:
                    door = self._ready()
                    socket.send_fds(door, [post.as_bytes()], [theirs.fileno()])
                    return PostedGuard(ours, post, convicted)
                except OSError:
                    self._end()
        ours.close()
        return None

    def close(self) -> None:
        """End it; guards that are still out stay with their own lines."""
        with self._lock:
            self._end()

    def _ready(self) -> socket.socket:
        """The door of a process that is up; `OSError` where there is none, as where our code cannot be read.

        What is said before it is up would be lost with it, and the try that waits for an answer too.
        """
        self._begin()
        assert self._door is not None
        if not self._up:
            self._door.settimeout(_ANSWER_S)
            if self._door.recv(MAX_MESSAGE_BYTES) != READY:
                raise ConnectionResetError("the process that forks guards did not come up")
            self._door.settimeout(None)
            self._up = True
        return self._door

    def _begin(self) -> None:
        if self._child is not None:
            return
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._child = subprocess.Popen(
                module_command(_PROGRAM, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a guard may outlive the worker, and must not keep its pipe open
                env=module_environment(_ENVIRONMENT),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for the worker
            )

    def _end(self) -> None:
        if self._door is not None:
            self._door.close()
        if self._child is not None:
            try:
                self._child.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        self._door = self._child = None
        self._up = False
