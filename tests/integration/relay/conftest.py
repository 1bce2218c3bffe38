"""A real relay process, a real provider stand-in on loopback, and a client that sees every byte."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from orchestrator.evidence.transcript import read
from workers.relay.config import LaneOrder, Pin, Policy, Provider, RelayConfig
from workers.relay.process import OpenLane, RelayProcess
from workers.relay.state import LaneSummary
from workers.relay.transcript import FILE_NAME
from workers.relay.wire.family import Family

KEY = "sk-UPSTREAM-TESTKEY-000"
_FAMILIES = {
    "anthropic": (Family.ANTHROPIC,),
    "google": (Family.GOOGLE,),
}
_PAUSE_S = 0.005


@dataclass
class Taken:
    """One request as the provider got it."""

    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@dataclass
class ScriptedUpstream:
    """Serves one scripted answer to every request, in a thread of its own. `acks` paces lock-step streams."""

    answer: Mapping[str, Any] | None
    delay_ms: int = 0
    lock_step: bool = False
    taken: list[Taken] = field(default_factory=list)
    sent_at: list[float] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._acks: asyncio.Queue[None] = asyncio.Queue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._started.wait(10)

    def ack(self) -> None:
        """The client has seen an event: the next one may be sent."""
        self._loop.call_soon_threadsafe(self._acks.put_nowait, None)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        left = asyncio.all_tasks(self._loop)  # handlers that still wait in the middle of an answer
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.close()

    async def _start(self) -> None:
        server = web.Server(self._handle, access_log=None)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([piece async for piece in request.content.iter_any()])
        headers = [(key, value) for key, value in request.headers.items()]
        self.taken.append(
            Taken(request.raw_path if hasattr(request, "raw_path") else request.path_qs, headers, body)
        )
        given = self.answer
        if given is None:
            return web.Response(status=599, text="no request was expected here")
        if self.delay_ms:
            await asyncio.sleep(self.delay_ms / 1000)
        if "json" in given or "body_b64" in given:
            raw = (
                base64.b64decode(given["body_b64"])
                if "body_b64" in given
                else json.dumps(given["json"]).encode()
            )
            return web.Response(status=given["status"], headers=given["headers"], body=raw)
        return await self._stream(request, given)

    async def _stream(self, request: web.BaseRequest, given: Mapping[str, Any]) -> web.StreamResponse:
        answer = web.StreamResponse(status=given["status"], headers=given["headers"])
        await answer.prepare(request)
        if given.get("first_byte_delay_ms"):
            await asyncio.sleep(given["first_byte_delay_ms"] / 1000)
        parts = [event.encode() for event in given.get("sse", ())]
        parts += [base64.b64decode(part) for part in given.get("raw_parts_b64", ())]
        for number, part in enumerate(parts):
            if number:
                await self._between(given, parts[number - 1])
            if not _for_the_relay(part):
                self.sent_at.append(asyncio.get_running_loop().time())
            with contextlib.suppress(ConnectionError):
                await answer.write(part)
        if given.get("cut"):
            await asyncio.sleep(_PAUSE_S)
            assert request.transport is not None
            request.transport.abort()
            return answer
        await answer.write_eof()
        return answer

    async def _between(self, given: Mapping[str, Any], before: bytes) -> None:
        if self.lock_step:
            # Buffering anywhere on the way would stop the client from seeing the event before.
            if not _for_the_relay(before):
                await asyncio.wait_for(self._acks.get(), 20)
        elif given.get("pace_ms"):
            await asyncio.sleep(given["pace_ms"] / 1000)
        elif given.get("raw_parts_b64"):
            await asyncio.sleep(_PAUSE_S)


def _for_the_relay(part: bytes) -> bool:
    """The usage chunk that a client did not ask for: the relay keeps it."""
    return b'"choices":[],' in part


@dataclass
class Seen:
    """One answer as the client saw it. `broken` means that it ended before its proper end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    broken: bool = False
    seen_at: list[float] = field(default_factory=list)

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """Sends raw requests over a lane's socket."""

    def __init__(self, lane: OpenLane) -> None:
        self._lane = lane

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.UnixConnector(str(self._lane.socket), limit=0)
        async with aiohttp.ClientSession(
            connector=connector,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        ) as session:
            yield session

    async def send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        leave_after: int | None = None,
        on_event: Callable[[], None] | None = None,
    ) -> Seen:
        async with session.request(
            method, f"http://relay{path}", data=body, headers=headers, allow_redirects=False
        ) as answer:
            seen = Seen(answer.status, {key.lower(): value for key, value in answer.headers.items()}, b"")
            try:
                async for piece in answer.content.iter_any():
                    before = _events(seen.body)
                    seen.body += piece
                    for _ in range(_events(seen.body) - before):
                        seen.seen_at.append(asyncio.get_running_loop().time())
                        if on_event is not None:
                            on_event()
                    if leave_after is not None and _events(seen.body) >= leave_after:
                        answer.close()
                        return seen
            except aiohttp.ClientError:
                seen.broken = True
            return seen


def _events(body: bytes) -> int:
    return body.count(b"\n\n")


@dataclass
class Bench:
    """Relay, provider stand-in and one lane of a case."""

    relay: RelayProcess
    upstream: ScriptedUpstream
    lane: OpenLane
    folder: Path

    @property
    def client(self) -> Client:
        return Client(self.lane)

    def transcript(self) -> bytes:
        return (self.folder / "lane" / FILE_NAME).read_bytes()

    def records(self) -> tuple[Mapping[str, Any], ...]:
        return read(self.transcript()).records

    def close(self) -> LaneSummary:
        return self.lane.close()


def sheet_data(prices_nusd_per_token: Mapping[str, Any]) -> dict[str, Any]:
    """A price sheet from the case files' numbers, which are nano-USD per token."""
    entries = [_entry(model, row) for model, row in sorted(prices_nusd_per_token.items())]
    return {"format": "assize.prices/1", "id": "cases", "date": "2020-01-01", "entries": entries}


def _entry(model: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "provider": row["provider"],
        "ids": [model],
        "valid_from": "2020-01-01",
        "valid_to": None,
        "standard": _rates(row),
        "tiers": [
            {"above_input_tokens": tier["above_input"], "rates": _rates(tier)}
            for tier in row.get("tiers", ())
        ],
        "windows": [],
        "per_call": dict(row.get("per_call", {})),
        "max_output_tokens": row["max_output"] or None,
        "source": "fictional",
        "retrieved": "2020-01-01",
        "reviewed": True,
    }


def _rates(row: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        "input",
        "output",
        "cache_read",
        "cache_write_5m",
        "cache_write_1h",
        "audio_input",
        "audio_output",
    )
    return {name: None if row.get(name) is None else row[name] * 1_000_000 for name in names}


def providers_at(port: int, key: str, names: set[str]) -> tuple[Provider, ...]:
    root = f"http://127.0.0.1:{port}"
    return tuple(
        Provider(name, root, key, families=_FAMILIES[name])
        if name in _FAMILIES
        else Provider(name, f"{root}/v1", key)
        for name in sorted(names)
    )


OpenBench = Callable[..., Bench]


@pytest.fixture
def open_bench(tmp_path: Path) -> Iterator[OpenBench]:
    """Opens relays with one lane each; everything is ended afterwards."""
    with benches(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def open_early(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenBench]:
    """The same for cases that are started before the others because they take long."""
    with benches(tmp_path_factory.mktemp("early")) as make:
        yield make


@contextlib.contextmanager
def benches(folder_of_all: Path) -> Iterator[OpenBench]:
    """A function that makes benches below a folder."""
    numbers = itertools.count()
    with contextlib.ExitStack() as stack:

        def make(
            prices: Mapping[str, Any],
            answer: Mapping[str, Any] | None,
            pins: Mapping[str, str],
            *,
            cap_nusd: int | None = 1_000_000_000,
            step_limit: int | None = 100,
            policy: Policy | None = None,
            key: str = KEY,
            delay_ms: int = 0,
            lock_step: bool = False,
            drain_s: float = 30.0,
            kind: str = "agent",
        ) -> Bench:
            folder = folder_of_all / f"{next(numbers)}"  # an address of a socket has at most 107 bytes
            upstream = ScriptedUpstream(answer, delay_ms=delay_ms, lock_step=lock_step)
            stack.callback(upstream.close)
            names = {row["provider"] for row in prices.values()} | set(pins.values())
            config = RelayConfig(providers_at(upstream.port, key, names), sheet_data(prices), drain_s=drain_s)
            relay = RelayProcess(config)
            stack.callback(relay.close)
            order = LaneOrder(
                "lane",
                kind,  # type: ignore[arg-type]
                folder / "lane",
                folder / "socket",
                tuple(Pin(model, provider) for model, provider in pins.items()),
                cap_nusd,
                step_limit,
                policy or Policy(),
            )
            return Bench(relay, upstream, relay.open(order), folder)

        yield make
