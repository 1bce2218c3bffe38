"""The relay process: lanes apart, tokens that die, and what a kill leaves behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from orchestrator.evidence.metering import ledger_lines, totals
from orchestrator.evidence.transcript import Kind, ledger_of, read
from workers.relay.config import LaneOrder, Pin, RelayConfig
from workers.relay.errors import RelayError, RelayLostError
from workers.relay.process import OpenLane, RelayProcess
from workers.relay.transcript import FILE_NAME

PRICES = {"model-a": {"provider": "openai", "input": 1000, "output": 4000, "max_output": 4096}}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
ANSWER = {
    "status": 200,
    "headers": {"content-type": "application/json"},
    "json": {"model": "model-a", "choices": [CHOICE], "usage": USAGE},
}
COST_NUSD = 10 * 1000 + 5 * 4000
SOON_S = 20
Benches = Callable[..., Any]


def event(**data: Any) -> str:
    return f"data: {json.dumps({'model': 'model-a', **data}, separators=(',', ':'))}\n\n"


WORD = event(choices=[{"index": 0, "delta": {"content": "y"}}])
STREAM = {
    "status": 200,
    "headers": {"content-type": "text/event-stream"},
    "sse": [
        WORD,
        event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        event(choices=[], usage=USAGE),
        "data: [DONE]\n\n",
    ],
}


def asked(**changes: Any) -> bytes:
    messages = [{"role": "user", "content": "well?"}]
    return json.dumps({"model": "model-a", "max_tokens": 100, "messages": messages, **changes}).encode()


@contextlib.asynccontextmanager
async def client(path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path), limit=0)) as session:
        yield session


async def post(session: aiohttp.ClientSession, token: str, body: bytes) -> tuple[int, Any]:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    async with session.post("http://relay/v1/chat/completions", data=body, headers=headers) as answer:
        return answer.status, json.loads(await answer.read())


async def ask(lane: OpenLane, *, token: str | None = None, **changes: Any) -> tuple[int, Any]:
    """One call of a lane: status and JSON."""
    async with client(lane.socket) as session:
        return await post(session, token or lane.token, asked(**changes))


def second_lane(bench: Any, name: str, *, cap_nusd: int | None = 10**9, kind: Any = "agent") -> OpenLane:
    """Another lane of the bench's relay."""
    folder = bench.folder / name
    order = LaneOrder(name, kind, folder, folder / "s", (Pin("model-a", "openai"),), cap_nusd, step_limit=100)
    found: OpenLane = bench.relay.open(order)
    return found


def records_of(bench: Any, name: str) -> tuple[Mapping[str, Any], ...]:
    return read((bench.folder / name / FILE_NAME).read_bytes()).records


def _let_through(bench: Any) -> None:
    """The provider's stream may come to its end: it waits for an acknowledgement of two of its events."""
    for _ in range(2):
        bench.upstream.ack()


def soon(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, SOON_S))


@pytest.fixture
def strict_umask() -> Iterator[None]:
    """As a service manager that lets nobody else read what a service writes."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("strict_umask")
def test_a_strict_umask_does_not_shut_a_sandbox_out(open_bench: Benches) -> None:
    """Whatever user a sandbox has, it comes through the socket's folder; what is around that stays shut."""
    bench = open_bench(PRICES, ANSWER, {"model-a": "openai"})
    lane = second_lane(bench, "strict")
    modes = [
        stat.S_IMODE(path.stat().st_mode)
        for path in (lane.socket, lane.socket.parent, bench.folder / "strict")
    ]
    assert modes == [0o666, 0o755, 0o700]
    bench.close()


def test_the_platforms_money_is_never_the_agents(open_bench: Benches) -> None:
    """Two lanes of one attempt: own cap, own steps, own transcript, own sum (issue 4, deliver 6)."""
    bench = open_bench(PRICES, ANSWER, {"model-a": "openai"}, cap_nusd=10**9)
    judge = second_lane(bench, "platform", cap_nusd=0, kind="platform")
    assert soon(ask(judge))[0] == 402
    assert soon(ask(bench.lane))[0] == 200
    paid = second_lane(bench, "platform-2", kind="platform")
    for _ in range(3):
        assert soon(ask(paid))[0] == 200
    assert soon(ask(bench.lane))[0] == 200
    judged, spent, agent = judge.close(), paid.close(), bench.close()
    assert [one.state.spent_nusd for one in (judged, spent, agent)] == [0, 3 * COST_NUSD, 2 * COST_NUSD]
    assert [one.state.steps for one in (judged, spent, agent)] == [0, 3, 2]
    assert [one.state.tally["capRefusedUs"] is None for one in (judged, spent, agent)] == [False, True, True]
    kinds = [records_of(bench, name)[0]["data"]["kind"] for name in ("lane", "platform", "platform-2")]
    assert kinds == ["agent", "platform", "platform"]
    settled = [one for one in records_of(bench, "lane") if one["kind"] == Kind.SETTLE]
    assert len(settled) == 2
    assert {one["lane"] for one in records_of(bench, "lane")} == {"lane"}


def test_a_token_opens_its_own_lane_only(open_bench: Benches) -> None:
    """Another lane's token, a piece of one, another case or none: 401, no call, no step."""
    bench = open_bench(PRICES, ANSWER, {"model-a": "openai"})
    other = second_lane(bench, "other")
    token = bench.lane.token
    assert len(token) == 64
    for wrong in (other.token, token[:-1], token.upper(), token + "0", "x", "ü"):
        status, body = soon(ask(bench.lane, token=wrong))
        assert (status, body["error"]["code"]) == (401, "bad_token")
        assert token not in json.dumps(body)
    summary = bench.close()
    assert bench.upstream.taken == []
    assert summary.state.steps == 0
    assert summary.state.tally["refusals"] == {"bad_token": 6}
    assert summary.state.tally["firstCallUs"] is None


def test_a_lane_is_opened_and_closed_once(open_bench: Benches) -> None:
    """A second one of the same name, and the end of one that is not there, are refused; the relay goes on."""
    bench = open_bench(PRICES, ANSWER, {"model-a": "openai"})
    other = second_lane(bench, "other")
    with pytest.raises(RelayError, match="other is open already"):
        second_lane(bench, "other")
    other.close()
    with pytest.raises(RelayError, match="no lane other is open"):
        other.close()
    with pytest.raises(RelayError, match="FileExistsError"):
        second_lane(bench, "other")  # its transcript is there, and is never written over
    assert soon(ask(bench.lane))[0] == 200


def test_the_summary_names_sheet_and_last_hash(open_bench: Benches) -> None:
    """What the certificate rests on."""
    bench = open_bench(PRICES, ANSWER, {"model-a": "openai"})
    soon(ask(bench.lane))
    summary = bench.close()
    chain = read(bench.transcript())
    assert (summary.head, summary.records) == (chain.head, len(chain.records))
    assert (summary.prices_id, summary.prices_date) == ("cases", "2020-01-01")
    assert chain.records[0]["data"]["prices"]["digest"] == summary.prices_digest
    assert ledger_of(chain.records).spent_nusd == summary.state.spent_nusd == COST_NUSD
    assert chain.records[-1]["data"]["spent_nusd"] == COST_NUSD


def test_a_token_dies_with_its_try_while_open_calls_are_read_to_their_end(open_bench: Benches) -> None:
    """From the first moment of the close every request is refused, even on a connection that was open."""
    bench = open_bench(PRICES, STREAM, {"model-a": "openai"}, lock_step=True)

    async def close_in_the_middle() -> Any:
        async with client(bench.lane.socket) as session, client(bench.lane.socket) as kept:
            headers = {"authorization": f"Bearer {bench.lane.token}"}
            call = await session.post(
                "http://relay/v1/chat/completions", data=asked(stream=True), headers=headers
            )
            assert await call.content.readuntil(b"\n\n") == WORD.encode()
            closing = asyncio.create_task(asyncio.to_thread(bench.close))
            while True:
                async with kept.get("http://relay/v1/models", headers=headers) as listed:
                    if listed.status != 200:
                        break
            over = await post(kept, bench.lane.token, asked())
            _let_through(bench)
            rest = await call.read()
            return over, rest, await closing

    (status, body), rest, summary = soon(close_in_the_middle())
    assert (status, body["error"]["code"]) == (403, "attempt_over")
    assert rest.endswith(b"data: [DONE]\n\n")
    assert len(bench.upstream.taken) == 1
    assert (summary.state.tally["exact"], summary.state.spent_nusd) == (1, COST_NUSD)
    assert not bench.lane.socket.exists()


@pytest.mark.parametrize("answer", [ANSWER, STREAM])
def test_a_call_cut_by_the_relay_is_not_the_providers_fault(open_bench: Benches, answer: Any) -> None:
    """The drain is over before the answer: unknown cost, nobody's outage, whether or not it had begun."""
    streams = answer is STREAM
    delay_ms = 0 if streams else 600_000
    bench = open_bench(
        PRICES, answer, {"model-a": "openai"}, delay_ms=delay_ms, lock_step=streams, drain_s=0.05
    )

    async def close_in_the_middle() -> Any:
        async with client(bench.lane.socket) as session:
            headers = {"authorization": f"Bearer {bench.lane.token}"}
            url, body = "http://relay/v1/chat/completions", asked(stream=streams)

            async def call() -> None:
                async with session.post(url, data=body, headers=headers) as seen:
                    await seen.read()

            task = asyncio.create_task(call())
            while not bench.upstream.taken:
                await asyncio.sleep(0.001)
            summary = await asyncio.to_thread(bench.close)
            with pytest.raises(aiohttp.ClientError):
                await task
            return summary

    state = soon(close_in_the_middle()).state
    _let_through(bench)
    [settled] = [record["data"] for record in bench.records() if record["kind"] == Kind.SETTLE]
    assert (settled["completeness"], settled["problem"], settled["fault"]) == ("unknown", "cut", None)
    assert (state.tally["lastGeneration"], state.tally["providerFailures"]) == (None, 0)
    assert (state.tally["unknown"], state.tally["complete"], state.tally["listNusd"]) == (1, False, None)
    assert state.spent_nusd == settled["bookedNusd"] > 0


def test_a_relay_that_is_killed_leaves_a_ledger_of_settled_calls_and_holds(open_bench: Benches) -> None:
    """`kill -9` in the middle of a stream: every handle says so, and the money follows from the disk."""
    bench = open_bench(PRICES, STREAM, {"model-a": "openai"}, lock_step=True)

    async def kill_in_the_middle() -> int:
        async with client(bench.lane.socket) as session:
            headers = {"authorization": f"Bearer {bench.lane.token}"}
            url = "http://relay/v1/chat/completions"
            _let_through(bench)
            async with session.post(url, data=asked(stream=True), headers=headers) as first:
                assert (await first.read()).endswith(b"[DONE]\n\n")
            second = await session.post(url, data=asked(stream=True), headers=headers)
            await second.content.readuntil(b"\n\n")
            state = await asyncio.to_thread(
                bench.lane.wait_for, lambda one: one.open_calls == 1 and one.tally["exact"] == 1, SOON_S
            )
            os.kill(bench.relay.pid, signal.SIGKILL)
            with pytest.raises(aiohttp.ClientError):
                await second.read()
        _let_through(bench)
        held: int = state.held_nusd
        return held

    held_nusd = soon(kill_in_the_middle())
    with pytest.raises(RelayLostError):
        bench.lane.wait_for(lambda state: False, SOON_S)
    assert not bench.lane.alive
    for attempt in (bench.close, lambda: second_lane(bench, "other")):
        with pytest.raises(RelayLostError):
            attempt()
    chain = read(bench.transcript())
    ledger = ledger_of(chain.records)
    assert (ledger.settled_nusd, ledger.closed) == (COST_NUSD, False)
    assert list(ledger.open_holds.values()) == [held_nusd]
    assert ledger.spent_nusd == COST_NUSD + held_nusd
    lines = ledger_lines(chain)
    assert [line["completeness"] for line in lines] == ["exact", "unknown"]
    assert totals(lines).figures is None


def test_the_end_of_its_standard_input_ends_the_relay_in_order(open_bench: Benches) -> None:
    """The worker is gone or done: lanes are summed up, sockets removed, the process ends with 0."""
    bench = open_bench(PRICES, ANSWER, {"model-a": "openai"})
    other = second_lane(bench, "other")
    soon(ask(bench.lane))
    bench.relay.close()
    assert not bench.relay.alive
    with pytest.raises(ProcessLookupError):
        os.kill(bench.relay.pid, 0)
    for name in ("lane", "other"):
        assert records_of(bench, name)[-1]["kind"] == Kind.CLOSE
    assert not bench.lane.socket.exists()
    assert not other.socket.exists()
    bench.relay.close()  # closing again is no error


def test_a_relay_without_a_usable_configuration_does_not_come_up() -> None:
    """It ends instead of listening with half of it, and its handle says so."""
    with pytest.raises(RelayLostError, match="did not come up"):
        RelayProcess(RelayConfig((), {"format": "nonsense"}))


def test_keys_are_in_no_argument_and_no_variable_of_the_relay(open_bench: Benches) -> None:
    """They came over its standard input (issue 4: no key in any environment)."""
    bench = open_bench(PRICES, ANSWER, {"model-a": "openai"}, key="sk-canary-0123456789")
    soon(ask(bench.lane))
    for name in ("cmdline", "environ"):
        assert b"sk-canary" not in Path(f"/proc/{bench.relay.pid}/{name}").read_bytes()
    assert bench.upstream.taken[0].header("authorization") == "Bearer sk-canary-0123456789"


def test_a_client_that_does_not_read_does_not_stop_the_meter(open_bench: Benches) -> None:
    """The answer is far larger than every buffer between; it is settled all the same."""
    words = event(choices=[{"index": 0, "delta": {"content": "x" * 100_000}}])
    answer = {**STREAM, "sse": [words] * 100 + STREAM["sse"]}  # type: ignore[operator]
    bench = open_bench(PRICES, answer, {"model-a": "openai"})
    body = asked(stream=True)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: relay\r\nauthorization: Bearer {bench.lane.token}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX) as stalled:
        stalled.connect(str(bench.lane.socket))
        stalled.sendall(head.encode() + body)
        state = bench.lane.wait_for(lambda one: one.tally["exact"] == 1, SOON_S)
    assert (state.spent_nusd, state.open_calls) == (COST_NUSD, 0)
