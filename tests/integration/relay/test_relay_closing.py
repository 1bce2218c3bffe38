"""What a worker is told of a lane, and what is left of calls that a lane's end cuts off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from workers.relay.config import LaneOrder, Pin, Provider, RelayConfig
from workers.relay.process import OpenLane, RelayProcess
from workers.relay.state import LaneSummary

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
