"""What a worker is told of a lane, and what is left of calls that a lane's end cuts off."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from workers.relay.config import LaneOrder, Pin, Provider, RelayConfig
from workers.relay.process import OpenLane, RelayProcess
from workers.relay.state import LEASE_LOST, LaneSummary
from workers.relay.watch import Ending, ending

_PRICES = {"model-a": {"provider": "openai", "input": 1000, "output": 4000, "max_output": 4096}}
_ANSWER = {
    "status": 200,
    "headers": {"content-type": "application/json"},
    "json": {
        "model": "model-a",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    },
}
_ASKED = {"model": "model-a", "max_tokens": 100, "messages": [{"role": "user", "content": "well?"}]}
_COST_NUSD = 10 * 1000 + 5 * 4000
_SOON_S = 20


async def _ask(lane: OpenLane, session: aiohttp.ClientSession) -> int:
    headers = {"authorization": f"Bearer {lane.token}"}
    async with session.post("http://relay/v1/chat/completions", json=_ASKED, headers=headers) as answer:
        await answer.read()
        return answer.status


def _session(lane: OpenLane) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(lane.socket), limit=0))


@pytest.fixture
def unanswered(tmp_path: Path) -> Iterator[OpenLane]:
    """A lane, closed after 50 ms of drain, whose provider takes every connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel alone accepts
        root = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        provider = Provider("openai", root, "sk-not-a-real-key")
        with closing(RelayProcess(RelayConfig((provider,), _sheet(), drain_s=0.05))) as relay:
            pins = (Pin("model-a", "openai"),)
            order = LaneOrder("lane", "agent", tmp_path / "lane", tmp_path / "socket", pins, 10**9, 10)
            yield relay.open(order)


def _sheet() -> dict[str, Any]:
    others = ("cache_read", "cache_write_5m", "cache_write_1h", "audio_input", "audio_output")
    entry = {
        "provider": "openai",
        "ids": ["model-a"],
        "valid_from": "2020-01-01",
        "valid_to": None,
        "standard": {"input": 1_000_000_000, "output": 4_000_000_000, **dict.fromkeys(others)},
        "tiers": [],
        "windows": [],
        "per_call": {},
        "max_output_tokens": 4096,
        "source": "fictional",
        "retrieved": "2020-01-01",
        "reviewed": True,
    }
    return {"format": "assize.prices/1", "id": "closing", "date": "2020-01-01", "entries": [entry]}


def test_reports_of_many_calls_at_once_end_with_all_of_them(open_bench: Callable[..., Any]) -> None:
    """Reports are bundled, and the last one holds everything that happened."""
    bench = open_bench(_PRICES, _ANSWER, {"model-a": "openai"})

    async def ask_often() -> None:
        async with _session(bench.lane) as session:
            assert set(await asyncio.gather(*(_ask(bench.lane, session) for _ in range(40)))) == {200}

    asyncio.run(ask_often())
    state = bench.lane.wait_for(lambda one: one.open_calls == 0 and one.tally["exact"] == 40, _SOON_S)
    assert state.spent_nusd == 40 * _COST_NUSD
    assert bench.close().state == state


def test_a_call_that_outlives_its_lane_costs_its_hold_and_breaks_off(unanswered: OpenLane) -> None:
    """After the drain nobody knows what the call cost: the hold stays booked, the client gets no answer."""

    async def ask_and_close() -> tuple[int, LaneSummary]:
        async with _session(unanswered) as session:
            call = asyncio.create_task(_ask(unanswered, session))
            state = await asyncio.to_thread(unanswered.wait_for, lambda one: one.open_calls == 1, _SOON_S)
            summary = await asyncio.to_thread(unanswered.close)
            with pytest.raises(aiohttp.ClientError):
                await asyncio.wait_for(call, _SOON_S)
        return state.held_nusd, summary

    held_nusd, summary = asyncio.run(ask_and_close())
    assert summary.state.spent_nusd == held_nusd > 0
    assert summary.state.held_nusd == summary.state.open_calls == 0
    assert (summary.state.tally["unknown"], summary.state.tally["complete"]) == (1, False)


def test_no_call_starts_after_the_lease_until_it_is_renewed(open_bench: Callable[..., Any]) -> None:
    """The relay needs no word from its worker to stop: one that is frozen or dead gives none."""
    bench = open_bench(_PRICES, _ANSWER, {"model-a": "openai"})

    async def ask() -> int:
        async with _session(bench.lane) as session:
            return await _ask(bench.lane, session)

    bench.lane.renew(time.monotonic() + 3600)
    assert asyncio.run(ask()) == 200
    bench.lane.renew(time.monotonic() - 1)
    assert asyncio.run(ask()) == 502
    state = bench.lane.wait_for(lambda one: one.tally["platformFault"] == LEASE_LOST, _SOON_S)
    assert state.spent_nusd == _COST_NUSD and ending(state) is Ending.PLATFORM
    bench.lane.renew(time.monotonic() + 3600)
    assert asyncio.run(ask()) == 502
    assert bench.close().state.tally["refusals"] == {"platform_fault": 2}


def test_renewing_a_relay_that_is_gone_is_no_error(unanswered: OpenLane) -> None:
    """Its end is seen elsewhere."""
    unanswered.close()
    unanswered.renew(time.monotonic())  # its lane is closed
    unanswered._process.kill()
    unanswered.renew(time.monotonic())
    assert not unanswered.alive
