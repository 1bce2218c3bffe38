"""The byte pump, as a process of its own between a port and a Unix socket of the test."""

from __future__ import annotations

import hashlib
import random
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import workers

WAIT_S = 20
START = """
import sys, time
from workers.sandbox.forwarder import pump
pump.MAX_CONNECTIONS = int(sys.argv[2])
listener = pump.open_listener("127.0.0.1", 0)
forwarder = pump.Forwarder(listener, sys.argv[1])
print(listener.getsockname()[1], flush=True)
forwarder.serve(time.monotonic() + 120)
"""


class Both:
    """A pump and the socket that it leads to."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.path = folder / "relay.sock"
        self.relay = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.relay.bind(str(self.path))
        self.relay.listen(300)
        self.relay.settimeout(WAIT_S)
        root = Path(workers.__file__).parent.parent
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(self.path), str(limit)], stdout=subprocess.PIPE, cwd=root
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def client(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), WAIT_S)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """A client's end and the relay's end of one connection."""
        client = self.client()
        relay, _ = self.relay.accept()
        relay.settimeout(WAIT_S)
        return client, relay

    def close(self) -> None:
        self.relay.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path, 200)
    yield made
    made.close()


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Both]:
    made = Both(tmp_path, 2)
    yield made
    made.close()


def rest(end: socket.socket) -> bytes:
    """Everything up to the end of the stream."""
    return b"".join(iter(lambda: end.recv(1 << 16), b""))


def test_both_ways_and_both_ends(both: Both) -> None:
    """A client that has said everything still gets its answer, and the other way round."""
    client, relay = both.pair()
    with client, relay:
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert rest(relay) == b"question"
        relay.sendall(b"answer")
        relay.shutdown(socket.SHUT_WR)
        assert rest(client) == b"answer"


def test_the_relay_may_end_first(both: Both) -> None:
    """Its end of speech does not stop what the client goes on saying."""
    client, relay = both.pair()
    with client, relay:
        relay.sendall(b"early")
        relay.shutdown(socket.SHUT_WR)
        assert rest(client) == b"early"
        client.sendall(b"late")
        client.shutdown(socket.SHUT_WR)
        assert rest(relay) == b"late"


def test_much_in_both_directions_at_once(both: Both) -> None:
    """Neither direction waits for the other, and not a byte is lost, added or moved."""
    client, relay = both.pair()
    up, down = (random.Random(seed).randbytes(8 << 20) for seed in (1, 2))
    got: dict[str, str] = {}

    def speak(end: socket.socket, data: bytes) -> None:
        end.sendall(data)
        end.shutdown(socket.SHUT_WR)

    def listen(name: str, end: socket.socket) -> None:
        got[name] = hashlib.sha256(rest(end)).hexdigest()

    with client, relay:
        threads = [
            threading.Thread(target=speak, args=(client, up)),
            threading.Thread(target=speak, args=(relay, down)),
            threading.Thread(target=listen, args=("relay", relay)),
            threading.Thread(target=listen, args=("client", client)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
    assert got == {"relay": hashlib.sha256(up).hexdigest(), "client": hashlib.sha256(down).hexdigest()}


def test_a_piece_is_not_held_back(both: Both) -> None:
    """An event stream arrives as it is sent: each piece is read before the next one is written."""
    client, relay = both.pair()
    with client, relay:
        for number in range(50):
            piece = b"data: %d\n\n" % number
            relay.sendall(piece)
            assert client.recv(1000) == piece


def test_a_relay_that_refuses_early_is_heard(both: Both) -> None:
    """It answers and closes while the client still sends: the answer arrives, the rest is thrown away."""
    client, relay = both.pair()
    with client:
        with relay:
            client.sendall(b"x" * 100)
            relay.recv(10)
            relay.sendall(b"too large")
        client.sendall(b"x" * (4 << 20))
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b"too large"


def test_a_client_that_is_gone_is_told_to_the_relay(both: Both) -> None:
    """A hang-up is passed on, whether clean or not."""
    for reset in (False, True):
        client, relay = both.pair()
        with relay:
            if reset:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            assert rest(relay) == b""


def test_a_client_that_is_gone_ends_a_long_answer(both: Both) -> None:
    """The relay's write fails instead of waiting for ever."""
    client, relay = both.pair()
    with relay:
        client.close()
        with pytest.raises(OSError):
            for _ in range(10_000):
                relay.sendall(b"x" * 65_536)


def test_no_relay_no_connection(both: Both) -> None:
    """The client's connection is closed, and the pump goes on."""
    both.path.unlink()
    with both.client() as client:
        assert client.recv(10) == b""
    both.relay.close()
    both.relay = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    both.relay.bind(str(both.path))
    both.relay.listen()
    client, relay = both.pair()
    with client, relay:
        relay.sendall(b"back")
        assert client.recv(10) == b"back"


def test_those_above_the_limit_wait(narrow: Both) -> None:
    """They are served when another one has ended, in order."""
    first, second = narrow.pair(), narrow.pair()
    third = narrow.client()
    third.sendall(b"third")
    narrow.relay.setblocking(False)
    first[1].sendall(b"1")
    assert first[0].recv(1) == b"1"  # the loop has gone round, and took nobody in
    with pytest.raises(BlockingIOError):
        narrow.relay.accept()
    narrow.relay.settimeout(WAIT_S)
    for end in first:
        end.close()
    relay, _ = narrow.relay.accept()
    relay.settimeout(WAIT_S)
    assert relay.recv(10) == b"third"
    for end in (*second, third, relay):
        end.close()


def test_the_port_is_taken(both: Both) -> None:
    """No option of a second listener takes it, and no wider address."""
    for host in ("127.0.0.1", "0.0.0.0"):
        for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with socket.socket() as thief:
                if option is not None:
                    thief.setsockopt(socket.SOL_SOCKET, option, 1)
                with pytest.raises(OSError):
                    thief.bind((host, both.port))
                    thief.listen()


def test_many_short_connections(both: Both) -> None:
    """Nothing is kept of what has ended: far more of them than may be open at once."""
    for _ in range(500):
        client, relay = both.pair()
        with client, relay:
            client.sendall(b"a")
            assert relay.recv(1) == b"a"
