"""Drills of many hosts run side by side, each with its own Redis, ledger and workers.

Most of a drill is waiting, so four at a time take a quarter of the time of one after another. A test waits
for its own drill only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from orchestrator.ledger.migrate import upgrade
from tests.assets.queue.drills import DRILLS, Scene
from tests.assets.queue.lab import Lab
from tests.assets.services.postgres import PostgresServer
from tests.assets.services.redis import RedisServer

PARALLEL = 4
OWN_SERVER = ("database_outage",)
ALEMBIC = threading.Lock()
"""Its environment is a module that is run: two threads at once end the interpreter (measured)."""


def new_ledger(database: str, folder: Path, server: PostgresServer | None) -> str:
    """The URL of a new ledger with its schema."""
    if database == "postgresql":
        assert server is not None
        return server.new_database(upgrade)
    url = f"sqlite:///{folder / 'ledger.db'}"
    upgrade(url)
    return url


def play(name: str, database: str, folder: Path, shared: PostgresServer | None) -> None:
    """One drill from the first server to the last check."""
    with ExitStack() as stack:
        redis = RedisServer(appendonly=name != "redis_wiped")
        stack.callback(redis.close)
        redis.start()
        own = None
        if name in OWN_SERVER:
            own = PostgresServer()
            stack.callback(own.close)
            own.start()
        with ALEMBIC:
            url = new_ledger(database, folder, own or shared)
        lab = Lab(url, redis.url, folder)
        stack.callback(lab.close)
        DRILLS[name](Scene(lab, redis, own))


@pytest.fixture(scope="session")
def drilled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], None]]:
    """Gives the end of a drill; all that were selected have been started together."""
    wanted = [
        (str(item.callspec.params["name"]), str(item.callspec.params["database"]))
        for item in request.session.items
        if isinstance(item, pytest.Function) and "drilled" in item.fixturenames
    ]
    with ExitStack() as stack:
        shared = None
        if any(database == "postgresql" for _, database in wanted):
            shared = PostgresServer()
            stack.callback(shared.close)
            shared.start()
        pool = stack.enter_context(ThreadPoolExecutor(PARALLEL))
        futures: dict[tuple[str, str], Future[None]] = {}
        for name, database in wanted:
            folder = tmp_path_factory.mktemp(f"{name}-{database}")
            futures[name, database] = pool.submit(play, name, database, folder, shared)

        yield lambda name, database: futures[name, database].result()
