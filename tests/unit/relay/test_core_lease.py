"""A lane sends nothing once its attempt's lease was last known to be good too long ago."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evidence.transcript import Kind
from workers.attempt.relayed import facts_of
from workers.relay.errors import RefusedError
from workers.relay.routes import Purpose, Route
from workers.relay.wire.family import Family

CHAT = Route(Family.OPENAI_CHAT, Purpose.GENERATE, "/chat/completions")
DONE = b'{"model": "plain", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}'
HEADERS = {"content-type": "application/json"}


def bench_in(folder: Path, desk: Callable[..., Any], exchange_bench: Callable[..., Any]) -> Any:
    return exchange_bench(desk(state_dir=folder), "k" * 20)


@pytest.mark.parametrize("until", [None, float("inf")])
def test_calls_start_without_a_bound_and_before_it(
    tmp_path: Path, desk: Callable[..., Any], exchange_bench: Callable[..., Any], until: float | None
) -> None:
    """Nothing is refused and nothing is held against the platform."""
    bench = bench_in(tmp_path, desk, exchange_bench)
    bench.lane.calls_until = until
    head, _ = bench.plays(bench.answer(200, HEADERS, [DONE]))
    assert head.status == 200 and bench.lane.tally.platform_fault is None
    assert facts_of(bench.lane.state(), pod_lost=False)["lease_lost"] is False


def test_a_call_that_waited_past_the_bound_is_not_sent(
    tmp_path: Path, desk: Callable[..., Any], exchange_bench: Callable[..., Any]
) -> None:
    """It was admitted in time and waited for its turn at the provider: no cost, and the platform's fault."""
    bench = bench_in(tmp_path, desk, exchange_bench)

    async def play() -> Any:
        exchange = bench.begin(CHAT)
        bench.lane.calls_until = time.monotonic() - 1
        await exchange.run(bench.upstream(AssertionError("a call was sent")))
        return await bench.seen(exchange)

    head, body = bench.run(play())
    assert (head.status, b"platform_fault" in body) == (502, True)
    assert bench.money() == (0, 0, 0)
    assert [one["data"]["fault"] for one in bench.of(Kind.RELEASE)] == ["platform"]
    facts = facts_of(bench.lane.state(), pod_lost=False)
    assert facts["lease_lost"] is True and facts["relay_fault"] is False


def test_a_call_under_way_is_read_and_paid_to_its_end(
    tmp_path: Path, desk: Callable[..., Any], exchange_bench: Callable[..., Any]
) -> None:
    """The bound is for starts: what a provider works at is metered, whoever holds the try by then."""
    bench = bench_in(tmp_path, desk, exchange_bench)

    async def play() -> Any:
        under_way = asyncio.Event()
        exchange = bench.begin(CHAT)
        given = bench.answer(200, HEADERS, [under_way, DONE])
        task = asyncio.create_task(exchange.run(bench.upstream(given)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        bench.lane.calls_until = time.monotonic() - 1
        under_way.set()
        await task
        return await bench.seen(exchange)

    head, _ = bench.run(play())
    assert head.status == 200 and bench.money()[0] == 10 * 2 + 5 * 8
    assert bench.lane.tally.platform_fault is None


def test_a_refusal_stays_although_the_lease_is_renewed(
    tmp_path: Path, desk: Callable[..., Any], exchange_bench: Callable[..., Any]
) -> None:
    """The agent has been told no by the platform: whatever it does now is not its own doing."""
    bench = bench_in(tmp_path, desk, exchange_bench)

    async def ask() -> None:
        bench.lane.calls_until = time.monotonic() - 1
        with pytest.raises(RefusedError):
            bench.lane.require_lease()
        bench.lane.calls_until = time.monotonic() + 60
        bench.lane.require_lease()

    bench.run(ask())
    assert bench.lane.tally.platform_fault == "lease"
