"""The worker's handle on its relay process: start, open and close lanes, see their state as it changes."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from workers.own_python import module_command, module_environment
from workers.relay.config import LaneOrder, RelayConfig
from workers.relay.errors import RelayError, RelayLostError
from workers.relay.state import LaneState, LaneSummary

READY_S: Final = 30.0
ANSWER_S: Final = 30.0
_ENVIRONMENT: Final = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


class OpenLane:
    """A lane that is open: where its socket is, its token, and its latest state."""

    def __init__(self, process: RelayProcess, lane_id: str, socket: Path, token: str) -> None:
        self._process = process
        self.lane_id: Final = lane_id
        self.socket: Final = socket
        self.token: Final = token

    @property
    def alive(self) -> bool:
        """Whether the relay that serves it is."""
        return self._process.alive

    def state(self) -> LaneState | None:
        """What the relay last reported; None before anything happened. Costs nothing."""
        return self._process.latest(self.lane_id)

    def wait_for(self, met: Callable[[LaneState], bool], timeout_s: float) -> LaneState:
        """Wait for a report that `met` accepts; `RelayError` after `timeout_s`, `RelayLostError` if lost."""
        return self._process.wait_for(self.lane_id, met, timeout_s)

    def renew(self, calls_until: float | None) -> None:
        """Calls may start until then (`LaneOrder.calls_until`); a relay that is gone hears nothing."""
        self._process.renew(self.lane_id, calls_until)

    def close(self) -> LaneSummary:
        """End the lane: its token dies at once, open calls are read to their end, the transcript closes."""
        return self._process.close_lane(self.lane_id)


class RelayProcess:
    """One relay of this worker; many threads may use it. A relay that is lost stays lost: start a new one.

    The keys go to the child over its standard input; nothing of ours is in its arguments or environment.
    """

    def __init__(self, config: RelayConfig) -> None:
        self._child = subprocess.Popen(
            module_command("workers.relay"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=module_environment(_ENVIRONMENT),
            start_new_session=True,  # Ctrl-C is for the worker, which closes the relay in order
        )
        self._ids = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[Mapping[str, Any] | None]] = {}
        self._states: dict[str, LaneState] = {}
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._lost = False
        self._ready = threading.Event()
        self._drain_s = config.drain_s
        self._reader = threading.Thread(target=self._read, name="relay-reader", daemon=True)
        self._reader.start()
        try:
            self._write(config.as_data())
            if not self._ready.wait(READY_S) or self._lost:
                raise RelayLostError(f"the relay did not come up (exit {self._child.poll()})")
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """False once its pipe has ended."""
        return not self._lost

    def open(self, order: LaneOrder) -> OpenLane:
        """Open a lane; `RelayError` if the relay refuses, `RelayLostError` if it is gone."""
        made = self._ask("open", ANSWER_S, lane=order.as_data())
        return OpenLane(self, order.lane_id, Path(made["socket"]), made["token"])

    def renew(self, lane_id: str, calls_until: float | None) -> None:
        """See `OpenLane.renew`; nobody waits for the answer."""
        with contextlib.suppress(RelayLostError):
            self._write(
                {"id": next(self._ids), "do": "renew", "lane_id": lane_id, "calls_until": calls_until}
            )

    def close_lane(self, lane_id: str) -> LaneSummary:
        """See `OpenLane.close`."""
        answer = self._ask("close", self._drain_s + ANSWER_S, lane_id=lane_id)
        with self._changed:
            self._states.pop(lane_id, None)
        return LaneSummary.from_data(answer)

    def latest(self, lane_id: str) -> LaneState | None:
        """See `OpenLane.state`."""
        with self._changed:
            return self._states.get(lane_id)

    def wait_for(self, lane_id: str, met: Callable[[LaneState], bool], timeout_s: float) -> LaneState:
        """See `OpenLane.wait_for`."""

        def reached() -> LaneState | None:
            state = self._states.get(lane_id)
            return state if state is not None and met(state) else None

        with self._changed:
            self._changed.wait_for(lambda: self._lost or reached() is not None, timeout_s)
            found = reached()
            if found is not None:
                return found
            if self._lost:
                raise RelayLostError("the relay is gone")
            raise RelayError(f"lane {lane_id} did not come to the state that was waited for")

    def close(self) -> None:
        """Close every lane and wait for the process to end."""
        with self._writing:
            if self._child.stdin is not None and not self._child.stdin.closed:
                try:
                    self._child.stdin.close()
                except BrokenPipeError:
                    self._lost = True
        try:
            self._child.wait(self._drain_s + ANSWER_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._end()

    def kill(self) -> None:
        """End it without a word; its transcripts stay as they are."""
        self._child.kill()
        self._child.wait()
        self._end()

    def _end(self) -> None:
        self._reader.join(5)
        for pipe in (self._child.stdin, self._child.stdout):
            _close(pipe)

    def _write(self, data: Mapping[str, Any]) -> None:
        line = json.dumps(data, separators=(",", ":")).encode() + b"\n"
        assert self._child.stdin is not None
        with self._writing:
            try:
                self._child.stdin.write(line)
                self._child.stdin.flush()
            except (OSError, ValueError):
                raise RelayLostError("the relay is gone") from None

    def _ask(self, what: str, timeout_s: float, **arguments: Any) -> Any:
        number = next(self._ids)
        answers: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        with self._changed:
            if self._lost:
                raise RelayLostError("the relay is gone")
            self._answers[number] = answers
        try:
            self._write({"id": number, "do": what, **arguments})
            answer = answers.get(timeout=timeout_s)
        except queue.Empty:
            raise RelayLostError(f"the relay did not answer to {what} within {timeout_s:.0f} s") from None
        finally:
            with self._changed:
                self._answers.pop(number, None)
        if answer is None:
            raise RelayLostError("the relay is gone")
        if "error" in answer:
            raise RelayError(f"the relay refused to {what}: {answer['error']}")
        return answer["ok"]

    def _read(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            self._take(json.loads(line))
        with self._changed:
            self._lost = True
            waiting = list(self._answers.values())
            self._changed.notify_all()
        for answers in waiting:
            answers.put(None)
        self._ready.set()

    def _take(self, message: Mapping[str, Any]) -> None:
        if message.get("event") == "ready":
            self._ready.set()
        elif message.get("event") == "state":
            state = LaneState(**message["state"])
            with self._changed:
                self._states[state.lane_id] = state
                self._changed.notify_all()
        else:
            with self._changed:
                answers = self._answers.get(message["id"])
            if answers is not None:
                answers.put(message)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        try:
            pipe.close()
        except BrokenPipeError:
            return
