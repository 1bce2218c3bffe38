"""Limits of a provider are one for all lanes of a host (issue 4, deliver 6)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from orchestrator.prices.entry import ModelPrice, Rates
from orchestrator.prices.sheet import PriceSheet
from workers.relay.config import LaneOrder, Pin, Provider, RelayConfig
from workers.relay.host_limits import limits_folder
from workers.relay.process import OpenLane, RelayProcess

ANSWER = {
    "model": "model-a",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}
ASKED = {"model": "model-a", "max_tokens": 100, "messages": [{"role": "user", "content": "well?"}]}
COST_NUSD = 10 * 1000 + 5 * 4000
SOON_S = 20


@dataclass
class Turnstile:
    """A provider that lets its calls out one by one, and counts how many were inside at once."""

    inside: int = 0
    most: int = 0
    came: int = 0
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __post_init__(self) -> None:
        self._started = threading.Event()
        self.two_inside = threading.Event()
        self._turns = asyncio.Semaphore(0)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._started.wait(SOON_S)

    def let_out(self) -> None:
        """One call may end."""
        self._loop.call_soon_threadsafe(self._turns.release)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SOON_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._listen())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _listen(self) -> web.ServerRunner:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        return runner

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        await request.read()
        self.came += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == 2:
            self.two_inside.set()
        await self._turns.acquire()
        self.inside -= 1
        return web.json_response(ANSWER)


@pytest.fixture
def turnstile() -> Iterator[Turnstile]:
    made = Turnstile()
    yield made
    made.close()


def _sheet() -> dict[str, Any]:
    first, rates = date(2020, 1, 1), Rates(input=1_000_000_000, output=4_000_000_000)
    entry = ModelPrice(
        provider="openai",
        ids=("model-a",),
        valid_from=first,
        standard=rates,
        source="fictional",
        retrieved=first,
    )
    return PriceSheet.of("places", first, [entry]).to_data()


def test_all_lanes_of_a_host_share_a_providers_places(turnstile: Turnstile, tmp_path: Path) -> None:
    """Two lanes of three calls each and two places: never three at the provider, and all are answered."""
    address = f"http://127.0.0.1:{turnstile.port}/v1"
    provider = Provider("openai", address, "sk-0123456789", max_parallel=2)
    relay = RelayProcess(RelayConfig((provider,), _sheet()))
    try:
        pins = (Pin("model-a", "openai"),)
        lanes = [
            relay.open(LaneOrder(name, "agent", tmp_path / name, tmp_path / name / "s", pins, 10**9, None))
            for name in ("one", "two")
        ]
        answers = asyncio.run(asyncio.wait_for(_through(turnstile, lanes), SOON_S))
        summaries = [lane.close() for lane in lanes]
    finally:
        relay.close()
    assert answers == [200] * 6
    assert (turnstile.came, turnstile.most) == (6, 2)
    assert [one.state.spent_nusd for one in summaries] == [3 * COST_NUSD] * 2


def test_all_relays_of_a_host_share_a_providers_places(turnstile: Turnstile, tmp_path: Path) -> None:
    """The same with two relay processes, as two screenings at a time have: never three at the provider."""
    address = f"http://127.0.0.1:{turnstile.port}/v1"
    provider = Provider("openai", address, "sk-0123456789", max_parallel=2)
    limits = limits_folder(tmp_path)
    with contextlib.ExitStack() as stack:
        lanes = []
        for name in ("one", "two"):
            relay = RelayProcess(RelayConfig((provider,), _sheet(), limits_dir=limits))
            stack.callback(relay.close)
            pins = (Pin("model-a", "openai"),)
            order = LaneOrder(name, "agent", tmp_path / name, tmp_path / name / "s", pins, 10**9, None)
            lanes.append(relay.open(order))
        answers = asyncio.run(asyncio.wait_for(_through(turnstile, lanes), SOON_S))
    assert answers == [200] * 6
    assert (turnstile.came, turnstile.most) == (6, 2)


async def _ask(lane: OpenLane) -> int:
    connector, headers = aiohttp.UnixConnector(str(lane.socket)), {"authorization": f"Bearer {lane.token}"}
    async with aiohttp.ClientSession(connector=connector) as session:
        url = "http://relay/v1/chat/completions"
        async with session.post(url, data=json.dumps(ASKED), headers=headers) as answer:
            await answer.read()
            return answer.status


async def _through(turnstile: Turnstile, lanes: list[OpenLane]) -> list[int]:
    calls = [asyncio.create_task(_ask(lane)) for lane in lanes for _ in range(3)]
    for lane in lanes:  # every call is admitted and holds its money while it waits for its turn
        await asyncio.to_thread(lane.wait_for, lambda state: state.open_calls == 3, SOON_S)
    assert await asyncio.to_thread(turnstile.two_inside.wait, SOON_S)
    for _ in calls:
        turnstile.let_out()
    return list(await asyncio.gather(*calls))
