"""Calls to an endpoint against real servers on loopback: limits, redirects, TLS, answers that never end."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from workers.adapters.endpoint import link as module
from workers.adapters.endpoint.link import SESSION_HEADER, EndpointLink, Limit, Target
from workers.adapters.shell.bounds import Bounds
from workers.adapters.shell.errors import DeadlinePassedError, LinkBrokenError, StoppedError
from workers.adapters.shell.transport import Answer

GOOD = {"choices": [{"message": {"role": "assistant", "content": "hey"}}]}
Handle = Callable[[http.server.BaseHTTPRequestHandler], None]


def reply(status: int, body: bytes, **headers: str) -> Handle:
    """Answers so, whatever is asked."""

    def handle(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, text in {"content-length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), text)
        request.end_headers()
        request.wfile.write(body)

    return handle


class Server:
    """An endpoint on loopback that notes what it was asked."""

    def __init__(self, handle: Handle, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): text for name, text in self.headers.items()}
                outer.asked.append((self.path, headers, json.loads(raw)))
                self.close_connection = True
                handle(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    made: list[Server] = []

    def start(handle: Handle, tls: ssl.SSLContext | None = None) -> Server:
        made.append(Server(handle, tls))
        return made[-1]

    yield start
    for server in made:
        server.close()


def bounds(seconds: float = 60.0, stop: Callable[[], bool] = lambda: False) -> Bounds:
    return Bounds(time.monotonic() + seconds, stop)


def link_to(port: int, **changes: Any) -> EndpointLink:
    address = (int(socket.AF_INET), ("127.0.0.1", port))
    values = {"url": f"http://agent.test:{port}/v1/", "address": address, "tls": None}
    return EndpointLink(Target(**{**values, "session": "s-1", "step_limit": 3, "key": None, **changes}))


def post(link: EndpointLink, within: Bounds | None = None) -> Answer:
    return link.post("/ignored", {"authorization": "Bearer lane"}, {"model": "agent"}, within or bounds())


def test_a_call(serve: Callable[..., Server]) -> None:
    """Below the base URL, with the session and the endpoint's key; a lane's token never leaves."""
    server = serve(reply(200, json.dumps(GOOD).encode(), connection="close"))
    link = link_to(server.port, key="sk-1")
    assert post(link).body == GOOD and link.answered == 1
    ((path, headers, body),) = server.asked
    assert (path, body) == ("/v1/chat/completions", {"model": "agent"})
    assert headers[SESSION_HEADER] == "s-1" and headers["authorization"] == "Bearer sk-1"
    assert headers["host"] == f"agent.test:{server.port}", "the name is sent, the address is called"
    assert "authorization" not in link_to(server.port)._headers()


def test_the_limit_on_calls(serve: Callable[..., Server]) -> None:
    """One beyond is refused here, and not sent; failed ones do not count."""
    server = serve(reply(200, b"{}"))
    link = link_to(server.port, step_limit=2)
    assert [post(link).status for _ in range(3)] == [200, 200, 403]
    assert len(server.asked) == 2 and link.reached is Limit.STEPS
    failing = link_to(serve(reply(500, b"{}")).port, step_limit=1)
    assert [post(failing).status for _ in range(3)] == [500, 500, 500] and failing.reached is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(serve: Callable[..., Server], status: int) -> None:
    """Wherever they lead: the answer ends the loop like a refusal."""
    target = serve(reply(200, b"{}"))
    server = serve(reply(status, b"", location=f"http://127.0.0.1:{target.port}/"))
    answer = post(link_to(server.port))
    assert answer.status == 403 and answer.body is not None and answer.body["error"]["code"] == "redirect"
    assert target.asked == []


def test_answers_are_bounded_one_by_one_and_together(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is too long has no body; when the try's bytes are used up nothing more is asked."""
    monkeypatch.setattr(module, "ANSWER_LIMIT_BYTES", 1_000)
    monkeypatch.setattr(module, "TRY_LIMIT_BYTES", 2_500)
    server = serve(reply(200, json.dumps({"x": "y" * 1_200}).encode()))
    link = link_to(server.port, step_limit=None)
    assert [post(link).body for _ in range(2)] == [None, None]
    statuses = [post(link).status for _ in range(3)]
    assert statuses[-1] == 403 and link.reached is Limit.BYTES and len(server.asked) < 5


def test_a_head_without_end_is_broken_off(serve: Callable[..., Server]) -> None:
    """Headers are bounded by the client itself."""

    def flood(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            request.wfile.write(b"x-a: " + b"y" * 1_000 + b"\r\n")

    with pytest.raises(LinkBrokenError):
        post(link_to(serve(flood).port))


@pytest.mark.parametrize(
    "raw", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n"]
)
def test_what_is_no_answer(serve: Callable[..., Server], raw: bytes) -> None:
    """Broken off, not HTTP, or without an end of its own."""
    with pytest.raises(LinkBrokenError):
        post(link_to(serve(lambda request: request.wfile.write(raw) and None).port))


def drip(request: http.server.BaseHTTPRequestHandler) -> None:
    """A byte now and then, for ever."""
    request.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    pause = threading.Event()
    while True:
        request.wfile.write(b" ")
        request.wfile.flush()
        pause.wait(0.02)


def test_a_drip_fed_answer_outlasts_no_deadline(serve: Callable[..., Server]) -> None:
    """Neither the attempt's, nor that of one call, nor a cancel."""
    port = serve(drip).port
    with pytest.raises(DeadlinePassedError):
        post(link_to(port), bounds(0.3))
    stops = iter([False] * 3)
    with pytest.raises(StoppedError):
        post(link_to(port), bounds(60, lambda: next(stops, True)))


def test_a_call_has_a_limit_of_its_own(serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is trouble that may be tried again, not the attempt's end."""
    monkeypatch.setattr(module, "CALL_LIMIT_S", 0.3)
    with pytest.raises(LinkBrokenError, match="no answer"):
        post(link_to(serve(drip).port))


def test_nobody_there() -> None:
    """Refused, and an address that swallows everything."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(LinkBrokenError, match="ConnectionRefusedError"):
            post(link_to(held.getsockname()[1]))


def certificate(folder: Path, name: x509.GeneralName) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate for `name`, and the file of who vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, secret)
    return context, cert


def test_tls_is_verified(serve: Callable[..., Server], tmp_path: Path) -> None:
    """By the name in the URL, whatever the address; none is believed without a known certificate."""
    context, cert = certificate(tmp_path, x509.DNSName("agent.test"))
    server = serve(reply(200, json.dumps(GOOD).encode()), context)
    known = ssl.create_default_context(cafile=str(cert))
    url = f"https://agent.test:{server.port}/v1"
    assert post(link_to(server.port, url=url, tls=known)).body == GOOD
    for tls, name in ((ssl.create_default_context(), "agent.test"), (known, "other.test")):
        with pytest.raises(LinkBrokenError, match="SSLCertVerificationError"):
            post(link_to(server.port, url=f"https://{name}:{server.port}/v1", tls=tls))
    assert len(server.asked) == 1


def test_tls_with_an_address_as_its_name(serve: Callable[..., Server], tmp_path: Path) -> None:
    """A house without names."""
    context, cert = certificate(tmp_path, x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    server = serve(reply(200, b"{}"), context)
    known = ssl.create_default_context(cafile=str(cert))
    assert post(link_to(server.port, url=f"https://127.0.0.1:{server.port}/v1", tls=known)).status == 200


def test_a_peer_that_never_shakes_hands(tmp_path: Path) -> None:
    """It accepts and says nothing: bounded like everything else."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = f"https://agent.test:{port}/v1"
        with pytest.raises(DeadlinePassedError):
            post(link_to(port, url=url, tls=ssl.create_default_context()), bounds(0.3))
