"""A TCP connection, with or without TLS, that waits in ticks: nothing on it outlasts the attempt's bounds."""

from __future__ import annotations

import http.client
import io
import math
import os
import select
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from workers.adapters.endpoint.address import Address
from workers.adapters.shell.bounds import TICK_S, Bounds

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_Got = TypeVar("_Got")


def wait(connection: socket.socket, event: int, bounds: Bounds) -> None:
    """Until the event (of `select.poll`) is there; raises by `bounds`."""
    poller = select.poll()
    poller.register(connection, event)
    while True:
        bounds.check()
        if poller.poll(math.ceil(min(TICK_S, bounds.left_s()) * 1000)):
            return


class BoundedStream:
    """What `http.client` needs of a socket: `sendall`, `makefile`, `close`; at the end it is hung up."""

    def __init__(self, connection: socket.socket, bounds: Bounds) -> None:
        self._connection = connection
        self._bounds = bounds
        self.received_bytes = 0

    @classmethod
    def open(
        cls, address: Address, bounds: Bounds, tls: ssl.SSLContext | None = None, name: str = ""
    ) -> BoundedStream:
        """Connect, and with `tls` prove that `name` answers; raises `OSError` or by `bounds`."""
        connection = socket.socket(address[0], socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.connect_ex(address[1])
            wait(connection, select.POLLOUT, bounds)
            failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failed:
                raise OSError(failed, os.strerror(failed))
            if tls is None:
                return cls(connection, bounds)
            secured = tls.wrap_socket(connection, server_hostname=name, do_handshake_on_connect=False)
            connection = secured
            stream = cls(secured, bounds)
            stream._patiently(secured.do_handshake, select.POLLIN)
        except BaseException:
            connection.close()
            raise
        return stream

    def receive_into(self, buffer: WriteableBuffer) -> int:
        """Bytes as they come; 0 at the end."""
        count = self._patiently(partial(self._connection.recv_into, buffer), select.POLLIN)
        self.received_bytes += count
        return count

    def sendall(self, data: ReadableBuffer) -> None:
        """All of it, however slowly it is taken."""
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self._patiently(partial(self._connection.send, rest), select.POLLOUT) :]

    def makefile(self, mode: str = "rb", *_: object) -> io.BufferedReader:
        """The reading side."""
        return io.BufferedReader(_Reading(self))

    def close(self) -> None:
        """Nothing yet: `http.client` closes its socket before it reads the last answer from it."""

    def hang_up(self) -> None:
        """Both sides."""
        self._connection.close()

    def _patiently(self, act: Callable[[], _Got], event: int) -> _Got:
        while True:
            try:
                return act()
            except BlockingIOError:
                wait(self._connection, event, self._bounds)
            except ssl.SSLWantReadError:
                wait(self._connection, select.POLLIN, self._bounds)
            except ssl.SSLWantWriteError:
                wait(self._connection, select.POLLOUT, self._bounds)


class _Reading(io.RawIOBase):
    def __init__(self, stream: BoundedStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._stream.receive_into(buffer)


class BoundedConnection(http.client.HTTPConnection):
    """One connection for one call over a stream that is open already."""

    def __init__(self, host: str, stream: BoundedStream) -> None:
        super().__init__(host)
        self.sock = stream
