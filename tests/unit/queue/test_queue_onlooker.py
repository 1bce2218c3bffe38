"""Who looks at Celery's messages: hears of them with `task_events`, and can do nothing with its user."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery.events import EventReceiver  # type: ignore[import-untyped]
from kombu.connection import Connection

from orchestrator.engine.celery.broker import make_app
from orchestrator.engine.celery.settings import KEY_PREFIX
from orchestrator.stack.secret_files import ACL, FLOWER_URL, drawn
from tests.assets.queue.lab import QUEUE, Lab
from tests.assets.services import fixtures as services
from tests.assets.services.redis import RedisServer

ledger_url = services.ledger_url

WITHIN_S = 30.0
TASK = {"task-received", "task-started", "task-succeeded"}


@pytest.fixture
def onlooker(redis_server: RedisServer) -> Iterator[str]:
    """The URL of the stack's user `flower`, who is made in a real server by the line of its list."""
    secrets = drawn()
    (line,) = [one for one in secrets[ACL].splitlines() if one.startswith("user flower ")]
    client = redis_server.client()
    client.execute_command("ACL", "SETUSER", *line.split()[1:])  # type: ignore[no-untyped-call]
    yield secrets[FLOWER_URL].strip().replace("redis:6379", f"127.0.0.1:{redis_server.port}")
    client.execute_command("ACL", "DELUSER", "flower")  # type: ignore[no-untyped-call]
    client.close()


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except redis.exceptions.NoPermissionError:
        return True
    return False


def test_the_onlooker_can_send_nothing(onlooker: str) -> None:
    """No message in a queue, no order to workers, no look into a message; it may count and listen."""
    with redis.Redis.from_url(onlooker) as client:
        queue = f"{KEY_PREFIX}{QUEUE}"
        acts: list[Callable[[], object]] = [
            lambda: client.lpush(queue, "{}"),
            lambda: client.publish(f"{KEY_PREFIX}/0.celery.pidbox", "{}"),
            lambda: client.publish(f"{KEY_PREFIX}/0.celeryev/worker.heartbeat", "{}"),
            lambda: client.delete(queue),
            lambda: client.sadd(f"{KEY_PREFIX}_kombu.binding.celery.pidbox", "me"),
            lambda: client.lrange(queue, 0, -1),
            lambda: client.brpop([queue], timeout=1),
            lambda: client.keys("*"),
            lambda: client.flushall(),
            lambda: client.execute_command("ACL", "LIST"),
            lambda: client.execute_command("EVAL", "return 1", "0"),
        ]
        for act in acts:
            assert refused(act)
        assert client.llen(queue) == 0
        listening = client.pubsub()
        listening.psubscribe("*")
        assert refused(lambda: listening.get_message(timeout=WITHIN_S))
        listening.close()


class Listener:
    """Celery's own receiver, as Flower has it, in a thread; `heard` are kinds of events by worker."""

    def __init__(self, url: str) -> None:
        self.app = make_app(url, {"event_queue_expires": None, "event_queue_ttl": None})
        self.heard: list[tuple[str, str]] = []
        self.failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self.ready = threading.Event()
        self._stopping = threading.Event()
        self._thread.start()

    def _listen(self) -> None:
        try:
            options = dict(self.app.conf.broker_transport_options)
            with Connection(self.app.conf.broker_url, transport_options=options) as own:  # type: ignore[no-untyped-call]
                receiver = EventReceiver(own, handlers={"*": self._on}, app=self.app)
                with receiver.consumer_context(wakeup=False) as (connection, _, _):
                    self.ready.set()
                    while not self._stopping.is_set():
                        try:
                            connection.drain_events(timeout=0.2)
                        except TimeoutError:
                            continue
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.failed.append(error)

    def _on(self, event: dict[str, Any]) -> None:
        self.heard.append((event["hostname"], event["type"]))

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(WITHIN_S)
        assert not self.failed


@pytest.mark.parametrize("task_events", [True, False])
def test_a_worker_tells_only_when_asked_to(
    redis_server: RedisServer, onlooker: str, ledger_url: str, tmp_path: Path, task_events: bool
) -> None:
    """With the option every message and the worker itself are heard of, by a user who may only listen."""
    listener = Listener(onlooker)
    lab = Lab(ledger_url, redis_server.url, tmp_path)
    try:
        lab.until(lambda: listener.ready.is_set() or bool(listener.failed), "somebody listens")
        lab.worker(task_events=task_events)
        lab.plan(["a", "b"], tries=1)
        lab.begun(2)
        if task_events:
            lab.until(lambda: {kind for _, kind in listener.heard} >= {*TASK, "worker-online"}, "events")
            assert {name.partition("@")[2] for name, _ in listener.heard} == {"drill"}
    finally:
        lab.close()
        listener.stop()
    assert bool(listener.heard) is task_events
