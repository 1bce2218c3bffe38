"""The way to the engine that a drill bends: what no rule matches goes through unchanged."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import pytest

from workers.faultline.proxy import EngineProxy, Rule


class Handler(BaseHTTPRequestHandler):
    """Says what it was asked, in a body of known length or in chunks."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, str, bytes]]

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.asked.append((self.command, self.path, body))
        data = json.dumps({"path": self.path, "got": body.decode()}).encode()
        self.send_response(200)
        if "chunked" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(data), 7):
                piece = data[at : at + 7]
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_POST = _serve

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "unix"


class Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was cut off goes away."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, host: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = host.removeprefix("unix://")

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(10)
        self.sock.connect(self._path)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    Handler.asked = []
    path = str(tmp_path / "engine.sock")
    with Server(path, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield path
        server.shutdown()
        thread.join()


def ask(host: str, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = UnixConnection(host)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/v1.41/info", "/v1.41/chunked"])
@pytest.mark.parametrize("body", [None, b"x" * 200_000])
def test_what_no_rule_matches_goes_through(engine: str, path: str, body: bytes | None) -> None:
    """Bodies of both framings, small and large, both ways."""
    with EngineProxy(engine, Rule("^GET /nothing")) as host:
        method = "GET" if body is None else "POST"
        status, answer = ask(host, method, path, body)
    assert status == 200
    assert json.loads(answer) == {"path": path, "got": (body or b"").decode()}


def test_a_refusal_comes_in_the_engines_place_and_once(engine: str) -> None:
    """The engine never sees the refused request, and the next one goes through; the version is no part."""
    rule = Rule(r"^POST /containers/create\?name=a$", refuse=(500, "no space left"))
    with EngineProxy(engine, rule) as host:
        assert ask(host, "POST", "/v1.41/containers/create?name=b", b"{}")[0] == 200
        assert not rule.used
        status, body = ask(host, "POST", "/v1.41/containers/create?name=a", b"{}")
        assert (status, json.loads(body)) == (500, {"message": "no space left"})
        assert ask(host, "POST", "/v1.41/containers/create?name=a", b"{}")[0] == 200
    assert rule.used and len(Handler.asked) == 2


def test_a_refusal_for_every_request(engine: str) -> None:
    """A pool that is used up stays so."""
    with EngineProxy(engine, Rule("^POST /networks/create$", refuse=(403, "overlaps"), always=True)) as host:
        assert [ask(host, "POST", "/v1.41/networks/create", b"{}")[0] for _ in range(3)] == [403] * 3
    assert Handler.asked == []


@pytest.mark.parametrize("path", ["/v1.41/containers/ab/json", "/v1.41/containers/ab/json?chunked"])
def test_an_answer_is_rewritten_when_the_rule_takes_it(engine: str, path: str) -> None:
    """None waits for a later answer; both framings are read whole."""
    seen: list[bytes] = []

    def lie(body: bytes) -> bytes | None:
        seen.append(body)
        return b'{"Image": "other"}' if len(seen) == 2 else None

    rule = Rule(r"^GET /containers/ab/json", rewrite=lie)
    with EngineProxy(engine, rule) as host:
        assert json.loads(ask(host, "GET", path)[1])["path"] == path
        assert not rule.used
        assert ask(host, "GET", path)[1] == b'{"Image": "other"}'
        assert json.loads(ask(host, "GET", path)[1])["path"] == path
    assert rule.used and len(seen) == 2


def test_a_stream_is_cut_after_its_head(engine: str) -> None:
    """The client has the head, and then nothing."""
    rule = Rule("^POST /exec/", cut=True)
    with EngineProxy(engine, rule) as host, pytest.raises(http.client.IncompleteRead):
        ask(host, "POST", "/v1.41/exec/ab/start", b"{}")
    assert rule.used


def test_a_blow_before_the_request_is_passed_on(engine: str) -> None:
    """It falls while the engine has not seen the request yet, and only where it finds something to hit."""
    struck: list[str] = []

    def strike(request: str) -> bool:
        struck.append(request)
        assert ("POST", "/v1.41/containers/b/exec", b"{}") not in Handler.asked
        return request.split("/")[2] == "b"

    rule = Rule("^POST /containers/.*/exec$", before=strike)
    with EngineProxy(engine, rule) as host:
        for name in ("a", "b", "c"):
            assert ask(host, "POST", f"/v1.41/containers/{name}/exec", b"{}")[0] == 200
    assert struck == ["POST /containers/a/exec", "POST /containers/b/exec"] and rule.used


def test_an_upgrade_is_passed_on_as_it_is(tmp_path: Path) -> None:
    """An exec's stream needs its own headers, and bytes of both sides in any order."""
    path = str(tmp_path / "raw.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                head = connection.recv(4096)
                assert b"Connection: Upgrade\r\nUpgrade: tcp" in head
                connection.sendall(b"HTTP/1.1 101 UPGRADED\r\n\r\nfirst ")
                connection.sendall(connection.recv(4096).upper())

        thread = threading.Thread(target=serve)
        thread.start()
        with EngineProxy(path, Rule("^GET /nothing")) as host:
            client = UnixConnection(host)
            client.connect()
            head = b"POST /v1.41/exec/ab/start HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
            client.sock.sendall(head)
            seen = b""
            while b"first " not in seen:
                seen += client.sock.recv(4096)
            client.sock.sendall(b"second")
            while more := client.sock.recv(4096):
                seen += more
            client.close()
        thread.join()
    assert seen.endswith(b"first SECOND")


def test_an_engine_that_is_not_there_ends_the_connection(tmp_path: Path) -> None:
    """As a worker sees an engine that is gone."""
    gone = (http.client.RemoteDisconnected, ConnectionResetError)
    with EngineProxy(str(tmp_path / "absent.sock"), Rule("^GET /x")) as host, pytest.raises(gone):
        ask(host, "GET", "/v1.41/info")
