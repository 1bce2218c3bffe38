"""Concurrency and request rate of a provider, shared by everything on a host (issue 4, deliver 6)."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from workers.relay.config import Provider
from workers.relay.gate import Gate


class _Selector(selectors.SelectSelector):
    """Does not wait: the time that it should have waited has passed at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found and timeout is not None:
            self.now += max(0.0, timeout)
        return found


def in_virtual_time(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run on a loop whose clock moves only when everything waits."""
    selector = _Selector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work())


def gate(**limits: int) -> Gate:
    return Gate(Provider("p", "http://p.test", "key", **limits))  # type: ignore[arg-type]


async def starts(made: Gate, calls: int, lasting_s: float = 0.0) -> list[float]:
    """Seconds after which each of many calls at once got its place."""
    begin, found = asyncio.get_running_loop().time(), []

    async def call() -> None:
        async with made.place():
            found.append(asyncio.get_running_loop().time() - begin)
            await asyncio.sleep(lasting_s)

    await asyncio.gather(*(call() for _ in range(calls)))
    return found


def test_without_limits_everything_starts_at_once() -> None:
    """None is no bound."""
    assert in_virtual_time(lambda: starts(gate(), 50)) == [0.0] * 50


def test_calls_keep_the_distance_of_their_rate() -> None:
    """60 a minute is one a second, from the first on."""
    found = in_virtual_time(lambda: starts(gate(requests_per_minute=60), 4))
    assert found == pytest.approx([0, 1, 2, 3])


def test_only_so_many_calls_run_at_once() -> None:
    """The next starts when one has ended, in order."""
    found = in_virtual_time(lambda: starts(gate(max_parallel=2), 5, lasting_s=10))
    assert found == pytest.approx([0, 0, 10, 10, 20])


def test_both_limits_hold_together() -> None:
    """A place is had first, then the turn is waited for."""
    found = in_virtual_time(lambda: starts(gate(max_parallel=1, requests_per_minute=60), 3, lasting_s=0.25))
    assert found == pytest.approx([0, 1, 2])


def test_a_rate_is_no_credit_for_idle_time() -> None:
    """After a pause the next two calls still keep their distance."""

    async def after_a_pause() -> list[float]:
        made = gate(requests_per_minute=60)
        await starts(made, 1)
        await asyncio.sleep(100)
        return await starts(made, 2)

    assert in_virtual_time(after_a_pause) == pytest.approx([0, 1])


def test_a_call_that_fails_or_is_cut_gives_its_place_back() -> None:
    """Otherwise a provider would be lost to this host one place at a time."""

    async def fail_and_cut() -> list[float]:
        made = gate(max_parallel=1)
        with pytest.raises(ValueError, match="trouble"):
            async with made.place():
                raise ValueError("trouble")
        async with made.place():
            waiting = asyncio.create_task(starts(made, 1))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        return await starts(made, 1)

    assert in_virtual_time(fail_and_cut) == [0.0]
