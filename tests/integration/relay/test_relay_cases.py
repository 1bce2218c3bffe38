"""Every case of the case files against a real relay over its socket, with a real provider on loopback.

ASSIZE_RELAY_CASES names another file of the same format. An expectation that this runner does not know
fails the case: nothing is passed over.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.evidence.transcript import Kind
from workers.relay.config import Policy
from workers.relay.state import LaneSummary
from workers.relay.watch import ending

_CASES = Path(__file__).resolve().parents[4] / "shared" / "cases"
_PROVIDER_OF = {"/v1/messages": "anthropic", "models/": "google"}


def _files() -> list[Path]:
    named = os.environ.get("ASSIZE_RELAY_CASES")
    return [Path(named)] if named else [_CASES / "relay.json", _CASES / "agents.json"]


def _load() -> list[Any]:
    found = []
    for path in _files():
        if not path.exists():
            reason = f"the case file {path.name} is not beside the checkout"
            found.append(pytest.param({}, {}, id=path.stem, marks=pytest.mark.skip(reason=reason)))
            continue
        data = json.loads(path.read_text("utf-8"))
        found += [pytest.param(data, case, id=case["id"]) for case in data["cases"]]
    return sorted(found, key=lambda param: bool(param.values[1].get("slow")))


@dataclass
class Played:
    """Everything that was seen of a case."""

    case: Mapping[str, Any]
    bench: Any
    answers: list[Any]
    summary: LaneSummary
    records: tuple[Mapping[str, Any], ...]
    request_body: bytes | None
    key: str

    @property
    def last(self) -> Any:
        return self.answers[-1]

    @property
    def tally(self) -> Mapping[str, Any]:
        return self.summary.state.tally

    def of(self, kind: Kind) -> list[Mapping[str, Any]]:
        return [record["data"] for record in self.records if record["kind"] == kind]

    def sent(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.bench.upstream.taken[-1].body)
        return body


def _provider(case: Mapping[str, Any], prices: Mapping[str, Any], model: str) -> str:
    if model in prices:
        return str(prices[model]["provider"])
    path = case["request"]["path"]
    return next((name for part, name in _PROVIDER_OF.items() if part in path), "openai")


def _padded(body: Any, least: int) -> Any:
    size = len(json.dumps(body))
    if size < least:
        body = json.loads(json.dumps(body))
        body["tools"][0]["description"] = "x" * (least - size)
    return body


def _request(case: Mapping[str, Any], token: str) -> tuple[str, str, dict[str, str], bytes | None]:
    request = case["request"]
    headers = {
        name: value.replace("<try token>", token) for name, value in request.get("headers", {}).items()
    }
    if not any(token in value for value in headers.values()) and request["method"] != "HEAD":
        headers["authorization"] = f"Bearer {token}"
    body = request.get("body")
    raw = None
    if body is not None:
        headers.setdefault("content-type", "application/json")
        raw = json.dumps(_padded(body, case.get("pad_body_bytes", 0)), separators=(",", ":")).encode()
    return request["method"], request["path"], headers, raw


async def _play(case: Mapping[str, Any], bench: Any) -> tuple[list[Any], bytes | None]:
    method, path, headers, raw = _request(case, bench.lane.token)
    leave = case.get("client", {}).get("disconnect_after_events")
    acknowledge = bench.upstream.ack if bench.upstream.lock_step else None

    async def one(session: Any) -> Any:
        return await bench.client.send(
            session, method, path, headers, raw, leave_after=leave, on_event=acknowledge
        )

    async with bench.client.session() as session:
        if "concurrent" in case:
            return list(await asyncio.gather(*(one(session) for _ in range(case["concurrent"])))), raw
        return [await one(session) for _ in range(case.get("repeat", 1))], raw


def _policy(case: Mapping[str, Any], defaults: Mapping[str, Any]) -> Policy:
    given = {**defaults.get("policy", {}), **case.get("policy", {})}
    return Policy(frozenset(given.get("provider_tools", ())), bool(given.get("remote_urls", False)))


@pytest.fixture(scope="module", autouse=True)
def early(open_early: Any) -> Iterator[Mapping[str, Future[None]]]:
    """Slow cases wait for minutes on purpose: they run beside the others, and their tests come last."""
    slow = [param.values for param in _load() if param.values[1].get("slow")]
    with ThreadPoolExecutor(max(1, len(slow))) as pool:
        yield {case["id"]: pool.submit(_prove, data, case, open_early) for data, case in slow}


@pytest.mark.parametrize(("data", "case"), _load())
def test_case(
    data: Mapping[str, Any], case: Mapping[str, Any], open_bench: Any, early: Mapping[str, Future[None]]
) -> None:
    """The relay's answer, what reached the provider, and what was booked are as the case says."""
    if case["id"] in early:
        early[case["id"]].result()
    else:
        _prove(data, case, open_bench)


def _prove(data: Mapping[str, Any], case: Mapping[str, Any], open_bench: Any) -> None:
    defaults, prices = data["defaults"], data["prices_nusd_per_token"]
    pins = case.get("pin") or ([case["model"]] if case["model"] else list(prices))
    key = case.get("upstream_key", "sk-UPSTREAM-TESTKEY-000")
    bench = open_bench(
        prices,
        case["upstream"],
        {model: _provider(case, prices, model) for model in pins},
        cap_nusd=case.get("cap_nusd", defaults["cap_nusd"]),
        step_limit=case.get("step_limit", defaults["step_limit"]),
        policy=_policy(case, defaults),
        key=key,
        delay_ms=case.get("upstream_delay_ms", 0),
        lock_step="max_event_lag_ms" in case["expect"],
    )
    answers, raw = asyncio.run(_play(case, bench))
    if case.get("client"):
        bench.lane.wait_for(lambda state: state.open_calls == 0 and state.steps > 0, 30)
    summary = bench.close()
    played = Played(case, bench, answers, summary, bench.records(), raw, key)
    for name, wanted in case["expect"].items():
        check = CHECKS.get(name)
        assert check is not None, f"this runner does not know the expectation {name}"
        check(played, wanted)
    assert summary.state.spent_nusd >= 0
    assert summary.state.held_nusd == 0, "a hold outlived its call"


def _codes(answer: Any) -> set[str]:
    error = answer.json()["error"]
    reasons = [detail.get("reason", "") for detail in error.get("details") or () if isinstance(detail, dict)]
    return {str(error.get("code")), *(reason.lower() for reason in reasons)}


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and _has(found[key], wanted[key]) for key in wanted
        )
    return bool(found == wanted)


def _data_lines(body: bytes) -> list[str]:
    return [
        line[5:].strip() for line in body.decode("utf-8", "replace").splitlines() if line.startswith("data:")
    ]


def _is_usage_chunk(line: str) -> bool:
    try:
        chunk = json.loads(line)
    except ValueError:
        return False
    return isinstance(chunk, dict) and chunk.get("choices") == [] and chunk.get("usage") is not None


def _upstream_bytes(case: Mapping[str, Any]) -> bytes:
    given = case["upstream"]
    parts = [event.encode() for event in given.get("sse", ())]
    parts += [base64.b64decode(part) for part in given.get("raw_parts_b64", ())]
    return b"".join(parts)


def _decoded(case: Mapping[str, Any]) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(case["upstream"]["body_b64"])))


def _completeness(played: Played, wanted: str) -> None:
    settled = [data["completeness"] for data in played.of(Kind.SETTLE)]
    if settled:
        assert set(settled) == {wanted}
    else:
        assert wanted == "exact"
        assert played.tally["complete"]


def _buckets(played: Played, wanted: Mapping[str, Any]) -> None:
    used = dict(played.tally["usage"])
    calls = {kind: count for kind, count in used.pop("calls").items() if count}
    wanted = dict(wanted)
    assert calls == wanted.pop("calls", {})
    given = {name: count for name, count in used.items() if count}
    assert given == {name: count for name, count in wanted.items() if count}


def _hold_kept(played: Played, wanted: bool) -> None:
    held = sum(data["holdNusd"] for data in played.of(Kind.ADMIT))
    assert played.summary.state.spent_nusd == (held if wanted else 0)
    assert not wanted or held > 0


def _fault(played: Played, wanted: str | None) -> None:
    ends = played.of(Kind.SETTLE) + played.of(Kind.RELEASE)
    assert {data["fault"] for data in ends} == {wanted}
    assert (played.tally["platformFault"] is not None) == (wanted == "platform")


def _never(played: Played, secrets: list[str]) -> None:
    shown = [answer.body + repr(answer.headers).encode() for answer in played.answers]
    shown.append(played.bench.transcript())
    shown.append(json.dumps(played.summary.as_data()).encode())
    for secret in secrets:
        assert not any(secret.encode() in text for text in shown)


def _spent_le_cap(played: Played, _: bool) -> None:
    """At no record of the transcript are settled money and open holds above the cap."""
    cap, settled, holds, most = played.case["cap_nusd"], 0, dict[int, int](), 0
    for record in played.records:
        data = record["data"]
        if record["kind"] == Kind.ADMIT:
            holds[record["call"]] = data["holdNusd"]
        elif record["kind"] in (Kind.SETTLE, Kind.RELEASE):
            holds.pop(record["call"])
            settled += data.get("bookedNusd", 0)
        most = max(most, settled + sum(holds.values()))
    assert 0 < most <= cap


def _lag(played: Played, most_ms: float) -> None:
    """In lock step an event is only sent after the one before was seen, so nothing is buffered at all.

    The time is that of the quickest event: the machine may be busy, the relay may not wait.
    """
    lags = [
        (seen - sent) * 1000
        for sent, seen in zip(played.bench.upstream.sent_at, played.last.seen_at, strict=True)
    ]
    assert min(lags) <= most_ms


def _headers(played: Played, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        assert played.bench.upstream.taken[-1].header(name) == value.replace("<upstream key>", played.key)


def _headers_lack(played: Played, names: list[str]) -> None:
    for name in names:
        found = played.bench.upstream.taken[-1].header(name)
        # The provider's own key may travel in a header of that name; the client's must not.
        assert found is None or found == played.key, name


def _client_headers(played: Played, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        assert played.last.headers.get(name, "").partition(";")[0] == value


def _model_ids(played: Played, wanted: list[str]) -> None:
    body = played.last.json()
    listed = (
        [row["id"] for row in body["data"]] if "data" in body else [row["name"] for row in body["models"]]
    )
    assert [name.removeprefix("models/") for name in listed] == wanted


def _ends_try(played: Played, wanted: Any) -> None:
    found = ending(played.summary.state)
    assert (found.value if found else False) == wanted


def _equal(found: Callable[[Played], Any]) -> Callable[[Played, Any], None]:
    def check(played: Played, wanted: Any) -> None:
        assert found(played) == wanted

    return check


def _true(found: Callable[[Played, Any], bool]) -> Callable[[Played, Any], None]:
    def check(played: Played, wanted: Any) -> None:
        assert found(played, wanted)

    return check


CHECKS: Mapping[str, Callable[[Played, Any], None]] = {
    "buckets": _buckets,
    "client_bytes_identical": _equal(lambda p: p.last.body == _upstream_bytes(p.case)),
    "client_ends_with_done": _equal(lambda p: _data_lines(p.last.body)[-1:] == ["[DONE]"]),
    "client_header": _client_headers,
    "client_header_lacks": _true(lambda p, names: not set(names) & set(p.last.headers)),
    "client_json_equals_decoded": _equal(
        lambda p: p.last.json() == _decoded(p.case) and "content-encoding" not in p.last.headers
    ),
    "client_json_has": _true(lambda p, wanted: _has(p.last.json(), wanted)),
    "client_model_ids": _model_ids,
    "client_sees_broken_stream": _equal(lambda p: p.last.broken),
    "client_sees_event": _true(lambda p, name: f"event: {name}\n".encode() in p.last.body),
    "client_sees_usage_chunk": _equal(lambda p: any(map(_is_usage_chunk, _data_lines(p.last.body)))),
    "client_status": _equal(lambda p: p.last.status),
    "client_status_counts": _equal(
        lambda p: {str(k): v for k, v in Counter(a.status for a in p.answers).items()}
    ),
    "client_status_in": _true(lambda p, wanted: p.last.status in wanted),
    "client_text_has": _true(lambda p, text: text in p.last.body.decode("utf-8", "replace")),
    "code": _true(lambda p, code: code in _codes(p.last)),
    "completeness": _completeness,
    "cost_list_on_date_nusd": _equal(lambda p: p.tally["listNusd"]),
    "cost_standard_nusd": _equal(lambda p: p.tally["standardNusd"]),
    "ends_try": _ends_try,
    "fault": _fault,
    "fourth_status": _equal(lambda p: p.answers[3].status),
    "hold_ge_nusd": _true(lambda p, least: p.of(Kind.ADMIT)[0]["holdNusd"] >= least),
    "hold_kept": _hold_kept,
    "hold_le_nusd": _true(lambda p, most: p.of(Kind.ADMIT)[0]["holdNusd"] <= most),
    "hold_rate_input": _equal(lambda p: p.of(Kind.ADMIT)[0]["holdInputRate"]),
    "max_event_lag_ms": _lag,
    "never_contains": _never,
    "published_cost": _equal(lambda p: p.tally["listNusd"]),
    "settles_after_client_gone": _equal(lambda p: len(p.of(Kind.SETTLE)) == 1 and p.answers[0].body != b""),
    "spent_le_cap": _spent_le_cap,
    "steps": _equal(lambda p: p.summary.state.steps),
    "transcript_denies": _equal(lambda p: len(p.of(Kind.DENY))),
    "upstream_body_has": _true(lambda p, wanted: _has(p.sent(), wanted)),
    "upstream_body_has_key": _true(lambda p, key: key in p.sent()),
    "upstream_body_lacks": _true(lambda p, keys: not set(keys) & set(p.sent())),
    "upstream_body_same": _equal(
        lambda p: list(p.sent().items()) == list(json.loads(p.request_body or b"{}").items())
    ),
    "upstream_calls": _equal(lambda p: len(p.bench.upstream.taken)),
    "upstream_header": _headers,
    "upstream_header_lacks": _headers_lack,
    "upstream_path": _equal(lambda p: p.bench.upstream.taken[-1].path),
}
