"""What the engine itself says happened to our containers: one event stream per worker process.

It tells a kill or pause from outside (an event without a request of ours) from a death inside, and an
engine restart (the stream broke) from both. An agent cannot produce any of these events.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.parse
from collections import Counter, defaultdict, deque
from typing import Final

from workers.sandbox.client import Engine

_ACTIONS: Final = ("kill", "die", "oom", "destroy", "pause", "stop")
_RECONNECT_S: Final = 0.5
_REMEMBERED: Final = 1_000
"""Removed containers whose events are kept: those of other workers are never asked about or forgotten."""
MAX_HISTORY: Final = 100
"""An agent's out-of-memory deaths are events, and it may have many."""


class EngineWatch:
    """Collects container events under one label in a daemon thread until `close`."""

    def __init__(self, engine: Engine, label: str) -> None:
        self._engine = engine
        self._label = label
        self._changed = threading.Condition()
        self._seen: dict[str, Counter[str]] = defaultdict(Counter)
        self._destroyed: deque[str] = deque()
        self._order: dict[str, list[str]] = defaultdict(list)
        self._broken_at: list[float] = []
        self._closing = False
        self._connection: socket.socket | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="engine-watch", daemon=True)
        self._thread.start()
        self._ready.wait(10)

    def actions(self, container_id: str) -> Counter[str]:
        """How often each action was seen so far for a container."""
        with self._changed:
            return Counter(self._seen.get(container_id, {}))

    def history(self, container_id: str) -> tuple[str, ...]:
        """The actions seen so far for a container, in order, up to `MAX_HISTORY`."""
        with self._changed:
            return tuple(self._order.get(container_id, ()))

    def wait_for(self, container_id: str, action: str, timeout_s: float) -> bool:
        """True once `action` was seen for the container; False after `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: action in self._seen.get(container_id, {}), timeout_s)

    def broken_since(self, started: float, wait_s: float = 0.0) -> bool:
        """True if the stream broke after `started` (monotonic clock), or does so within `wait_s`: the engine
        went away."""

        def broken() -> bool:
            return any(at >= started for at in self._broken_at)

        with self._changed:
            return self._changed.wait_for(broken, wait_s)

    def forget(self, container_id: str) -> None:
        """Drop what was collected for a removed container."""
        with self._changed:
            self._seen.pop(container_id, None)
            self._order.pop(container_id, None)

    def close(self) -> None:
        """End the stream and its thread."""
        self._closing = True
        if self._connection is not None:
            with contextlib.suppress(OSError):  # already closed by the engine
                self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _run(self) -> None:
        while not self._closing:
            with contextlib.suppress(OSError, ValueError):  # counted below, whatever broke it
                self._listen()
            if self._closing:
                return
            with self._changed:
                self._broken_at.append(time.monotonic())
                self._changed.notify_all()
            time.sleep(_RECONNECT_S)

    def _listen(self) -> None:
        filters = json.dumps({"type": ["container"], "event": list(_ACTIONS), "label": [self._label]})
        query = urllib.parse.urlencode({"filters": filters})
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(self._engine.socket_path)
            request = f"GET /v{self._engine.api_version}/events?{query} HTTP/1.0\r\nHost: docker\r\n\r\n"
            connection.sendall(request.encode())
            self._connection = connection
            with connection.makefile("rb") as stream:
                for line in stream:
                    if line in (b"\r\n", b"\n"):
                        break
                self._ready.set()
                for line in stream:
                    if line.startswith(b"{"):
                        self._note(json.loads(line))

    def _drop_oldest(self, container_id: str) -> None:
        """Who asks about a container that somebody removed must still learn that it was killed first."""
        self._destroyed.append(container_id)
        if len(self._destroyed) > _REMEMBERED:
            oldest = self._destroyed.popleft()
            self._seen.pop(oldest, None)
            self._order.pop(oldest, None)

    def _note(self, event: dict[str, object]) -> None:
        container_id, action = event.get("id"), event.get("status")
        if isinstance(container_id, str) and isinstance(action, str):
            with self._changed:
                if action == "destroy" and container_id not in self._seen:
                    return  # forgotten: its removal was ours
                name = action.split(":")[0]
                self._seen[container_id][name] += 1
                if len(self._order[container_id]) < MAX_HISTORY:
                    self._order[container_id].append(name)
                if action == "destroy":
                    self._drop_oldest(container_id)
                self._changed.notify_all()
