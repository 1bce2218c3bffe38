"""What an agent may try at its lane's socket to get a re-run, to hide its cost, or to steer the provider."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import pytest

_PRICES = {
    "model-a": {"provider": "openai", "input": 1000, "output": 4000, "max_output": 4096},
    "claude": {"provider": "anthropic", "input": 1000, "output": 4000, "max_output": 4096},
    "gem": {"provider": "google", "input": 1000, "output": 4000, "max_output": 4096},
}
_PINS = {"model-a": "openai", "claude": "anthropic", "gem": "google"}
_HELLO = [{"role": "user", "content": "well?"}]
_SOON_S = 20
_USED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
_DONE = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
Benches = Callable[..., Any]


def answer(status: int, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": status, "headers": {"content-type": "application/json"}, "json": body}


_YES = answer(200, {"model": "model-a", "choices": [_DONE], "usage": _USED})


def ask(bench: Any, path: str, body: Mapping[str, Any], **headers: str) -> tuple[int, bytes]:
    async def run() -> tuple[int, bytes]:
        connector = aiohttp.UnixConnector(str(bench.lane.socket))
        async with aiohttp.ClientSession(connector=connector) as session:
            known = {"authorization": f"Bearer {bench.lane.token}", **headers}
            async with session.post(f"http://relay{path}", json=body, headers=known) as found:
                return found.status, await found.read()

    return asyncio.run(run())


def chat(bench: Any, **changes: Any) -> tuple[int, bytes]:
    body = {"model": "model-a", "max_tokens": 100, "messages": _HELLO, **changes}
    return ask(bench, "/v1/chat/completions", body)


def raw(bench: Any, request: bytes) -> int:
    """Status of the answer to these very bytes; 0 when there is none."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_SOON_S)
        connection.connect(str(bench.lane.socket))
        connection.sendall(request)
        line = connection.makefile("rb").readline().split()
        return int(line[1]) if line else 0


def request(bench: Any, *lines: bytes, target: bytes = b"/v1/chat/completions") -> bytes:
    body = json.dumps({"model": "model-a", "max_tokens": 100, "messages": _HELLO}).encode()
    head = [b"POST " + target + b" HTTP/1.1", b"Host: relay", b"Content-Length: %d" % len(body), *lines]
    return b"\r\n".join([*head, b"", body])


def bearer(bench: Any) -> bytes:
    return f"Authorization: Bearer {bench.lane.token}".encode()


def idle(bench: Any) -> Any:
    """The lane's last state."""
    return bench.close().state


def test_a_call_left_open_at_the_end_is_no_outage(open_bench: Benches) -> None:
    """Otherwise an agent that is about to fail starts one long call, leaves, and is run again."""
    slow = {"status": 200, "headers": {"content-type": "text/event-stream"}, "sse": ["data: {}\n\n"] * 2000}
    bench = open_bench(_PRICES, {**slow, "pace_ms": 20}, {"model-a": "openai"}, drain_s=0.05)

    async def leave() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(bench.lane.socket))) as session:
            body = {"model": "model-a", "stream": True, "max_tokens": 100, "messages": _HELLO}
            headers = {"authorization": f"Bearer {bench.lane.token}"}
            async with session.post("http://relay/v1/chat/completions", json=body, headers=headers) as found:
                await found.content.readany()

    asyncio.run(leave())
    tally = bench.close().state.tally
    assert tally["unknown"] == 1
    assert tally["lastGeneration"] != "provider"
    assert tally["providerFailures"] == 0


@pytest.mark.parametrize("word", ["invalid_api_key", "API_KEY_INVALID", "insufficient_quota"])
def test_an_agents_own_words_in_an_error_are_not_trouble_of_the_house(open_bench: Benches, word: str) -> None:
    """Providers repeat the value that they do not like; it must not end the try as the platform's fault."""
    error = {"message": f"Invalid value: '{word}'.", "type": "invalid_request_error", "code": "invalid_value"}
    bench = open_bench(_PRICES, answer(400, {"error": error}), _PINS)
    status, body = chat(bench, tool_choice=word)
    assert (status, word in body.decode()) == (400, True)
    assert idle(bench).tally["platformFault"] is None


def test_a_refused_token_count_is_not_trouble_of_the_house(open_bench: Benches) -> None:
    """A count is free and unmetered: it must not be a way to end a try as the platform's fault."""
    denied = {"error": {"code": 403, "message": "no permission", "status": "PERMISSION_DENIED"}}
    bench = open_bench(_PRICES, answer(403, denied), _PINS)
    body = {"generateContentRequest": {"model": "models/somebody-elses"}}
    status, _ = ask(bench, "/v1beta/models/gem:countTokens", body)
    assert status in (403, 502)
    assert idle(bench).tally["platformFault"] is None


@pytest.mark.parametrize("query", ["fields=candidates", "$httpHeaders=x-goog-api-key:a", "%24alt=proto"])
def test_a_query_that_shapes_the_answer_does_not_reach_the_provider(open_bench: Benches, query: str) -> None:
    """`fields` would take the usage out of the answer, others replace headers or the whole format."""
    bench = open_bench(_PRICES, _YES, _PINS)
    body = {"contents": [{"role": "user", "parts": [{"text": "well?"}]}]}
    ask(bench, f"/v1beta/models/gem:generateContent?{query}&alt=json", body)
    assert [one.path for one in bench.upstream.taken] == ["/v1beta/models/gem:generateContent?alt=json"]


def test_the_provider_reads_the_body_as_the_relay_did(open_bench: Benches) -> None:
    """No content encoding and no other character set, however the client calls its bytes."""
    bench = open_bench(_PRICES, _YES, _PINS)
    twice = [b"Content-Encoding: identity", b"Content-Encoding: deflate"]
    assert raw(bench, request(bench, bearer(bench), *twice)) == 415
    kinds = [b"Content-Type: application/json; charset=" + name for name in (b'"utf-7"', b"cp037", b"utf-8")]
    assert [raw(bench, request(bench, bearer(bench), kind)) for kind in kinds] == [415, 415, 200]
    assert raw(bench, request(bench, bearer(bench), twice[0])) == 200
    assert [one.header("content-encoding") for one in bench.upstream.taken] == [None, None]


@pytest.mark.parametrize(
    "lines",
    [
        [b"Authorization: Bearer \xff\xfe"],
        [b"User-Agent: \xff"],
        [b"X-Long: " + b"a" * 40_000, b"X-More: " + b"a" * 40_000],
    ],
    ids=["token", "agent", "long"],
)
def test_headers_that_cannot_be_passed_on_are_refused(open_bench: Benches, lines: list[bytes]) -> None:
    """Not an error of the server, and nothing for the provider to stumble over."""
    bench = open_bench(_PRICES, _YES, _PINS)
    assert raw(bench, request(bench, bearer(bench), *lines)) in (400, 401)
    assert bench.upstream.taken == []
    assert bench.close().state.spent_nusd == 0


def test_a_provider_that_names_its_model_badly_spoils_no_transcript(open_bench: Benches) -> None:
    """Half a surrogate pair in the answer: the call is settled and the lane can be closed."""
    spoiled = {"model": "\ud800", "choices": [{**_DONE, "finish_reason": "\udfff"}], "usage": _USED}
    bench = open_bench(_PRICES, answer(200, spoiled), _PINS)
    chat(bench)
    summary = bench.close()
    assert (summary.state.spent_nusd, summary.state.tally["exact"]) == (10 * 1000 + 5 * 4000, 1)
    assert [one["kind"] for one in bench.records()][-2:] == ["settle", "close"]


@pytest.mark.parametrize("target", [b"*", b"//", b"/%00", b"http://elsewhere/v1/chat/completions", b"/\xff"])
def test_an_odd_target_strands_no_money(open_bench: Benches, target: bytes) -> None:
    """Whatever becomes of it, no hold stays open."""
    bench = open_bench(_PRICES, _YES, _PINS)
    with contextlib.suppress(ConnectionError):
        assert raw(bench, request(bench, bearer(bench), target=target)) < 500
    assert bench.close().state.held_nusd == 0


def test_a_body_made_to_fill_memory_is_refused_at_once(open_bench: Benches) -> None:
    """One relay serves every try of a host: no lane may block it or drive it out of memory."""
    bench = open_bench(_PRICES, _YES, _PINS)
    body = b'{"model":"model-a","x":[' + b"[]," * (4 << 20) + b"[]]}"
    head = [b"POST /v1/chat/completions HTTP/1.1", b"Host: relay", b"Content-Length: %d" % len(body)]
    assert raw(bench, b"\r\n".join([*head, bearer(bench), b"", body])) == 413
    assert chat(bench)[0] == 200
    assert idle(bench).tally["refusals"] == {"body_too_large": 1}


def test_calls_that_fail_without_cost_come_to_an_end(open_bench: Benches) -> None:
    """Neither money nor steps would stop an agent that asks for nonsense again and again."""
    bench = open_bench(_PRICES, answer(400, {"error": {"message": "no"}}), _PINS)

    async def flood() -> list[int]:
        connector = aiohttp.UnixConnector(str(bench.lane.socket), limit=16)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def once() -> int:
                headers = {"authorization": f"Bearer {bench.lane.token}"}
                body = {"model": "model-a", "max_tokens": 100, "messages": _HELLO}
                async with session.post(
                    "http://relay/v1/chat/completions", json=body, headers=headers
                ) as seen:
                    await seen.read()
                    return seen.status

            return await asyncio.gather(*(once() for _ in range(1_100)))

    statuses = asyncio.run(flood())
    assert set(statuses) == {400, 429}
    assert 1_000 <= len(bench.upstream.taken) < 1_000 + 32
    assert bench.close().state.steps == 0


def test_a_request_for_forbidden_things_is_not_trouble_of_the_house(open_bench: Benches) -> None:
    """Once a model has answered, our key is good: what is forbidden then is the agent's to explain."""
    bench = open_bench(_PRICES, _YES, _PINS)
    assert chat(bench)[0] == 200
    bench.lane.wait_for(lambda one: one.tally["exact"] == 1, _SOON_S)
    bench.upstream.answer = answer(403, {"code": "denied", "error": "content violates guidelines"})
    assert chat(bench)[0] == 403
    tally = bench.close().state.tally
    assert (tally["platformFault"], tally["lastGeneration"]) == (None, "agent")


def test_embeddings_of_a_model_that_writes_are_not_trouble_of_the_house(open_bench: Benches) -> None:
    """A provider's 403 to them looks like a key of ours that is not allowed: a re-run for nothing."""
    error = {"message": "You are not allowed to generate embeddings from this model", "code": None}
    bench = open_bench(_PRICES, answer(403, {"error": error}), _PINS)
    assert ask(bench, "/v1/embeddings", {"model": "model-a", "input": "well?"})[0] == 403
    assert idle(bench).tally["platformFault"] is None


def test_the_transcript_says_where_the_providers_are(open_bench: Benches) -> None:
    """A name alone could be any server: what stands in for a provider must be seen in evidence."""
    bench = open_bench(_PRICES, _YES, {"model-a": "openai"})
    bench.close()
    opened = bench.records()[0]["data"]
    assert opened["providers"] == {"openai": f"http://127.0.0.1:{bench.upstream.port}/v1"}
    assert opened["rehearsal"] is None
