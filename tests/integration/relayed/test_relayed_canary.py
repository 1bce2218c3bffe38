"""A provider's key is planted, and searched for wherever an attempt, its evidence and its house leave traces.

The provider does its worst: it echoes the key, whole and in parts and encoded, in headers, in a JSON answer,
in a stream, in errors. The agent reads all it can read and prints everything that looks like a key.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from workers.sandbox.client import Engine

if TYPE_CHECKING:
    from tests.assets.relayed.product import Product
    from tests.assets.relayed.provider import Provider, Taken

pytestmark = pytest.mark.docker

KEY = "sk-canary/7f3A+9bQ=xR2zK8wM4vT6yU1"
RAW = KEY.encode()
QUOTED = urllib.parse.quote(KEY, safe="")
ENCODED = base64.b64encode(RAW).decode()
NEEDLES = (RAW[:12], QUOTED[:14].encode(), ENCODED[:16].encode(), RAW[-12:])
"""Any long piece of the key, also of one that was cut, quoted or encoded; and its end."""
MARK = b"[provider key]"
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")

AGENT = """
import glob, re
SIGNS = ("yranac-ks"[::-1].encode(), "5JXYuFmY2c"[::-1].encode(), "JXYuF2Yt"[::-1].encode())

def look(name, data):
    for sign in SIGNS:
        for found in list(re.finditer(re.escape(sign), data))[:200]:
            print(name, data[max(0, found.start() - 40) : found.start() + 120], flush=True)

def read(path, limit=64 << 20):
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return b""

def answer(text, **more):
    connection = http.client.HTTPConnection(HOST, PORT, timeout=60)
    connection.request("POST", CHAT, body_of(text, **more), head_of())
    found = connection.getresponse()
    print(found.status, found.getheaders(), found.read().decode(), flush=True)

done()
if ask("attempt") == 200:
    for text in ("echo json", "echo headers", "echo error"):
        answer(text)
    answer("echo stream", stream=True)
    show([send(None, "/v1/models", method="GET")[1].decode(), send(None, "/", method="HEAD")[0]])
    print(dict(os.environ))
    for name in ("environ", "cmdline", "maps", "mountinfo", "status", "cgroup", "stack", "auxv"):
        for path in glob.glob(f"/proc/[0-9]*/{name}"):
            data = read(path)
            look(path, data)
            if name in ("environ", "cmdline", "mountinfo"):
                print(path, data)
    for path in glob.glob("/proc/net/*") + glob.glob("/proc/[0-9]*/fd/*"):
        look(path, read(path, 1 << 20) if path.startswith("/proc/net") else os.path.realpath(path).encode())
    for folder, _, names in os.walk("/"):
        if not folder.startswith(("/proc", "/sys")):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    look(path, read(path))
    with open("/proc/self/mem", "rb", 0) as memory:
        for line in read("/proc/self/maps").decode().splitlines():
            first, last = (int(one, 16) for one in line.split()[0].split("-"))
            try:
                memory.seek(first)
                look("memory", memory.read(min(last - first, 64 << 20)))
            except (OSError, ValueError, OverflowError):
                pass
    for family in (socket.AF_INET, socket.AF_UNIX):
        show([str(family), read("/proc/net/tcp").decode()[:2000], read("/proc/net/unix").decode()[:2000]])
    ask("late inspection")
    answer("401")
"""


class Echo:
    """The provider's part: it says the key in every way that it has."""

    def __init__(self, provider: Provider, shared: ModuleType) -> None:
        self._provider, self._shared, self._attempts = provider, shared, 0

    def __call__(self, taken: Taken) -> Any:
        shared, text = self._shared, taken.text
        said = f"{KEY} {QUOTED} {ENCODED} {KEY[:12]} {KEY[:20]}!"
        headers = (("x-echo", KEY), ("www-authenticate", f"Bearer {KEY}"), ("x-request-id", KEY))
        json_type = ("content-type", "application/json")
        if text == "attempt":
            self._attempts += 1
            if self._attempts > 1:
                return shared.error(400, "once is enough")
        if text == "echo json":
            return shared.Answer(parts=(json.dumps(shared.completion(said)).encode(),))
        if text == "echo headers":
            whole = json.dumps(shared.completion("see the headers")).encode()
            return shared.Answer(parts=(whole,), headers=(json_type, ("set-cookie", f"k={KEY}"), *headers))
        if text == "echo stream":
            return shared.streamed(self._torn(said))
        if text == "echo error":
            return shared.error(400, f"the key {said} is fine, the request is not", headers)
        if text == "401":
            return shared.error(401, f"Incorrect API key provided: {said}", headers)
        return self._provider.usual(taken)

    def _torn(self, said: str) -> Iterator[bytes]:
        """Every event in two pieces, torn inside the key."""
        for event in (self._shared.chunk(said), self._shared.chunk(None), b"data: [DONE]\n\n"):
            middle = event.find(RAW) + 8 if RAW in event else len(event) // 2
            yield event[:middle]
            yield event[middle:]


def found_in(data: bytes) -> list[bytes]:
    """The pieces of the key in some bytes, also inside of what is base64 there."""
    found = [needle for needle in NEEDLES if needle in data]
    for coded in BASE64.findall(data):
        text = coded.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        plain = base64.b64decode(text[: len(text) - (len(text) % 4 == 1)] + b"==")
        found += [needle for needle in NEEDLES if needle in plain]
    return found


def assert_clean(name: str, data: bytes) -> None:
    """No piece of the key is in it."""
    assert found_in(data) == [], name


def inspect_running(product: Product, shared: ModuleType, engine: Engine, worker: int) -> None:
    """Everything that can be seen of the attempt from outside while its agent runs."""
    installation = product.opened()
    try:
        filters = {"label": f"assize.home={installation.label}"}
    finally:
        installation.close()
    containers = engine.api.containers(all=True, filters=filters)
    roles = {one["Labels"].get("assize.role") for one in containers}
    assert {"agent", "forwarder"} <= roles
    for one in containers:
        assert_clean("inspect", json.dumps(engine.api.inspect_container(one["Id"])).encode())
        assert_clean("logs", engine.api.logs(one["Id"]) if one["State"] == "running" else b"")
    (relay,) = shared.relays_of(worker)
    for pid in (worker, relay):
        for name in ("cmdline", "environ"):
            assert shared.proc(pid, name) != b""
            assert_clean(f"{name} of {pid}", shared.proc(pid, name))
    (transcript,) = product.transcripts()
    for path in transcript.parent.parent.rglob("*"):
        if path.is_file():
            assert_clean(str(path), path.read_bytes())


def test_the_search_finds_what_it_is_for() -> None:
    """A search that finds nothing proves nothing unless it would have."""
    for said in (KEY, KEY[:12], QUOTED, ENCODED, base64.b64encode(b'{"a":"' + RAW + b'"}').decode()):
        assert found_in(f"x {said} y".encode()), said
    assert found_in(b"sk-canary/7 is cut short enough") == []


@pytest.mark.usefixtures("databases")
def test_no_key_is_reachable_or_left_anywhere(
    tmp_path: Path, provider: Provider, relayed: Callable[[str], ModuleType], engine: Engine
) -> None:
    """Issue 4: no provider key in any file, log, error, environment or memory in reach, or in evidence."""
    provider.answer = Echo(provider, relayed("provider"))
    relayed("house")
    shared = relayed("product")
    product: Product = shared.Product.made(tmp_path, AGENT, provider.base_url, KEY)
    gate = provider.gates["inspection"]
    process = product.screen()
    try:
        shared.wait_until(lambda: gate.arrived.is_set() or process.poll() is not None, gate.arrived.wait)
        assert process.poll() is None, product.errors()
        inspect_running(product, shared, engine, process.pid)
    finally:
        gate.go.set()
        process.wait(120)
    assert process.returncode == 0, product.errors()
    assert {one.header("authorization")[0] for one in provider.taken} == {f"Bearer {KEY}"}
    (voided,) = product.events("voided")
    assert voided["reason"] == "relay_fault"
    read = 0
    for path in tmp_path.rglob("*"):
        if path.is_file() and path != product.home / "key":
            assert_clean(str(path), path.read_bytes())
            read += 1
    assert read > 20, "home, evidence, certificates, ledger and the worker's own output were read"
    evidence = [path.read_bytes() for path in product.home.glob("evidence/sha256/*/*")]
    (transcript,) = [data for data in evidence if b'"kind":"open"' in data and b"echo stream" in data]
    assert transcript.count(MARK) > 10, "the key was there to be seen"
    assert any(b"echo" in data and MARK in data and b"environ" in data for data in evidence)
    assert list(product.home.glob("relay/*")) == []
