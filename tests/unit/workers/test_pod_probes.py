"""The probes of the preflight, against listeners of the test: what counts as reached, and what stopped it."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from workers.sandbox.forwarder.probes import Probe, ask_relay, run_probes


@contextmanager
def tcp_answer(answer: bytes) -> Iterator[int]:
    """A server that reads one request and answers it; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


@contextmanager
def name_server(answer: bytes) -> Iterator[int]:
    """A resolver that gives one answer; gives its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            _, address = server.recvfrom(1000)
            server.sendto(answer, address)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


def probed(kind: str, port: int, limit_s: float = 10.0) -> Probe:
    probe = Probe(kind, "127.0.0.1", port)
    run_probes([probe], limit_s)
    return probe


def test_a_connection_is_reached() -> None:
    """Even if it is closed at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe = probed("tcp", server.getsockname()[1])
    assert probe.reached and probe.error is None
    assert probe.as_data() == {"kind": "tcp", "target": probe.target, "reached": True, "error": None}


def test_loopback_may_refuse() -> None:
    """It is the namespace itself that refuses."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    probe = probed("tcp", port)
    assert (probe.reached, probe.error) == (False, "ECONNREFUSED")


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ECONNRESET])
def test_a_refusal_from_elsewhere_shows_a_way_out(number: int) -> None:
    """Somebody was there to refuse."""
    probe = Probe("tcp", "192.0.2.1", 22)
    probe.end(OSError(number, os.strerror(number)))
    assert probe.reached and probe.error == errno.errorcode[number]


@pytest.mark.parametrize(
    "number", [errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ETIMEDOUT, errno.EADDRNOTAVAIL]
)
def test_no_way(number: int) -> None:
    """These come from the namespace, or from nobody."""
    probe = Probe("tcp", "192.0.2.1", 22)
    probe.end(OSError(number, os.strerror(number)))
    assert not probe.reached and probe.error == errno.errorcode[number]


@pytest.mark.parametrize(("status", "reached"), [(0, True), (3, True), (2, False), (5, False)])
def test_a_resolver_of_ones_own(status: int, reached: bool) -> None:
    """An answer, or word that there is no such name, comes from outside; SERVFAIL and REFUSED do not."""
    with name_server(b"AZ\x81" + bytes([0x80 | status]) + bytes(8)) as port:
        probe = probed("dns", port)
    assert (probe.reached, probe.error) == (reached, f"RCODE_{status}")


def test_any_answer_of_an_outer_resolver_shows_a_way_out() -> None:
    """Whatever it says."""
    with name_server(b"AZ\x81\x85" + bytes(8)) as port:
        probe = Probe("dns", "127.0.0.1", port)
        probe.start()
        assert probe.socket is not None
        probe.socket.setblocking(True)
        probe.host = "192.0.2.1"
        probe.ready()
        probe.socket.close()
    assert probe.reached


def test_an_answer_too_short_is_named() -> None:
    """Garbage from the namespace's own loopback resolves nothing."""
    with name_server(b"AZ") as port:
        probe = probed("dns", port)
    assert (probe.reached, probe.error) == (False, "IndexError")


def test_silence_ends() -> None:
    """The rest of them does not wait for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        probe = probed("dns", silent.getsockname()[1], 0.01)
    assert (probe.reached, probe.error) == (False, "ETIMEDOUT")


def test_an_address_that_is_none() -> None:
    """A name server written in a form that the system does not take reaches nothing, and is told."""
    probe = Probe("dns", "fe80::1%nowhere", 53)
    run_probes([probe], 1)
    assert not probe.reached and probe.error


def test_the_target_of_ipv6_is_in_brackets() -> None:
    """So that the port can be told from the address."""
    assert Probe("tcp", "2001:db8::1", 443).target == "[2001:db8::1]:443"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", {"status": 200}),
        (b"HTTP/1.0 404 No\r\n\r\n", {"status": 404}),
        (b"", {"status": None, "error": "no HTTP answer"}),
        (b"SSH-2.0-x\r\n", {"status": None, "error": "no HTTP answer"}),
        (b"HTTP/9 200 OK\r\n", {"status": None, "error": "no HTTP answer"}),
        (b"HTTP/1.1 fine\r\n", {"status": None, "error": "no HTTP answer"}),
    ],
)
def test_the_relay_is_asked(answer: bytes, said: dict[str, object]) -> None:
    """Only a status line is an answer."""
    with tcp_answer(answer) as port:
        assert ask_relay(port) == said


def test_a_relay_that_is_not_there() -> None:
    """The reason is named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert ask_relay(port) == {"status": None, "error": "ECONNREFUSED"}
