"""Provider keys never leave the relay (reference/relay.md section 2, transcript; report 15)."""

from __future__ import annotations

import base64
import itertools
import string
import urllib.parse

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from workers.relay.redact import MARK, Redactor

KEY = "sk-live-0123456789abcdefghijklmn"
SPECIAL = "sk/live+0123=456789 abcdefghij"
_LETTERS = string.ascii_letters + string.digits + "-_"
KEYS = st.text(_LETTERS, min_size=13, max_size=60)
SHORT = st.lists(st.integers(0, 10**6), max_size=12)


def forms(key: str) -> list[bytes]:
    return [key.encode(), base64.b64encode(key.encode()), urllib.parse.quote(key, safe="").encode()]


@pytest.mark.parametrize("key", [KEY, SPECIAL, "sk-ü-0123456789"])
def test_a_key_is_replaced_in_every_usual_form(key: str) -> None:
    """As it is, in base64 (a basic credential) and quoted for a URL."""
    redactor = Redactor([key])
    for form in forms(key):
        assert redactor.touches(b"a " + form + b" b")
        assert redactor.scrub(b"a " + form + b" b " + form) == b"a " + MARK + b" b " + MARK


def test_every_key_is_replaced() -> None:
    """Those of other providers too: an answer may come from anywhere."""
    redactor = Redactor([KEY, SPECIAL])
    assert redactor.scrub(f"{SPECIAL}{KEY}".encode()) == MARK + MARK


def test_a_key_that_holds_another_is_replaced_whole() -> None:
    """The longer one first, or its end would be left."""
    redactor = Redactor([KEY, f"{KEY}-with-more"])
    assert redactor.scrub(f"{KEY}-with-more".encode()) == MARK


@pytest.mark.parametrize("length", range(12, len(KEY)))
def test_a_long_beginning_of_a_key_is_replaced_as_far_as_it_goes(length: int) -> None:
    """Providers shorten keys in error texts: `sk-live-0123...`."""
    assert Redactor([KEY]).scrub(f"key {KEY[:length]}... is bad".encode()) == b"key " + MARK + b"... is bad"


def test_a_short_beginning_is_left() -> None:
    """`sk-live-` alone tells nothing, and stands in ordinary text."""
    text = f"keys begin with {KEY[:11]}".encode()
    assert Redactor([KEY]).scrub(text) == text


def test_a_key_too_short_to_be_one_is_left() -> None:
    """The empty key of a provider without one would match everywhere."""
    redactor = Redactor(["", "abc", "1234567"])
    assert redactor.scrub(b"abc 1234567") == b"abc 1234567"
    assert not redactor.touches(b"abc 1234567")


def test_text_is_scrubbed_as_bytes_are() -> None:
    """Header values, even with bytes that are no UTF-8."""
    assert Redactor([KEY]).scrub_text(f"a {KEY} \udcff") == f"a {MARK.decode()} �"


@given(KEYS, st.binary(max_size=80), st.integers(12, 60), st.binary(max_size=80))
def test_no_twelve_bytes_from_a_keys_beginning_survive(
    key: str, before: bytes, cut: int, after: bytes
) -> None:
    """Wherever the key or a long part from its beginning stands."""
    shown = Redactor([key]).scrub(before + key[:cut].encode() + after)
    assert key[:12].encode() not in shown
    assert not Redactor([key]).touches(shown)


@given(KEYS, st.binary(max_size=300))
def test_text_without_a_key_is_untouched(key: str, data: bytes) -> None:
    """Redaction is no other change, and `touches` says beforehand whether there is one."""
    redactor = Redactor([key])
    assume(key[:12].encode() not in data)
    assume(not any(form in data for form in forms(key)))
    assert redactor.scrub(data) == data
    assert not redactor.touches(data)


@given(KEYS, st.lists(st.binary(max_size=12), min_size=2, max_size=4), SHORT)
def test_a_key_in_pieces_is_replaced_wherever_it_is_split(
    key: str, between: list[bytes], cuts: list[int]
) -> None:
    """A stream is cut by the network, not by us: what may be the beginning of a key waits for its rest."""
    for form in forms(key):
        data = form.join(between)
        at = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
        stream = Redactor([key]).stream()
        pieces = [stream.feed(data[start:end]) for start, end in itertools.pairwise(at)]
        shown = b"".join(pieces) + stream.rest()
        assert key[:12].encode() not in shown
        assert not any(whole in shown for whole in forms(key))


@given(KEYS, st.binary(max_size=300), SHORT)
def test_pieces_without_a_key_come_out_as_they_went_in(key: str, data: bytes, cuts: list[int]) -> None:
    """Nothing is lost or doubled by waiting."""
    assume(not Redactor([key]).touches(data))
    at = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    stream = Redactor([key]).stream()
    pieces = [stream.feed(data[start:end]) for start, end in itertools.pairwise(at)]
    assert b"".join(pieces) + stream.rest() == data


def test_each_single_split_of_a_key_is_replaced() -> None:
    """Every place, for every form; nothing of the key is in what came out before its rest did."""
    redactor = Redactor([SPECIAL])
    for form in forms(SPECIAL):
        data = b"before " + form + b" after"
        for cut in range(len(data) + 1):
            stream = redactor.stream()
            assert stream.feed(data[:cut]) + stream.feed(data[cut:]) + stream.rest() == (
                b"before " + MARK + b" after"
            )


def test_only_what_may_be_the_beginning_of_a_key_waits() -> None:
    """Ordinary text goes on at once, so that nothing is delayed; what waited comes at the end."""
    stream = Redactor([KEY]).stream()
    assert stream.feed(b"ordinary text\n") == b"ordinary text\n"
    assert stream.feed(b"ends like a key: sk-l") == b"ends like a key: "
    assert stream.feed(b"eft after all") == b"sk-left after all"
    assert stream.feed(b" s") == b" "
    assert stream.rest() == b"s"
    assert stream.rest() == b""
