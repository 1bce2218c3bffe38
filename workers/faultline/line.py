"""The entry point `assize.faultline`: a worker that strikes the attempts it was armed for."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from orchestrator.attempts import AttemptControl, AttemptOrder, AttemptReport
from sandbox_images.engine import connect
from workers.attempt.runner import AttemptRunner
from workers.errors import EngineCallError
from workers.faultline.blows import BLOWS, impossible
from workers.faultline.leftovers import in_engine, on_host, relay_folders
from workers.faultline.own_engine import OwnEngine
from workers.faultline.strike import Blow
from workers.rehearsal.process import RehearsalProcess
from workers.sandbox.client import Engine

_IN_USE: Final = 409
BASE_IMAGE: Final = "assize/base:1"


class Faultline:
    """See `orchestrator.drills.faultline.Faultline`. Use it in a `with` block; many threads may call it."""

    def __init__(self) -> None:
        connect().close()  # says why where there is no engine, and leaks nothing
        self._engine = Engine()
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._runner: AttemptRunner | None = None
        self._armed: dict[str, tuple[str, int]] = {}
        self._hits: Counter[str] = Counter()
        self._prepared: set[str] = set()
        self._not_removed: list[str] = []

    def __enter__(self) -> Self:
        self._folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="assize-faultline-")))
        self._others = relay_folders()  # whoever started this process may have relays of its own
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._stack.close()
        for image in self._prepared:
            self._remove(image)
        self._engine.close()

    def _remove(self, image: str) -> None:
        """Remove an image that we made, unless a worker beside us runs a try in it by now: then it is its."""
        try:
            self._engine.remove_image(image)
        except EngineCallError as error:
            if error.status != _IN_USE:
                raise

    def impossible(self, blow: str) -> str | None:
        """Why a blow cannot be struck on this machine; None where it can."""
        return impossible(blow)

    def arm(self, task_id: str, blow: str, times: int) -> None:
        """Strike the first `times` attempts of every try of the task."""
        if blow not in BLOWS:
            raise KeyError(f"there is no blow {blow}")
        self._armed[task_id] = (blow, times)

    def landed(self, task_id: str) -> int:
        """How many blows were seen to hit."""
        return self._hits[task_id]

    def __call__(self, order: AttemptOrder, control: AttemptControl) -> AttemptReport:
        """Run one attempt, struck or not."""
        runner = self._usual()
        name, times = self._armed.get(order.task_id, ("", 0))
        if order.attempt > times:
            return runner(order, control)
        blow = Blow(self._engine, runner, order, control, self._folder)
        try:
            return BLOWS[name](blow)
        finally:
            with self._lock:
                self._hits[order.task_id] += blow.hit
                self._prepared |= blow.prepared
                self._not_removed += blow.not_removed

    def unfit(
        self, home: str, agent: Mapping[str, Any], image_id: str, mcp_servers: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """As the runner says."""
        return self._usual().unfit(home, agent, image_id, mcp_servers)

    def ready(self) -> bool:
        """Whether this host's engine answers now."""
        return self._usual().ready()

    def reap(self, home: str, is_live: Callable[[str], bool]) -> Any:
        """Remove what dead workers of this home left."""
        return self._usual().reap(home, is_live)

    def close(self) -> list[str]:
        """The end of one screening; returns what could not be removed."""
        with self._lock:
            runner, self._runner = self._runner, None
            failed, self._not_removed = self._not_removed, []
        if runner is not None:
            self._prepared |= runner.station.prepared.made()
            failed += runner.close()
        return failed

    def provider(self, script: Path, key: str) -> str:
        """Start the scripted provider; its base URL, version folder included."""
        process = self._stack.enter_context(RehearsalProcess(script, key=key))
        return f"{process.base_url}/v1"

    def nowhere(self) -> str:
        """The base URL of a port that is taken and not listened at."""
        taken = self._stack.enter_context(contextlib.closing(socket.socket()))
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"

    def leftovers(self, home: str, folder: Path) -> list[str]:
        """What a home left in the engine and on the host."""
        return [
            *in_engine(self._engine, home),
            *on_host(folder, self._others),
            *on_host(self._folder, self._others),
        ]

    def own_engine(self) -> OwnEngine:
        """A second engine with the base image in it."""
        return OwnEngine(self._engine, BASE_IMAGE)

    def _usual(self) -> AttemptRunner:
        with self._lock:
            if self._runner is None:
                self._runner = AttemptRunner()
            return self._runner
