"""Ctrl-C and SIGTERM for a running engine."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.engine.base import Engine


@contextmanager
def _heard_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Both signals go to `handle` in the main thread; afterwards to whom they went before."""
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ends_in_good_order() -> Iterator[None]:
    """Either signal ends this process with 0, through every `finally`, until somebody else listens."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    with _heard_by(leave):
        yield


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

    with _heard_by(handle):
        yield
