"""The self-test's name server: notes every name once, answers with a refusal, and survives any packet."""

from __future__ import annotations

import json
import os
import socket
import threading

import pytest

from workers.sandbox.forwarder.names import question, refusal, serve

QUERY = b"AZ\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07Example\x03com\x00\x00\x01\x00\x01"


def test_a_query_is_read_and_refused() -> None:
    """Its identifier and question come back; the answer is one, with status 5 and no records."""
    assert question(QUERY) == "example.com"
    answer = refusal(QUERY)
    assert answer[:2] == b"AZ" and answer[2] & 0x80 and answer[3] & 15 == 5
    assert answer[4:12] == b"\x00\x01" + bytes(6) and answer[12:] == QUERY[12:]


@pytest.mark.parametrize(
    "packet", [b"", QUERY[:12], refusal(QUERY), QUERY[:15], QUERY[:12] + b"\xc0\x0c", QUERY[:12] + b"\x00"]
)
def test_what_is_no_query_is_ignored(packet: bytes) -> None:
    """Too short, an answer, cut off, a pointer, or no name."""
    assert question(packet) is None


def test_an_odd_name_cannot_break_the_line() -> None:
    """Control characters and bytes beyond ASCII are shown as question marks."""
    assert question(QUERY[:12] + b"\x04a\n\xff \x00\x00\x01\x00\x01") == "a???"


def test_every_name_is_noted_once() -> None:
    """Over a real socket."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    reader, writer = os.pipe()
    threading.Thread(target=serve, args=(server, writer), daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client, os.fdopen(reader) as lines:
        client.settimeout(10)
        client.connect(server.getsockname())
        for packet in (b"?", QUERY, QUERY, QUERY.replace(b"Example", b"another")):
            client.send(packet)
            if packet != b"?":
                assert client.recv(512) == refusal(packet)
        assert [json.loads(lines.readline())["asked"] for _ in range(2)] == ["example.com", "another.com"]
