"""One canonical JSON, one base64: the fast readers accept exactly what the plain ones do."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator import canonical
from orchestrator.certificates import schema
from orchestrator.verification import wire
from orchestrator.verification.errors import VerificationError

KEYS = st.text(st.characters(max_codepoint=127), max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-canonical.MAX_INTEGER, canonical.MAX_INTEGER)
    | st.text(max_size=12)
)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)


@given(DOCUMENTS)
def test_canonical_bytes_equal_rfc_8785(document: Any) -> None:
    """Within the profile our encoder writes the bytes of the independent RFC 8785 implementation."""
    try:
        ours = canonical.encode(document)
    except canonical.CanonicalFormError:
        return  # a lone surrogate, which RFC 8785 refuses too
    assert ours == rfc8785.dumps(document)
    assert wire.parse(ours) == document


def accepted(read: Callable[[bytes], object], raw: bytes) -> tuple[bool, object]:
    try:
        return True, read(raw)
    except (VerificationError, canonical.CanonicalFormError):
        return False, None


@given(
    st.binary(max_size=60)
    | DOCUMENTS.map(lambda d: json.dumps(d).encode())
    | st.text(max_size=40).map(str.encode)
)
@example(b'{"a":1,"a":1}')
@example(b"1.0")
@example(b"NaN")
@example(b"-0")
@example(b"9007199254740992")
@example(b"9007199254740991")
@example(b'"\\ud800"')
@example(b'{"\xd0\xb0":1}')
@example(b"[" * 65 + b"]" * 65)
@example(b"[" * 64 + b"]" * 64)
@example(b"[" * 100_000)
@example(b"9" * 5000)
@example(b"\xef\xbb\xbf1")
def test_fast_parser_accepts_what_the_plain_one_does(raw: bytes) -> None:
    """`wire.parse` and `canonical.decode_strict` agree on every input."""
    assert accepted(wire.parse, raw) == accepted(canonical.decode_strict, raw)


def reencodes(text: bytes) -> bytes:
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data) != text:
        raise ValueError
    return data


@given(
    st.binary(max_size=12).map(base64.b64encode)
    | st.binary(max_size=12)
    | st.text("AQg/+=-_ \n", max_size=9).map(str.encode)
)
@example(b"Zh==")
@example(b"Zg=")
@example(b"Zg")
@example(b"Zg==Zg==")
@example(b"=")
def test_base64_reader_accepts_what_re_encodes(text: bytes) -> None:
    """Checking the last group is the same as encoding everything again."""
    try:
        expected: bytes | None = reencodes(text)
    except ValueError:
        expected = None
    try:
        found: bytes | None = wire.base64_decode(text)
    except VerificationError:
        found = None
    assert found == expected


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_jcs_documents(name: str, vectors: Callable[[str], Path]) -> None:
    """Documents of the JCS suite: ours gives the published bytes, or refuses what the profile excludes."""
    source = json.loads(vectors(f"jcs/input/{name}.json").read_text())
    published = vectors(f"jcs/output/{name}.json").read_bytes()
    try:
        ours = canonical.encode(source)
    except canonical.CanonicalFormError:
        assert outside(source), "refused for no reason"
        return
    assert not outside(source)
    assert ours == published


def outside(value: Any) -> bool:
    """Whether the profile excludes a document: a fraction, or a key that is not ASCII."""
    if isinstance(value, dict):
        return any(not key.isascii() or outside(item) for key, item in value.items())
    if isinstance(value, list):
        return any(outside(item) for item in value)
    return isinstance(value, float)


VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**53 - 1,
    2**53,
    101,
    "",
    "x",
    "a b",
    "A",
    'q"',
    "\\",
    "\u00e9",
    [],
    {},
    1.5,
    "1",
    [1],
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [path, *(p for name in value for p in places(value[name], (*path, name)))]
    if isinstance(value, list):
        return [path, *(p for number, item in enumerate(value) for p in places(item, (*path, number)))]
    return [path]


def edit(document: Any, chance: random.Random) -> None:
    path = chance.choice([place for place in places(document) if place])
    *way, last = path
    holder = document
    for step in way:
        holder = holder[step]
    kind = chance.randrange(4)
    if kind == 0 and isinstance(holder, dict):
        holder[chance.choice(["extra", "Aaa", "zz"])] = chance.choice(VALUES)
    elif kind == 1:
        del holder[last]
    elif kind == 2 and isinstance(holder, list):
        holder.append(holder[last])
    else:
        holder[last] = chance.choice(VALUES)


def with_later_fields(statement: dict[str, Any]) -> dict[str, Any]:
    """A try certificate with every field that earlier ones lack."""
    body = statement["predicate"]
    model = {"role": "main", "id": "model-a", "snapshot": None, "provider": "house"}
    body["agent"]["models"] = [model, {**model, "role": "small"}]
    body["conditions"] |= {"agentUser": "agent", "outputTokens": 4096}
    body["usage"]["providers"] = [{"name": "house", "address": "https://models.example/v1"}]
    return statement


@pytest.mark.parametrize(
    ("kind", "later"),
    [
        (schema.OPENING, False),
        (schema.TRY, False),
        (schema.TRY, True),
        (schema.SUMMARY, False),
        (schema.NOTICE, False),
    ],
)
def test_recognised_statements_would_pass_the_table(kind: str, later: bool, world: Any, lab: Any) -> None:
    """What the expression of the usual statement accepts, parser and table accept without remark."""
    shot = world.screening()
    signed = shot.run("alpha", 1, lab.PASS)
    envelopes = {
        schema.OPENING: shot.opening.envelope,
        schema.TRY: signed.envelope,
        schema.SUMMARY: shot.summary().envelope,
        schema.NOTICE: shot.noticed(0),
    }
    genuine, is_usual = lab.payload_of(envelopes[kind]), schema._IS_USUAL[kind]
    genuine = with_later_fields(genuine) if later else genuine
    raw = lab.json_bytes(genuine)
    assert is_usual(raw), "the usual statement takes the short way"
    chance = random.Random(7)
    recognised = 0
    for _ in range(4000):
        document = json.loads(raw)
        edit(document, chance)
        spelled = lab.json_bytes(document)
        if is_usual(spelled):
            recognised += 1
            assert schema.shape(wire.parse(spelled), kind) == []
    assert recognised > 30, "the edits reach values that are accepted too"
    for _ in range(4000):
        spelled = bytes(_flip(raw, chance))
        if is_usual(spelled):
            assert schema.shape(wire.parse(spelled), kind) == []


def test_recognised_manifests_would_pass_the_table(world: Any, lab: Any) -> None:
    """The same for evidence manifests."""
    signed = world.screening().run("alpha", 1, lab.PASS)
    raw = signed.manifest
    assert schema._is_usual_manifest(raw)
    chance = random.Random(8)
    for number in range(6000):
        document = json.loads(raw)
        edit(document, chance)
        spelled = lab.json_bytes(document) if number % 2 else bytes(_flip(raw, chance))
        if schema._is_usual_manifest(spelled):
            found = wire.parse(spelled)
            schema._manifest.check(found, [])
            assert found == schema.read_manifest(spelled)


def _flip(raw: bytes, chance: random.Random) -> bytearray:
    data = bytearray(raw)
    data[chance.randrange(len(data))] = chance.randrange(256)
    return data
