"""On which engine a screening of the tests runs: in the process itself, or by workers of many hosts.

A test that screens through the product asks for `engines` and runs twice: `local` with the ledger in a file,
`celery` with a Redis server, a ledger on PostgreSQL and a worker process of its own for every screening.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.assets.programs import forks
from tests.assets.programs.forks import ASSIZE
from tests.assets.services.databases import environment_of, serve

if TYPE_CHECKING:  # a session without such tests needs none of it
    from orchestrator.screenings.attempts import Runner
    from orchestrator.screenings.installation import Installation
    from orchestrator.screenings.launch import Launch, Outcome

ROOT: Final = Path(__file__).parents[3]
LOCAL: Final = "local"
CELERY: Final = "celery"
_ENDS_WITHIN_S: Final = 60.0
_WITHIN_S: Final = 600.0
"""A campaign without workers waits for ever, as it should; a test does not."""


@dataclass(frozen=True)
class Told:
    """What a command line has to be told of engine and database: variables, and words of `screen`."""

    environment: Mapping[str, str] = field(default_factory=dict)
    words: Sequence[str] = ()


class Engines:
    """One of the two; its name is the word of `assize screen --engine`."""

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def serving(
        self, home: Path, *, slots: int = 2, worker: Sequence[str] = (ASSIZE, "worker", "run")
    ) -> Iterator[Told]:
        """While it lasts, tries of that home are run. `worker` is a program of `forks`."""
        if self.name == LOCAL:
            yield Told(environment_of(home))
            return
        from tests.assets.services.redis import RedisServer

        redis = RedisServer(appendonly=True)
        try:
            redis.start()
            told = Told(
                {**environment_of(home), "ASSIZE_BROKER_URL": redis.url, "PYTHONPATH": str(ROOT)},
                ("--engine", CELERY),
            )
            with _worker([*worker, "--slots", str(slots)], home, told.environment):
                yield told
        finally:
            redis.close()

    def assize(
        self, home: Path, *arguments: str, unset: tuple[str, ...] = ("ASSIZE_",)
    ) -> subprocess.CompletedProcess[str]:
        """The program as a process of its own, with a worker beside it where it is to screen."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith(unset)}
        screens = arguments[0] == "screen"
        with self.serving(home) if screens else nullcontext(Told(environment_of(home))) as told:
            return forks.run(
                [ASSIZE, "--home", str(home), *arguments, *told.words],
                env={**kept, **told.environment},
                cwd=home.parent,
                timeout=_WITHIN_S,
            )

    def run(
        self,
        installation: Installation,
        launches: Sequence[Launch],
        *,
        parallel: int,
        make_runner: Callable[[], Runner] | None = None,
        worker: Sequence[str] = (ASSIZE, "worker", "run"),
    ) -> Outcome:
        """Run planned screenings to their end: attempts by `make_runner` here, or by `worker` elsewhere."""
        from orchestrator.screenings.attempts import load_runner
        from orchestrator.screenings.hosts import run_on_hosts
        from orchestrator.screenings.launch import run

        if self.name == LOCAL:
            return run(
                installation,
                launches,
                parallel=parallel,
                progress=lambda event: None,
                guard=lambda engine: nullcontext(),
                make_runner=make_runner or load_runner,
            )
        with self.serving(installation.home.root, slots=parallel, worker=worker) as told:
            return run_on_hosts(
                installation,
                launches,
                broker=told.environment["ASSIZE_BROKER_URL"],
                host_name="tests",
                progress=lambda event: None,
                guard=lambda engine: nullcontext(),
                say=lambda line: None,
            )


@contextmanager
def _worker(command: Sequence[str], home: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A worker process, which ends in good order; what it said is beside the home."""
    path = home.parent / "worker.log"
    told_before = path.stat().st_size if path.exists() else 0

    def said() -> str:
        return path.read_bytes()[told_before:].decode(errors="replace")

    kept = {name: text for name, text in os.environ.items() if not name.startswith("ASSIZE_")}
    with path.open("ab") as log:
        process = forks.start(
            command,
            env={**kept, **environment, "ASSIZE_HOME": str(home)},
            cwd=home.parent,
            stdout=log,
            stderr=log,
            on_parent_death=signal.SIGKILL,
        )
        try:
            yield
            assert process.poll() is None, said()
            process.send_signal(signal.SIGTERM)
            code = process.wait(_ENDS_WITHIN_S)
            # One that is stopped before it listens to signals ends by the signal itself.
            assert code == 0 or (code == -signal.SIGTERM and not said()), (code, said())
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture(scope="session", params=[LOCAL, CELERY])
def engines(request: pytest.FixtureRequest) -> Iterator[Engines]:
    """The engine of every screening of the test, and with it the database of every home."""
    if request.param == LOCAL:
        yield Engines(LOCAL)
        return
    serve(request)
    yield Engines(CELERY)
