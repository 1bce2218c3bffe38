"""The byte pump between a port in the namespace and the relay's Unix socket.

One thread, one poll loop. An agent may open as many connections as it likes and read as slowly as it likes:
every connection has a fixed share of memory, and those above the limit wait to be accepted.
"""

from __future__ import annotations

import select
import socket
import sys
import time

MAX_CONNECTIONS = 200
CHUNK_BYTES = 64 * 1024
BUFFER_BYTES = 64 * 1024
"""Asked of the kernel for every socket (it takes twice as much): its own growth has no useful limit."""

CONNECT_WAIT = (5).to_bytes(8, sys.byteorder) + bytes(8)
"""A `struct timeval` of five seconds: how long the relay may take to make room for a connection."""
_NOTHING = memoryview(b"")


class Flow:
    """One direction of a connection: what was read and not yet written is at most one chunk.

    The end of `source` is passed on as the end of writing to `sink`. `upward` is the direction to the
    relay. A client that is gone ends the connection (`broken`). A relay that is gone does not: its last
    words may still be on their way to the client, and what the client goes on sending is thrown away.
    """

    __slots__ = ("broken", "done", "ended", "sink", "source", "unheard", "upward", "waiting")

    def __init__(self, source: socket.socket, sink: socket.socket, *, upward: bool) -> None:
        self.source = source
        self.sink = sink
        self.upward = upward
        self.waiting = _NOTHING
        self.ended = self.done = self.broken = self.unheard = False

    def read(self) -> None:
        """Called when `source` has something to say."""
        try:
            data = self.source.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.broken = self.upward
            data = b""
        if data and not self.unheard:
            self.waiting = memoryview(data)
            self.write()
        elif not data:
            self.ended = True
            self._pass_end()

    def write(self) -> None:
        """Called when there may be room in `sink`."""
        try:
            self.waiting = self.waiting[self.sink.send(self.waiting) :]
        except BlockingIOError:
            return
        except OSError:
            self.waiting = _NOTHING
            self.unheard = self.upward
            self.broken = not self.upward
        if self.ended:
            self._pass_end()

    def _pass_end(self) -> None:
        if not self.waiting:
            self.done = True
            try:
                self.sink.shutdown(socket.SHUT_WR)
            except OSError:
                self.unheard = True  # it has closed already


class Link:
    """A client's connection and the one to the relay that was opened for it."""

    __slots__ = ("client", "down", "interests", "relay", "up")

    def __init__(self, client: socket.socket, relay: socket.socket) -> None:
        self.client = client
        self.relay = relay
        self.up = Flow(client, relay, upward=True)
        self.down = Flow(relay, client, upward=False)
        self.interests = {client: 0, relay: 0}

    def over(self) -> bool:
        """Nothing more will pass."""
        return (self.up.done and self.down.done) or self.up.broken or self.down.broken

    def close(self) -> None:
        """Give both sockets back."""
        self.client.close()
        self.relay.close()


class Forwarder:
    """The poll loop over a listener and its links."""

    def __init__(self, listener: socket.socket, relay_path: str) -> None:
        self._listener = listener
        self._relay_path = relay_path
        self._poll = select.epoll()
        self._links: dict[int, Link] = {}
        self._accepting = False
        listener.setblocking(False)
        self._accept_or_not()

    def serve(self, until: float) -> None:
        """Forward until the monotonic clock shows `until`."""
        while (left_s := until - time.monotonic()) > 0:
            for number, events in self._poll.poll(left_s):
                if number == self._listener.fileno():
                    self._accept()
                elif (link := self._links.get(number)) is not None:
                    self._serve_link(link, number, events)

    def _accept_or_not(self) -> None:
        room = len(self._links) < 2 * MAX_CONNECTIONS
        if room != self._accepting:
            self._accepting = room
            if room:
                self._poll.register(self._listener, select.EPOLLIN)
            else:
                self._poll.unregister(self._listener)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it went away again
        relay = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for end in (client, relay):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
            # Blocking: a queue that is full must not look like a relay that is gone.
            relay.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, CONNECT_WAIT)
            relay.connect(self._relay_path)
        except OSError:
            client.close()
            relay.close()
            return
        client.setblocking(False)
        relay.setblocking(False)
        link = Link(client, relay)
        self._links[client.fileno()] = self._links[relay.fileno()] = link
        self._watch(link)
        self._accept_or_not()

    def _serve_link(self, link: Link, number: int, events: int) -> None:
        from_client = number == link.client.fileno()
        inward, outward = (link.up, link.down) if from_client else (link.down, link.up)
        wanted = link.interests[link.client if from_client else link.relay]
        # Errors and hang-ups show themselves in whichever call was waited for.
        if wanted & select.EPOLLIN and events & ~select.EPOLLOUT:
            inward.read()
        if wanted & select.EPOLLOUT and events & ~select.EPOLLIN:
            outward.write()
        if link.over():
            del self._links[link.client.fileno()], self._links[link.relay.fileno()]
            link.close()
            self._accept_or_not()
        else:
            self._watch(link)

    def _watch(self, link: Link) -> None:
        """Ask for what can be used now; a socket of no use is taken out, or its hang-up would spin."""
        for end, inward, outward in ((link.client, link.up, link.down), (link.relay, link.down, link.up)):
            wanted = 0 if inward.waiting or inward.ended else select.EPOLLIN
            if outward.waiting:
                wanted |= select.EPOLLOUT
            before = link.interests[end]
            if wanted == before:
                continue
            link.interests[end] = wanted
            if not wanted:
                self._poll.unregister(end)
            elif before:
                self._poll.modify(end, wanted)
            else:
                self._poll.register(end, wanted)


def open_listener(host: str, port: int) -> socket.socket:
    """The listener; nobody else can bind the port while it is open (no SO_REUSEPORT)."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)  # connections inherit it
    listener.bind((host, port))
    listener.listen(128)
    return listener
