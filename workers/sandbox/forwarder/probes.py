"""The preflight of a pod: what its namespace has, what can be reached from it, and whether the relay answers.

It runs in the forwarder, in the very namespace that the agent gets, before there is an agent. It collects
facts; `workers.sandbox.preflight` judges them.
"""

from __future__ import annotations

import errno
import select
import socket
import time

from workers.sandbox.forwarder.facts import namespace_facts

PROBE_S = 0.5
RELAY_ANSWER_S = 5.0
TARGETS = (
    ("169.254.169.254", 80),  # metadata services
    ("1.1.1.1", 443),
    ("8.8.8.8", 53),
    ("172.17.0.1", 2375),  # the engine, on the usual address of the default bridge
    ("172.17.0.1", 22),
    ("2606:4700:4700::1111", 443),
)
OUTER_NAME_SERVER = "8.8.8.8"
# Identifier, recursion desired, one question: the address of example.com.
_QUERY = b"AZ\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"
_ANSWERED_BY_HOST = ("ECONNREFUSED", "ECONNRESET")
_HELLO = b"HEAD /api/hello HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def first_name_server(text: str) -> str:
    """The first name server of a `resolv.conf`; the C library's default where none is named."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 1 and fields[0] == "nameserver":
            return fields[1]
    return "127.0.0.1"


class Probe:
    """One attempt to reach something; `error` names what stopped it.

    An answer is an answer: a refused connection shows a way out as well as an open one. Only the
    namespace's own loopback may refuse, or have a resolver that has nobody to ask.
    """

    def __init__(self, kind: str, host: str, port: int) -> None:
        self.kind = kind
        self.host = host
        self.port = port
        self.reached = False
        self.error: str | None = None
        self.over = False
        self.socket: socket.socket | None = None

    def start(self) -> None:
        """Send the first packet, if there is a way at all."""
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            kind = socket.SOCK_STREAM if self.kind == "tcp" else socket.SOCK_DGRAM
            self.socket = socket.socket(family, kind)
            self.socket.setblocking(False)
            code = self.socket.connect_ex((self.host, self.port))
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, "")
            if self.kind == "dns":
                self.socket.send(_QUERY)
        except OSError as error:
            self.end(error)

    def ready(self) -> None:
        """Take the answer."""
        assert self.socket is not None
        try:
            if self.kind == "tcp":
                code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    raise OSError(code, "")
                self.reached, self.over = True, True
            else:
                status = self.socket.recv(512)[3] & 15
                self.error = f"RCODE_{status}"
                # 0 has an answer in it and 3 is one: somebody outside was asked.
                self.reached, self.over = not self._own() or status in (0, 3), True
        except (OSError, IndexError) as error:
            self.end(error)

    def end(self, error: Exception) -> None:
        """Note why there was no answer, or what kind of refusal came."""
        number = error.errno if isinstance(error, OSError) else None
        self.error = errno.errorcode.get(number or 0, type(error).__name__)
        self.reached = self.error in _ANSWERED_BY_HOST and not self._own()
        self.over = True

    def _own(self) -> bool:
        return self.host.startswith("127.") or self.host == "::1"

    @property
    def target(self) -> str:
        """`address:port`, with an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def as_data(self) -> dict[str, object]:
        """`{"kind", "target", "reached", "error"}`; `error` is null only for a connection that was made."""
        return {"kind": self.kind, "target": self.target, "reached": self.reached, "error": self.error}


def run_probes(probes: list[Probe], limit_s: float) -> None:
    """Run all of them at once; whatever has no answer after `limit_s` ends as ETIMEDOUT."""
    poller = select.poll()
    by_number: dict[int, Probe] = {}
    for probe in probes:
        probe.start()
        if probe.socket is not None and not probe.over:
            by_number[probe.socket.fileno()] = probe
            poller.register(probe.socket, select.POLLOUT if probe.kind == "tcp" else select.POLLIN)
    until = time.monotonic() + limit_s
    while by_number and time.monotonic() < until:
        for number, _ in poller.poll(max(0.0, until - time.monotonic()) * 1000):
            poller.unregister(number)
            by_number.pop(number).ready()
    for probe in by_number.values():
        probe.end(TimeoutError(errno.ETIMEDOUT, ""))
    for probe in probes:
        if probe.socket is not None:
            probe.socket.close()


def ask_relay(port: int) -> dict[str, object]:
    """HTTP status of the relay's own answer, asked by the way that the agent will use."""
    try:
        with socket.create_connection(("127.0.0.1", port), RELAY_ANSWER_S) as connection:
            connection.settimeout(RELAY_ANSWER_S)
            connection.sendall(_HELLO)
            with connection.makefile("rb") as answer:
                version, status, *_ = answer.readline(1000).split()
        if version not in (b"HTTP/1.1", b"HTTP/1.0"):
            raise ValueError
        return {"status": int(status)}
    except OSError as error:
        return {"status": None, "error": errno.errorcode.get(error.errno or 0, type(error).__name__)}
    except ValueError:
        return {"status": None, "error": "no HTTP answer"}


def preflight(port: int | None, more_targets: list[tuple[str, int]]) -> dict[str, object]:
    """What this namespace has and reaches; `workers.sandbox.preflight.judge` says what it must be.

    Without a port there is no relay to ask.
    """
    with open("/etc/resolv.conf") as file:
        resolver = first_name_server(file.read())
    probes = [Probe("tcp", host, at) for host, at in (*TARGETS, *more_targets)]
    probes += [Probe("dns", host, 53) for host in (resolver, OUTER_NAME_SERVER)]
    run_probes(probes, PROBE_S)
    found = [probe.as_data() for probe in probes]
    relay = None if port is None else ask_relay(port)
    return {"version": 1, **namespace_facts("/proc/net"), "probes": found, "relay": relay}
