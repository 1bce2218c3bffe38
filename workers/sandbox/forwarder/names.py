"""A name server that knows no name: it notes what is asked for, and refuses. For self-tests of agents only.

In an ordinary try there is none at all, and a question fails at once; here it is refused at once.
"""

from __future__ import annotations

import json
import os
import socket

PORT = 53
MAX_NAMES = 200
_HEADER_BYTES = 12
_QUERY_MASK, _REFUSED = 0x01, 5


def question(packet: bytes) -> str | None:
    """The name in a query, in lower case with every odd byte as `?`; None for what is no query."""
    if len(packet) <= _HEADER_BYTES or packet[2] & 0x80:
        return None
    labels, at = [], _HEADER_BYTES
    while at < len(packet) and (size := packet[at]):
        label = packet[at + 1 : at + 1 + size]
        if size > 63 or len(label) < size:
            return None
        labels.append("".join(chr(one) if 0x21 <= one < 0x7F else "?" for one in label).lower())
        at += 1 + size
    return ".".join(labels) or None


def refusal(packet: bytes) -> bytes:
    """The answer to a query: its own identifier and question, and that it is refused."""
    flags = bytes([0x80 | packet[2] & _QUERY_MASK, _REFUSED])
    return packet[:2] + flags + packet[4:6] + bytes(6) + packet[_HEADER_BYTES:]


def open_server() -> socket.socket:
    """The socket at which a sandbox asks for names."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", PORT))
    return server


def serve(server: socket.socket, output: int) -> None:
    """Answer for ever; every new name is one line of JSON on the file descriptor `output`, up to a limit."""
    known: set[str] = set()
    while True:
        packet, sender = server.recvfrom(4096)
        name = question(packet)
        if name is None:
            continue
        if name not in known and len(known) < MAX_NAMES:
            known.add(name)
            os.write(output, json.dumps({"asked": name}).encode() + b"\n")
        server.sendto(refusal(packet), sender)
