"""`python -m workers.capture.lookout FD`: a small process beside a worker that forks a guard per container.

See `workers.sandbox.lookouts` for the reason and the words. It has one thread and forks, so that a guard
costs milliseconds and not a start of Python. A guard ends when its worker says so, or else with its
container; this process ends with its door.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Final

from workers.capture.layer import OverlayLayer
from workers.capture.weight import layer_watch
from workers.errors import WorkerError
from workers.sandbox.freezer import Freezer
from workers.sandbox.guard import DiskGuard
from workers.sandbox.holds import FrozenHold
from workers.sandbox.lookouts import BYE, DONE, FAILED, MARK, MAX_MESSAGE_BYTES, OVER, READY, UP, Post
from workers.sandbox.priority import favour_guard

_ORPHAN_LOOK_S: Final = 0.5


class _Talk:
    """What the worker says to one guard, heard in a thread of its own."""

    def __init__(self, line: socket.socket, guard: DiskGuard, post: Post) -> None:
        self._line, self._guard, self._unseen = line, guard, post.unseen
        self._cgroup = Path(post.freezer)
        self._up = False
        self._asked = False

    def listen(self) -> None:
        """Until the worker says that it is over; after one that died, until the container is removed."""
        favour_guard(threading.get_native_id())
        with contextlib.ExitStack() as commands:
            if not self._hear(commands):
                self._up = True
                while self._cgroup.is_dir():
                    time.sleep(_ORPHAN_LOOK_S)
        self._guard.end()

    def _hear(self, commands: contextlib.ExitStack) -> bool:
        """Whether the worker took its leave."""
        with contextlib.suppress(OSError):
            while (word := self._line.recv(MAX_MESSAGE_BYTES)) and word != BYE:
                if word == MARK:
                    self._up, self._asked = False, False
                    commands.enter_context(self._guard.command(self._is_up))
                    self._line.send(MARK)
                    if self._unseen:
                        self._is_up()
                elif word == DONE:
                    self._up = True
                    commands.close()
                elif word == UP:
                    self._up = True
            return word == BYE
        return False

    def _is_up(self) -> bool:
        """The worker is asked once, and answers when it is."""
        if not self._up and not self._asked:
            self._asked = True
            with contextlib.suppress(OSError):
                self._line.send(UP)
        return self._up


def stand(line: socket.socket, post: Post) -> None:
    """Guard one container until it is convicted, or nobody needs it any more."""
    freezer = Freezer(Path(post.freezer), post.legacy)
    watch = layer_watch(OverlayLayer(post.upper, ()), freezer, post.root, post.limit_bytes, post.limit_files)
    guard = DiskGuard(watch, FrozenHold(freezer, lambda: _tell(line, OVER)))
    talk = _Talk(line, guard, post)
    threading.Thread(target=talk.listen, daemon=True).start()
    guard.stand()
    try:
        guard.over()
    except WorkerError as error:
        _tell(line, FAILED + str(error).encode("utf-8", "replace")[: MAX_MESSAGE_BYTES // 2])


def _tell(line: socket.socket, word: bytes) -> None:
    with contextlib.suppress(OSError):  # the worker ended
        line.send(word)


def serve(door: socket.socket) -> None:
    """Fork a guard for every post that comes in, until the worker closes the door.

    A guard that fails ends as any program does, and the worker hears its line break.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a guard
    # A service manager sends it to every process of a service; a worker lets its running tries end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    door.send(READY)
    while True:
        data, lines, _, _ = socket.recv_fds(door, MAX_MESSAGE_BYTES, 1)
        if not data:
            return
        with socket.socket(fileno=lines[0]) as line:
            if os.fork() == 0:
                door.close()
                stand(line, Post.from_bytes(data))
                os._exit(0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as own_door:
        serve(own_door)
