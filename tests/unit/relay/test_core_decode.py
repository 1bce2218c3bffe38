"""Answers that come packed although `identity` was asked for (reference/relay.md section 2, streams)."""

from __future__ import annotations

import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay import decode
from workers.relay.decode import Unpacker, UnpackError

BODY = b'{"usage": {"prompt_tokens": 3}}' * 40


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    at = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(at)]


@given(st.sampled_from(["gzip", "x-gzip", " GZip "]), st.lists(st.integers(0, 10**6), max_size=20))
def test_gzip_is_unpacked_wherever_it_is_split(name: str, cuts: list[int]) -> None:
    """Even inside its header and its checksum."""
    unpacker = Unpacker(name)
    packed = gzip.compress(BODY, mtime=0)
    assert b"".join(unpacker.feed(piece) for piece in pieces(packed, cuts)) == BODY


def test_every_single_split_of_gzip_is_unpacked() -> None:
    """All of them, not a sample."""
    packed = gzip.compress(b"short", mtime=0)
    for cut in range(len(packed) + 1):
        unpacker = Unpacker("gzip")
        assert unpacker.feed(packed[:cut]) + unpacker.feed(packed[cut:]) == b"short"


def test_deflate_is_unpacked() -> None:
    """With its zlib header, as RFC 9110 has it."""
    assert Unpacker("deflate").feed(zlib.compress(BODY)) == BODY


def test_what_was_read_before_a_cut_is_there() -> None:
    """A stream that breaks off gives the events that had come."""
    packed = zlib.compressobj(wbits=31)
    first = packed.compress(BODY) + packed.flush(zlib.Z_SYNC_FLUSH)
    assert Unpacker("gzip").feed(first) == BODY


@pytest.mark.parametrize("name", ["", "identity", "Identity "])
def test_bytes_that_are_not_packed_pass_as_they_are(name: str) -> None:
    """Nothing is active, and nothing is unreadable."""
    unpacker = Unpacker(name)
    assert unpacker.feed(b"\x1f\x8bnot gzip") == b"\x1f\x8bnot gzip"
    assert (unpacker.active, unpacker.unreadable) == (False, False)


@pytest.mark.parametrize("name", ["br", "zstd", "gzip, br", "compress", "aes128gcm"])
def test_an_encoding_that_is_not_read_here_passes_and_is_told(name: str) -> None:
    """The client may know it; what it used is then unknown to us."""
    unpacker = Unpacker(name)
    assert unpacker.feed(b"bytes") == b"bytes"
    assert (unpacker.active, unpacker.unreadable) == (False, True)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_packing_is_told_or_gives_bytes_but_nothing_else(at: int, change: int) -> None:
    """Never an error that the caller does not know."""
    packed = bytearray(gzip.compress(BODY, mtime=0))
    packed[at % len(packed)] ^= change
    try:
        Unpacker("gzip").feed(bytes(packed))
    except UnpackError as error:
        assert "damaged" in str(error)


def test_plain_text_that_claims_to_be_packed_is_damaged() -> None:
    """The header of the answer lies."""
    with pytest.raises(UnpackError, match="damaged"):
        Unpacker("gzip").feed(BODY)


def test_a_bomb_is_refused_in_one_piece_and_in_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small answer may not become a large memory (limit lowered for the test)."""
    monkeypatch.setattr(decode, "BODY_LIMIT_BYTES", 10_000)
    packed = gzip.compress(bytes(1_000_000), mtime=0)
    with pytest.raises(UnpackError, match="too large"):
        Unpacker("gzip").feed(packed)
    unpacker = Unpacker("gzip")
    with pytest.raises(UnpackError, match="too large"):
        for at in range(len(packed)):
            unpacker.feed(packed[at : at + 1])


def test_an_answer_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked ones have the same limit, all pieces together."""
    monkeypatch.setattr(decode, "BODY_LIMIT_BYTES", 10)
    unpacker = Unpacker("")
    assert unpacker.feed(b"x" * 10) == b"x" * 10
    with pytest.raises(UnpackError, match="too large"):
        unpacker.feed(b"x")
