"""Requests made to be read in two ways, to steer the relay, or to have the provider do what the try may not.

Whatever is sent, the provider gets nothing but admitted calls, each as the transcript has it, with the
house's key and no word of the agent's beside the body.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.assets.relayed.house import House, Ran
    from tests.assets.relayed.provider import Provider

pytestmark = pytest.mark.docker

ATTACKS: Mapping[str, Any] = json.loads(
    (Path(__file__).parents[2] / "assets" / "relayed" / "attacks.json").read_text("utf-8")
)
KEY = "sk-house-0123456789abcdef"
EXACT_NUSD = 30_000
PASSED = ("passed", "all_checks_passed")

BEGIN = """
OUTER = '{"model":"%s","max_tokens":10,"messages":[{"role":"user","content":"outer"}]}' % MODEL
def filled(text):
    text = text.replace("{model}", MODEL).replace("{token}", TOKEN).replace("{long}", "P" * 70_000)
    text = text.replace("{deep}", "[" * 2000 + "]" * 2000).replace("{deeper}", "[" * 20000 + "]" * 20000)
    return text.replace("{length}", str(len(OUTER))).replace("{hex}", f"{len(OUTER):x}")
def told(data, path=CHAT, **more):
    status, answer = send(data, path, **more)
    return [status, answer.decode("utf-8", "replace")[:400].lower()]
"""
SMUGGLE = """
from concurrent.futures import ThreadPoolExecutor
def first_line(text):
    return raw(filled(text).encode("latin-1")).split(b"\\r\\n")[0].decode("latin-1")
with ThreadPoolExecutor(8) as pool:
    for name, line in zip(ATTACKS, pool.map(first_line, ATTACKS.values())):
        show([name, line])
show(["after", ask("after")])
done()
"""
STEER = """
lines = [
    ("Host", "203.0.113.1"), ("X-Forwarded-Host", "203.0.113.1"), ("X-Api-Base", "http://203.0.113.1"),
    ("X-Base-Url", "http://203.0.113.1"), ("X-Original-URL", "/v1/files"), ("Forwarded", "host=203.0.113.1"),
    ("X-Litellm-Api-Base", "http://203.0.113.1"), ("Helicone-Target-Url", "http://203.0.113.1"),
    ("OpenAI-Organization", "org-other"), ("OpenAI-Project", "other"), ("Cookie", "session=1"),
    ("X-HTTP-Method-Override", "DELETE"), ("Proxy-Authorization", "Basic eA=="), ("api-key", "other"),
    ("x-api-key", "other"), ("x-goog-api-key", "other"), ("Accept-Encoding", "gzip, br"), ("Via", "1.1 x"),
    ("Authorization", "Bearer " + TOKEN), ("Authorization", "Bearer other"), ("Te", "trailers"),
    ("Connection", "keep-alive, authorization, content-type"), ("X-Harmless", "kept"),
]
head = "".join(f"{name}: {value}\\r\\n" for name, value in lines)
body = body_of("steered").decode()
query = "?api_base=http://203.0.113.1&key=other&beta=true"
text = f"POST {CHAT}{query} HTTP/1.1\\r\\n{head}Content-Length: {len(body)}\\r\\n\\r\\n{body}"
show(raw(text.encode()).split(b"\\r\\n")[0].decode())
for path in ATTACKS["paths"]:
    show([path, *told(body_of("path"), filled(path))])
for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
    show([method, *told(body_of("method"), CHAT, method=method)])
for encoding in ("gzip", "br", "zstd", "deflate, gzip", "aes128gcm"):
    show([encoding, *told(body_of("packed"), CHAT, headers={"content-encoding": encoding})])
done()
"""
FORBIDDEN = """
for kind in ("provider_tools", "remote_urls", "stored"):
    for path, text in ATTACKS[kind]:
        show([kind, text, *told(filled(text).encode(), filled(path))])
for name, text in ATTACKS["bodies"].items():
    show(["bodies", name, *told(filled(text).encode(), CHAT)])
show(["after", ask("after")])
done()
"""
LARGE = """
show(["header", *told(body_of("large"), CHAT, headers={"x-large": "a" * (1 << 20)})])
show(["headers", *told(body_of("large"), CHAT, headers={f"x-{n}": "a" for n in range(20_000)})])
show(["address", *told(body_of("large"), CHAT + "?" + "a" * (1 << 20))])
show(["body", *told(b" " * (65 << 20), CHAT)])
slow = []
for number in range(150):
    one = socket.create_connection((HOST, PORT), 10)
    begun = f"POST {CHAT} HTTP/1.1\\r\\nHost: relay\\r\\nAuthorization: Bearer {TOKEN}\\r\\n"
    one.sendall((begun if number % 2 else begun + "Content-Length: 1000\\r\\n\\r\\n{").encode())
    slow.append(one)
show(["beside the slow", ask("beside the slow")])
for one in slow:
    one.close()
show(["after", ask("after")])
done()
"""


def script(text: str, attacks: object = None) -> str:
    """An agent's script; `attacks` are what it sends."""
    return f"{BEGIN}ATTACKS = json.loads({json.dumps(json.dumps(attacks))})\n{text}"


def check_books(ran: Ran, provider: Provider, texts: Sequence[str]) -> None:
    """What arrived is what was admitted, byte for byte, and all of it is paid exactly."""
    arrived = [one for one in provider.taken if one.text in texts]
    assert {one.text for one in provider.taken} <= set(texts)
    assert {(one.method, one.path.partition("?")[0]) for one in arrived} == {("POST", "/v1/chat/completions")}
    assert {json.loads(one.body)["model"] for one in arrived} == {"house-model"}
    records = (*ran.records("request"), *ran.records("sent"))
    sent = {one["call"]: one["payload"]["sha256"] for one in records}
    assert sorted(hashlib.sha256(one.body).hexdigest() for one in arrived) == sorted(sent.values())
    assert len(ran.records("admit")) == len(arrived) == ran.seen["relay_calls"]
    assert ran.report.spent_nusd == ran.money.spent_nusd == EXACT_NUSD * len(arrived)
    assert ran.money.closed and ran.money.open_holds == {}


def test_no_request_is_read_in_two_ways(
    house: House, provider: Provider, capfd: pytest.CaptureFixture[str]
) -> None:
    """Request smuggling through forwarder and relay: an inner request is refused like any other.

    None of it is worth a line on the operator's terminal.
    """
    ran = house.run(house.order(script(SMUGGLE, ATTACKS["raw"])))
    assert ran.end == PASSED
    seen = dict(ran.shown)
    assert seen.pop("after") == 200
    assert [name for name, line in seen.items() if line.split()[1:2] >= ["500"]] == [], seen
    check_books(ran, provider, ["outer", "after"])
    assert capfd.readouterr().err == ""
    good = {name for name, line in seen.items() if " 200 " in line}
    assert {"two good calls at once", "files after a good call", "side model after a good call"} <= good
    assert "length and chunked" not in good and "two lengths" not in good


def test_nothing_but_the_body_reaches_the_provider(house: House, provider: Provider) -> None:
    """relay.md 5.16: headers, addresses and queries neither steer the relay nor pass it."""
    ran = house.run(house.order(script(STEER, {"paths": ATTACKS["paths"]})))
    assert ran.end == PASSED
    first, *rest = ran.shown
    assert first == "HTTP/1.1 200 OK"
    assert [one for one in rest if one[1] not in (404, 405, 415, 400, 403)] == []
    check_books(ran, provider, ["steered"])
    (taken,) = provider.taken
    assert taken.path == "/v1/chat/completions?api_base=http://203.0.113.1&beta=true"
    assert taken.header("authorization") == [f"Bearer {KEY}"]
    assert taken.header("host") == [provider.base_url.removeprefix("http://").removesuffix("/v1")]
    assert taken.header("accept-encoding") == ["identity"] and taken.header("x-harmless") == ["kept"]
    words = {value for name, value in taken.headers if name.lower() != "x-harmless"}
    assert not [one for one in words if "203.0.113.1" in one or "other" in one or "session" in one]


def test_what_the_provider_would_do_itself_is_refused(house: House, provider: Provider) -> None:
    """Issue 4 deliver 3: provider-run tools, remote URLs, stored input in every spelling; odd bodies."""
    ran = house.run(house.order(script(FORBIDDEN, ATTACKS), step_limit=5))
    assert ran.end == PASSED
    *rows, after = ran.shown
    assert after == ["after", 200]
    refused = {"provider_tools": "provider_tool_denied", "remote_urls": "remote_url_denied"}
    codes = {**refused, "stored": "stored_input_denied"}
    assert [row for row in rows if row[0] in codes and not (row[2] == 403 and codes[row[0]] in row[3])] == []
    assert [row for row in rows if row[0] == "bodies" and row[2] not in (400, 403)] == []
    check_books(ran, provider, ["after"])


def test_large_and_slow_requests_hold_nobody_up(house: House, provider: Provider) -> None:
    """Headers, address and body have limits, and 150 half-sent requests leave room for others."""
    orders = {"it": house.order(script(LARGE)), "honest": house.order("assert ask('honest') == 200; done()")}
    ran = house.run_all(orders)
    assert {name: one.end for name, one in ran.items()} == {"it": PASSED, "honest": PASSED}
    seen = {name: status for name, status, *_ in ran["it"].shown}
    assert seen["body"] in (0, 413) and seen["header"] in (0, 400, 431) and seen["address"] in (0, 400, 414)
    assert seen["headers"] in (0, 400, 431)
    assert seen["beside the slow"] == seen["after"] == 200
    provider.taken = [one for one in provider.taken if one.text != "honest"]
    check_books(ran["it"], provider, ["beside the slow", "after"])
