"""The broker's address, the app, and the side that sends.

A publisher has its own connection with short timeouts: sending to a frozen Redis hung for more than 45 s
with the usual settings (measured). What could not be sent is the sweeper's.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from celery import Celery  # type: ignore[import-untyped]
from kombu.connection import Connection
from kombu.exceptions import KombuError
from kombu.exceptions import OperationalError as BrokerDownError
from kombu.messaging import Producer
from redis.exceptions import RedisError

from orchestrator.engine.celery.errors import BrokerNameError
from orchestrator.engine.celery.settings import (
    PUBLISH_TIMEOUT_S,
    PUBLISHER_TRANSPORT,
    TASK_NAME,
    app_settings,
)
from orchestrator.home import read_secret
from orchestrator.ledger.dispatch import Message

URL_VARIABLE: Final = "ASSIZE_BROKER_URL"
FILE_VARIABLE: Final = "ASSIZE_BROKER_FILE"
TIME_LIMIT_MARGIN_S: Final = 300
"""Beyond all the time an attempt may take; a hard limit that fires is an alarm, not an end."""

_SCHEMES: Final = ("redis://", "rediss://", "redis+socket://")
_PASSWORD: Final = re.compile(r"(?<=://)([^:@/]*):[^@/]*@")
_DOWN: Final = (BrokerDownError, KombuError, RedisError, OSError)
_logger = logging.getLogger(__name__)


def broker_url(url: str | None, file: str | os.PathLike[str] | None) -> str:
    """The broker's URL: option, option's file, `ASSIZE_BROKER_URL`, `ASSIZE_BROKER_FILE`, in this order.

    A file keeps a password out of argument lists. Raises `BrokerNameError`, and `UsageError` for a bad file.
    """
    if url is None and file is None:
        url, file = os.environ.get(URL_VARIABLE), os.environ.get(FILE_VARIABLE)
    if url is None and file is not None:
        url = read_secret(Path(file), "the broker")
    if not url:
        raise BrokerNameError(
            "no broker is named",
            hint=f"--broker redis://HOST:6379/0, --broker-file FILE, or {URL_VARIABLE} in the environment",
        )
    if not url.startswith(_SCHEMES):
        raise BrokerNameError(
            f"{hidden(url)} is no broker of ours", hint=f"a URL that begins with {', '.join(_SCHEMES)}"
        )
    return url


def hidden(url: str) -> str:
    """A URL that may be shown: without its password."""
    return _PASSWORD.sub(r"\1:***@", url)


def make_app(broker: str, changes: Mapping[str, Any] | None = None) -> Celery:
    """The app of workers and publishers with every setting of the table; `changes` are a drill's own."""
    app = Celery("assize", broker=broker, set_as_current=False)
    app.conf.update(app_settings())
    app.conf.update(dict(changes or {}))
    return app


class Publisher:
    """Sends messages and looks at queues; used by one thread at a time, never before a fork."""

    def __init__(self, broker: str, *, margin_s: int = TIME_LIMIT_MARGIN_S) -> None:
        self._app = make_app(broker, {"broker_transport_options": dict(PUBLISHER_TRANSPORT)})
        self._broker = broker
        self._margin_s = margin_s
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def publish(self, messages: Iterable[Message]) -> int:
        """Send each message once; returns how many were sent. After the first failure nothing more is tried.

        Call it after the transaction that marked them as sent: a worker must find them queued.
        """
        sent = 0
        with self._lock:
            try:
                producer: Producer | None = None
                for message in messages:
                    producer = producer or Producer(self._open())  # type: ignore[no-untyped-call]
                    self._app.send_task(
                        TASK_NAME,
                        kwargs={"slot": message.slot_id, "generation": message.generation},
                        queue=message.queue,
                        time_limit=message.limit_ms // 1000 + self._margin_s,
                        producer=producer,
                        retry=False,
                        ignore_result=True,
                        # For people who look into a queue of Celery's; here it would be a sixth of a message.
                        argsrepr="",
                        kwargsrepr="",
                        reply_to="",
                    )
                    sent += 1
            except _DOWN as error:
                self._drop()
                _logger.warning("not all messages were sent; the sweeper will send them: %s", error)
        return sent

    def lengths(self, queues: Collection[str]) -> dict[str, int] | None:
        """How many messages wait in each queue; None when the broker does not answer."""
        with self._lock:
            try:
                # Not a passive declaration: with a key prefix it finds no queue at all (kombu 5.7, measured).
                client: Any = self._open().default_channel.client  # type: ignore[attr-defined]
                return {queue: int(client.llen(queue)) for queue in queues}
            except _DOWN as error:
                self._drop()
                _logger.warning("the broker does not answer: %s", error)
                return None

    def answers(self) -> bool:
        """Whether the broker can be reached now."""
        return self.lengths(("try",)) is not None

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._drop()

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(  # type: ignore[no-untyped-call]
                self._broker,
                connect_timeout=PUBLISH_TIMEOUT_S,
                transport_options=dict(PUBLISHER_TRANSPORT),
            )
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.collect(PUBLISH_TIMEOUT_S)  # type: ignore[no-untyped-call]
            except _DOWN as error:
                _logger.debug("a dead connection: %s", error)
