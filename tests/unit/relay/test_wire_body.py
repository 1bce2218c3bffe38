"""Strict JSON of request bodies: what we read is what the provider will read, or it is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.relay.wire.body import MAX_DEPTH
from workers.relay.wire.errors import BadRequestError
from workers.relay.wire.refusals import Refusal
from workers.relay.wire.request import parse_body

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers() | FINITE | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)

BAD: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"{",
    "a list": b"[]",
    "a string": b'"model"',
    "null": b"null",
    "two documents": b"{}{}",
    "two models": b'{"model":"cheap","model":"dear"}',
    "two models, one escaped": b'{"model":"cheap","mod\\u0065l":"dear"}',
    "a key twice far down": b'{"a":[{"b":{"c":1,"c":1}}]}',
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":[-Infinity]}',
    "a number beyond doubles": b'{"a":1e999}',
    "an integer beyond reason": b'{"a":' + b"9" * 5000 + b"}",
    "Latin-1": b'{"a":"\xe9"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "half a surrogate pair": b'{"a":"\\ud83d"}',
    "half a surrogate pair as a key": b'{"\\uDE00":1}',
    "an encoded surrogate": b'{"a":"\xed\xa0\xbd"}',
    "a raw line end in a string": b'{"a":"\n"}',
    "too deep": b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
    "far too deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
}


@pytest.mark.parametrize("raw", BAD.values(), ids=BAD.keys())
def test_anything_but_one_plain_object_is_refused(raw: bytes) -> None:
    """Always with the code that becomes a 400."""
    with pytest.raises(BadRequestError) as refused:
        parse_body(raw)
    assert refused.value.code is Refusal.INVALID_REQUEST


@given(st.dictionaries(st.text(), VALUES, max_size=5), st.booleans())
def test_an_accepted_body_is_read_as_json_reads_it(body: dict[str, Any], ascii_only: bool) -> None:
    """Values, types and the order of keys; and what is written again is an equal document."""
    raw = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8")
    found = parse_body(raw)
    again = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    assert again == json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    assert json.loads(again) == body


def test_a_whole_surrogate_pair_is_one_character() -> None:
    """Both escaped spellings and the plain character are the same text."""
    assert parse_body(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}
    assert parse_body(b'{"a":"\\\\ud83d"}') == {"a": "\\ud83d"}


def test_the_deepest_allowed_body_passes() -> None:
    """The limit counts the body itself."""
    depth = MAX_DEPTH - 1
    assert parse_body(b'{"a":' + b"[" * depth + b"]" * depth + b"}")


def test_a_wide_body_is_not_a_deep_one() -> None:
    """Many objects side by side."""
    body: dict[str, Any] = {"tools": [{"parameters": {}} for _ in range(500)]}
    assert parse_body(json.dumps(body).encode()) == body
