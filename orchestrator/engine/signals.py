"""Ctrl-C and SIGTERM for a running engine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.engine.base import Engine


@contextmanager
def interrupts(engine: Engine) -> Iterator[None]:
    """SIGINT and SIGTERM call `engine.interrupt()`; the fourth one acts as if nobody listened.

    Use it in the main thread around `engine.run`. Children of the attempt must run in their own session,
    or the terminal's Ctrl-C reaches them too.
    """
    count = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        if count >= 3:
            signal.signal(number, signal.SIG_DFL)
        engine.interrupt()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
