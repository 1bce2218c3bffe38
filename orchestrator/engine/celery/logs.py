"""Log lines as JSON objects, with the attempt that a process works on bound once.

A child of a worker runs one attempt at a time, so the binding is the process's; the heartbeat's thread logs
with it too.
"""

from __future__ import annotations

import json
import logging
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from orchestrator.ledger.transitions import Claim

_PLAIN: Final = ("screening", "slot", "token", "attempt", "task")
_bound: dict[str, str | int] = {}


@contextmanager
def bound(held: Claim) -> Iterator[None]:
    """Every line of this process inside is about this attempt."""
    _bound.update(
        screening=held.screening_id,
        slot=held.slot_id,
        token=held.token,
        attempt=held.attempt_id,
        task=held.task_id,
    )
    try:
        yield
    finally:
        _bound.clear()


class JsonFormatter(logging.Formatter):
    """One object a line: time (UTC), level, host, logger, message, the attempt if there is one, the error."""

    def __init__(self, host: str = "") -> None:
        super().__init__()
        self._host = host or platform.node()

    def format(self, record: logging.LogRecord) -> str:
        """The line; what cannot be written as JSON stands as text."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "host": self._host,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: _bound[name] for name in _PLAIN if name in _bound},
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_as_json(host: str, level: int = logging.INFO) -> None:
    """Replace the program's handlers by one that writes JSON lines on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(host))
    logging.basicConfig(level=level, handlers=[handler], force=True)
